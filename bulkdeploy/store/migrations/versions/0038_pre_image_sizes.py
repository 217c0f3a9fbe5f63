"""The space of fetched images in limits and pools: 0038_pre_image_sizes.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0038_pre_image_sizes"
down_revision = "0037_pre_template_copies"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
