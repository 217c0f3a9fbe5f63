"""Claims of migrations that have not begun: 0058_pre_reserved_hosts.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0058_pre_reserved_hosts"
down_revision = "0057_pre_managed_deployments"


def upgrade() -> None:
    """Replace the index."""
    run_script_beside(__file__)
