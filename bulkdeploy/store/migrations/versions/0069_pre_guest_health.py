"""Health checks of guests: 0069_pre_guest_health.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0069_pre_guest_health"
down_revision = "0068_pre_pool_secrets"


def upgrade() -> None:
    """Add the columns and the table for health checks of guests."""
    run_script_beside(__file__)
