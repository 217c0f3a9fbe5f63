"""Details of resources: 0067_pre_resource_details.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0067_pre_resource_details"
down_revision = "0066_pre_provider_services"


def upgrade() -> None:
    """Add the table."""
    run_script_beside(__file__)
