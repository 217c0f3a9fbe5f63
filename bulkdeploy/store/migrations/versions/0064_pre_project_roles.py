"""Roles of projects: 0064_pre_project_roles.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0064_pre_project_roles"
down_revision = "0063_pre_guest_usage_intervals"


def upgrade() -> None:
    """Add the columns."""
    run_script_beside(__file__)
