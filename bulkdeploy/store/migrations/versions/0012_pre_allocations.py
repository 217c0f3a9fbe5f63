"""Allocations with their age, and policies of allocation: 0012_pre_allocations.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0012_pre_allocations"
down_revision = "0010_pre_batches"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
