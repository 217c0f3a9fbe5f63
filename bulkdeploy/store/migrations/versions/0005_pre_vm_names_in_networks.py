"""The names that VMs hold in their networks: 0005_pre_vm_names_in_networks.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0005_pre_vm_names_in_networks"
down_revision = "0004_pre_client_fields"


def upgrade() -> None:
    """Add what is new; names that are there already are looked at by whoever wants one."""
    run_script_beside(__file__)
