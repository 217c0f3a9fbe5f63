"""Rolling replacements: 0061_pre_replacements.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0061_pre_replacements"
down_revision = "0060_pre_template_user_data"


def upgrade() -> None:
    """Add the tables."""
    run_script_beside(__file__)
