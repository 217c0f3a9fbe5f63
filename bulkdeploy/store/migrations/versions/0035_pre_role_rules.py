"""Rules for roles that had none: 0035_pre_role_rules.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0035_pre_role_rules"
down_revision = "0034_pre_claims_of_fenced_hosts"


def upgrade() -> None:
    """Give roles without rules the rules of their type."""
    run_script_beside(__file__)
