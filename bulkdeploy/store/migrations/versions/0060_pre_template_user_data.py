"""Registered user data of templates: 0060_pre_template_user_data.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0060_pre_template_user_data"
down_revision = "0059_pre_host_usage_intervals"


def upgrade() -> None:
    """Add the columns."""
    run_script_beside(__file__)
