"""Snapshot policies: 0047_pre_snapshot_policies.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0047_pre_snapshot_policies"
down_revision = "0046_pre_project_invitations"


def upgrade() -> None:
    """Create the table of policies."""
    run_script_beside(__file__)
