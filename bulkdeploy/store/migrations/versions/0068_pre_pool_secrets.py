"""Credentials and use of storage pools: 0068_pre_pool_secrets.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0068_pre_pool_secrets"
down_revision = "0067_pre_resource_details"


def upgrade() -> None:
    """Add the columns for credentials and use of storage pools."""
    run_script_beside(__file__)
