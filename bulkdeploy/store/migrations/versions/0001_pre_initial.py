"""The first schema: 0001_pre_initial.sql."""

from contextlib import closing
from pathlib import Path

from alembic import op

revision = "0001_pre_initial"
down_revision = None


def upgrade() -> None:
    """Make all tables. The driver itself runs the script: it takes many statements at once."""
    with closing(op.get_bind().connection.cursor()) as cursor:
        cursor.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
