"""The past usage of guests: 0048_pre_usage_history.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0048_pre_usage_history"
down_revision = "0047_pre_snapshot_policies"


def upgrade() -> None:
    """Create the table of samples."""
    run_script_beside(__file__)
