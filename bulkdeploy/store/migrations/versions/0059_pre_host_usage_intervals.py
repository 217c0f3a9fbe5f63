"""The usage of hosts over time: 0059_pre_host_usage_intervals.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0059_pre_host_usage_intervals"
down_revision = "0058_pre_reserved_hosts"


def upgrade() -> None:
    """Create the table of intervals."""
    run_script_beside(__file__)
