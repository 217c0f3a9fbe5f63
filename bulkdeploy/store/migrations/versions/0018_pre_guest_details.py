"""What drivers keep of guests: 0018_pre_guest_details.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0018_pre_guest_details"
down_revision = "0010_pre_batches"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
