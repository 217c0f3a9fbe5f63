"""Migrations in SQL: each revision is a module with a script of the same name."""

from contextlib import closing
from pathlib import Path

from alembic import op


def run_script_beside(module: str) -> None:
    """Execute ``<module>.sql``, which is in the same folder. The file may contain many statements."""
    with closing(op.get_bind().connection.cursor()) as cursor:
        cursor.execute(Path(module).with_suffix(".sql").read_text(encoding="utf-8"))
