"""Consoles of guests: 0014_pre_consoles.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0014_pre_consoles"
down_revision = "0013_pre_host_watches"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
