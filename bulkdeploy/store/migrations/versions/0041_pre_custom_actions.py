"""Custom actions of extensions: 0041_pre_custom_actions.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0041_pre_custom_actions"
down_revision = "0040_pre_mac_prefixes"


def upgrade() -> None:
    """Create the table of custom actions."""
    run_script_beside(__file__)
