"""The release before lives with this one."""

from alembic import op

revision = "9001_pre_more"
down_revision = "0006_pre_login_attempts"


def upgrade() -> None:
    """Add what only the next release knows."""
    op.execute("ALTER TABLE zones ADD COLUMN of_the_next text")
