"""Annotations, regions and guest OS types of operators: 0045_pre_resources.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0045_pre_resources"
down_revision = "0044_pre_operation_pace"


def upgrade() -> None:
    """Create the tables of annotations and regions, and the columns of guest OS types that operators add."""
    run_script_beside(__file__)
