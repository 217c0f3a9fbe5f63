"""High availability of hosts: 0056_pre_host_ha.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0056_pre_host_ha"
down_revision = "0055_pre_bmcs"


def upgrade() -> None:
    """Add the states of high availability of hosts, and whether clusters and zones have it."""
    run_script_beside(__file__)
