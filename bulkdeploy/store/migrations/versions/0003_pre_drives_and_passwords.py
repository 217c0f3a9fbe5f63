"""The drives of VMs, and their passwords: 0003_pre_drives_and_passwords.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0003_pre_drives_and_passwords"
down_revision = "0002_pre_commands"


def upgrade() -> None:
    """Add and fill what is new."""
    run_script_beside(__file__)
