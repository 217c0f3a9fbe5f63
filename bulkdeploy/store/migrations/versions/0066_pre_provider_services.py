"""Services of providers: 0066_pre_provider_services.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0066_pre_provider_services"
down_revision = "0065_pre_leases"


def upgrade() -> None:
    """Add the column."""
    run_script_beside(__file__)
