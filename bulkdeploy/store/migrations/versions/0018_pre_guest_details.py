"""The details of guests that drivers keep: 0018_pre_guest_details.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0018_pre_guest_details"
down_revision = "0017_pre_cloudstack_driver"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
