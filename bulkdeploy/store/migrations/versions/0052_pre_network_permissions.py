"""Permissions to use networks: 0052_pre_network_permissions.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0052_pre_network_permissions"
down_revision = "0051_pre_vm_schedules"


def upgrade() -> None:
    """Create the table of permissions."""
    run_script_beside(__file__)
