"""Templates of volumes: 0054_pre_volume_templates.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0054_pre_volume_templates"
down_revision = "0053_pre_network_offering_tags"


def upgrade() -> None:
    """Add the column of the VM whose volume a template is being made of."""
    run_script_beside(__file__)
