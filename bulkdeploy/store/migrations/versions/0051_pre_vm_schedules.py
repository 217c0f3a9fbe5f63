"""Schedules of virtual machines: 0051_pre_vm_schedules.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0051_pre_vm_schedules"
down_revision = "0050_pre_network_offering_places"


def upgrade() -> None:
    """Create the table of schedules."""
    run_script_beside(__file__)
