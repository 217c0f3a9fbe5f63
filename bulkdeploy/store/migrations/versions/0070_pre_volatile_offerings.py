"""Volatile service offerings: 0070_pre_volatile_offerings.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0070_pre_volatile_offerings"
down_revision = "0069_pre_guest_health"


def upgrade() -> None:
    """Add the column that marks volatile service offerings."""
    run_script_beside(__file__)
