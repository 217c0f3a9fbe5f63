"""The release before lives with this one."""

from alembic import op

from bulkdeploy.store.migrations.revisions import known_revisions

revision = "9001_pre_more"
down_revision = known_revisions()[known_revisions().index(revision) - 1]


def upgrade() -> None:
    """Add what only the next release knows."""
    op.execute("ALTER TABLE zones ADD COLUMN of_the_next text")
