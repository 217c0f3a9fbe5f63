"""A guest cannot claim a host that was declared off: 0034_pre_claims_of_fenced_hosts.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0034_pre_claims_of_fenced_hosts"
down_revision = "0033_pre_guest_hardware"


def upgrade() -> None:
    """Replace the function that claims a guest's host."""
    run_script_beside(__file__)
