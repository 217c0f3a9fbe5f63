"""Snapshots of one volume: 0032_pre_volume_snapshots.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0032_pre_volume_snapshots"
down_revision = "0028_pre_unmanaged_guests"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
