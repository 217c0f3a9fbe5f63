"""Which image a copy is of, and how large it is: 0034_pre_template_copies.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0034_pre_template_copies"
down_revision = "0033_pre_guest_hardware"


def upgrade() -> None:
    """Add what is new."""
    run_script_beside(__file__)
