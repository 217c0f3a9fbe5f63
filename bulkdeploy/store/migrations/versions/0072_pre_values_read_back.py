"""Values that clients read back: 0072_pre_values_read_back.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0072_pre_values_read_back"
down_revision = "0071_pre_dedicated_vlan_ranges"


def upgrade() -> None:
    """Add the columns of maxconnections and zoneids."""
    run_script_beside(__file__)
