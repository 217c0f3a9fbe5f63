"""Rules of security groups that guests were given: 0020_pre_guest_filters.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0020_pre_guest_filters"
down_revision = "0018_pre_guest_details"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
