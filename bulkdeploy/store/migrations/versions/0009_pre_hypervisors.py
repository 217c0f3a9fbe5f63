"""Fences of guests and copies of templates: 0009_pre_hypervisors.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0009_pre_hypervisors"
down_revision = "0008_pre_secondary_addresses"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
