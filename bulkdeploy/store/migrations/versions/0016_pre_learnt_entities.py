"""The entities that were learnt from another cloud: 0016_pre_learnt_entities.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0016_pre_learnt_entities"
down_revision = "0015_pre_health"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
