"""Leases of virtual machines: 0065_pre_leases.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0065_pre_leases"
down_revision = "0064_pre_project_roles"


def upgrade() -> None:
    """Add the columns."""
    run_script_beside(__file__)
