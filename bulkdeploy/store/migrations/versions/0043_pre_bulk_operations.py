"""Operations on many virtual machines: 0043_pre_bulk_operations.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0043_pre_bulk_operations"
down_revision = "0042_pre_usage"


def upgrade() -> None:
    """Create the table of bulk operations, and the column of jobs that names theirs."""
    run_script_beside(__file__)
