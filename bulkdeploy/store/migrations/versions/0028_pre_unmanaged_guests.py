"""Guests that no row owns keep their addresses: 0028_pre_unmanaged_guests.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0028_pre_unmanaged_guests"
down_revision = "0026_pre_fewer_writes"


def upgrade() -> None:
    """Change what there is."""
    run_script_beside(__file__)
