"""Roles that only root admins see: 0049_pre_private_roles.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0049_pre_private_roles"
down_revision = "0048_pre_usage_history"


def upgrade() -> None:
    """Add the column."""
    run_script_beside(__file__)
