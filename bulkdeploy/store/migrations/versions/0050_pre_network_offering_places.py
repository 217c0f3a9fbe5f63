"""Network offerings for some domains and zones: 0050_pre_network_offering_places.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0050_pre_network_offering_places"
down_revision = "0049_pre_private_roles"


def upgrade() -> None:
    """Add the domains and zones of network offerings; present offerings are for all of them."""
    run_script_beside(__file__)
