"""Volumes that are protected from being deleted: 0007_pre_volume_protection.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0007_pre_volume_protection"
down_revision = "0006_pre_login_attempts"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
