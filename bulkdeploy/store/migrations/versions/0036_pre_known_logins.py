"""The addresses that users have logged in from: 0036_pre_known_logins.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0036_pre_known_logins"
down_revision = "0035_pre_role_rules"


def upgrade() -> None:
    """Create the table."""
    run_script_beside(__file__)
