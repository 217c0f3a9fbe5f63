"""Healing of managed deployments: 0062_pre_autoheal.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0062_pre_autoheal"
down_revision = "0061_pre_replacements"


def upgrade() -> None:
    """Add the columns."""
    run_script_beside(__file__)
