"""The fields that clients set and read back: 0004_pre_client_fields.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0004_pre_client_fields"
down_revision = "0003_pre_drives_and_passwords"


def upgrade() -> None:
    """Add and fill what is new."""
    run_script_beside(__file__)
