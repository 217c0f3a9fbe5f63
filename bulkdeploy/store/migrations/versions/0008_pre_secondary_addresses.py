"""Secondary addresses of nics: 0008_pre_secondary_addresses.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0008_pre_secondary_addresses"
down_revision = "0007_pre_volume_protection"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
