"""The addresses of nics that callers named: 0039_pre_requested_addresses.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0039_pre_requested_addresses"
down_revision = "0038_pre_image_sizes"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
