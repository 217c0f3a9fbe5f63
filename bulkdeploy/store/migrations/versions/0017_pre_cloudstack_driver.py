"""Counterparts in clouds that are driven: 0017_pre_cloudstack_driver.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0017_pre_cloudstack_driver"
down_revision = "0016_pre_learnt_entities"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
