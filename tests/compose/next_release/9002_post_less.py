"""The release before does not live with this one."""

from alembic import op

revision = "9002_post_less"
down_revision = "9001_pre_more"


def upgrade() -> None:
    """Change what no older release may meet."""
    op.execute("ALTER TABLE zones RENAME COLUMN of_the_next TO its_name")
