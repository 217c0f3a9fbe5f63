"""The progress of following a CloudStack: 0021_pre_followed_clouds.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0021_pre_followed_clouds"
down_revision = "0020_pre_guest_filters"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
