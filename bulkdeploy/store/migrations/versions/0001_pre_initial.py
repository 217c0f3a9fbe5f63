"""The first schema: 0001_pre_initial.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0001_pre_initial"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    run_script_beside(__file__)
