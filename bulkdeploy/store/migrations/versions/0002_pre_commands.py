"""The schema before the first release: 0002_pre_commands.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0002_pre_commands"
down_revision = "0001_pre_initial"


def upgrade() -> None:
    """Add and fill what is new."""
    run_script_beside(__file__)
