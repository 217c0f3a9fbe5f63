"""Batches of unlike VMs: 0010_pre_batches.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0010_pre_batches"
down_revision = "0009_pre_hypervisors"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
