"""VLANs that are dedicated to accounts: 0071_pre_dedicated_vlan_ranges.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0071_pre_dedicated_vlan_ranges"
down_revision = "0070_pre_volatile_offerings"


def upgrade() -> None:
    """Add the table of dedicated VLAN ranges."""
    run_script_beside(__file__)
