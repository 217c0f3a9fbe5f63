"""Less written per VM, by indexes and fill factors: 0026_pre_fewer_writes.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0026_pre_fewer_writes"
down_revision = "0025_pre_traceparent"


def upgrade() -> None:
    """Change what there is."""
    run_script_beside(__file__)
