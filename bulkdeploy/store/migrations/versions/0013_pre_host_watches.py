"""States of hosts by what is seen of them, and alerts: 0013_pre_host_watches.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0013_pre_host_watches"
down_revision = "0012_pre_allocations"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
