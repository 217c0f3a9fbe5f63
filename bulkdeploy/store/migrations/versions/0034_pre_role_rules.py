"""Rules for roles that had none: 0034_pre_role_rules.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0034_pre_role_rules"
down_revision = "0033_pre_guest_hardware"


def upgrade() -> None:
    """Give roles without rules the rules of their type."""
    run_script_beside(__file__)
