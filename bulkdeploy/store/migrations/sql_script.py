"""Migrations as SQL: each revision is a module with the script of the same name beside it."""

from contextlib import closing
from pathlib import Path

from alembic import op


def run_script_beside(module: str) -> None:
    """Run ``<module>.sql``. The driver itself runs it: it takes many statements at once."""
    with closing(op.get_bind().connection.cursor()) as cursor:
        cursor.execute(Path(module).with_suffix(".sql").read_text(encoding="utf-8"))
