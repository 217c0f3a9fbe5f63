"""Roles of projects: 0063_pre_project_roles.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0063_pre_project_roles"
down_revision = "0062_pre_autoheal"


def upgrade() -> None:
    """Add the columns."""
    run_script_beside(__file__)
