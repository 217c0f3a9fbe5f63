"""Deployments with a desired size: 0057_pre_managed_deployments.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0057_pre_managed_deployments"
down_revision = "0056_pre_host_ha"


def upgrade() -> None:
    """Add the table and the column."""
    run_script_beside(__file__)
