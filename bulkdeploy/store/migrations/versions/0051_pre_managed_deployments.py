"""Deployments with a desired size: 0051_pre_managed_deployments.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0051_pre_managed_deployments"
down_revision = "0050_pre_network_offering_places"


def upgrade() -> None:
    """Add the table and the column."""
    run_script_beside(__file__)
