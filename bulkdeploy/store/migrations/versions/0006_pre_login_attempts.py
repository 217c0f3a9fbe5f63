"""The attempts to guess passwords: 0006_pre_login_attempts.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0006_pre_login_attempts"
down_revision = "0005_pre_vm_names_in_networks"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
