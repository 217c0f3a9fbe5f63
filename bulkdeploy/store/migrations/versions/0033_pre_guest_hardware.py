"""The possible hardware of guests on hosts: 0033_pre_guest_hardware.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0033_pre_guest_hardware"
down_revision = "0032_pre_volume_snapshots"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
