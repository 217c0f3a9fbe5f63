"""Invitations to projects: 0046_pre_project_invitations.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0046_pre_project_invitations"
down_revision = "0045_pre_resources"


def upgrade() -> None:
    """Create the table of invitations."""
    run_script_beside(__file__)
