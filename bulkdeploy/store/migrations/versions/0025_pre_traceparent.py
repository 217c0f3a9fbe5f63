"""The span that made a job: 0025_pre_traceparent.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0025_pre_traceparent"
down_revision = "0022_pre_vm_snapshots"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
