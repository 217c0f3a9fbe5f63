"""Management controllers of hosts: 0055_pre_bmcs.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0055_pre_bmcs"
down_revision = "0054_pre_volume_templates"


def upgrade() -> None:
    """Add the management controllers of hosts, and whether clusters and zones use them."""
    run_script_beside(__file__)
