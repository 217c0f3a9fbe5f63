"""Snapshots of VMs: 0022_pre_vm_snapshots.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0022_pre_vm_snapshots"
down_revision = "0021_pre_followed_clouds"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
