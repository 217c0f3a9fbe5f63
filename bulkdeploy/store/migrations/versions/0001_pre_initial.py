"""The first schema."""

from alembic import op

from bulkdeploy.store.tables.catalog import metadata

revision = "0001_pre_initial"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)
