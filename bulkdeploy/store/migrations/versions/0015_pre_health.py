"""The rows about the health of the service: 0015_pre_health.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0015_pre_health"
down_revision = "0014_pre_consoles"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
