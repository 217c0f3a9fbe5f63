"""Rolling replacements: 0060_pre_replacements.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0060_pre_replacements"
down_revision = "0059_pre_host_usage_intervals"


def upgrade() -> None:
    """Add the tables."""
    run_script_beside(__file__)
