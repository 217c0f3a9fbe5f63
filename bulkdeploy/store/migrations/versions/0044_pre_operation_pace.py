"""The pace of bulk operations: 0044_pre_operation_pace.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0044_pre_operation_pace"
down_revision = "0043_pre_bulk_operations"


def upgrade() -> None:
    """Add the limits of an operation, and the index by which its held jobs are found."""
    run_script_beside(__file__)
