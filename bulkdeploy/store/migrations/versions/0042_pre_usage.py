"""Usage of guests, hosts and storage pools: 0042_pre_usage.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0042_pre_usage"
down_revision = "0041_pre_custom_actions"


def upgrade() -> None:
    """Create the tables of usage."""
    run_script_beside(__file__)
