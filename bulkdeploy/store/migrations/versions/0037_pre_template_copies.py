"""The image of a copy, and its size: 0037_pre_template_copies.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0037_pre_template_copies"
down_revision = "0036_pre_known_logins"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
