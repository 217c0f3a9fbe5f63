"""The usage of guests over time: 0063_pre_guest_usage_intervals.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0063_pre_guest_usage_intervals"
down_revision = "0062_pre_autoheal"


def upgrade() -> None:
    """Create the table of intervals."""
    run_script_beside(__file__)
