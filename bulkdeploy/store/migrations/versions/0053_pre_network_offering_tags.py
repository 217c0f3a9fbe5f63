"""Tags of network offerings: 0053_pre_network_offering_tags.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0053_pre_network_offering_tags"
down_revision = "0052_pre_network_permissions"


def upgrade() -> None:
    """Add the column of tags."""
    run_script_beside(__file__)
