"""MAC addresses of different installations differ: 0040_pre_mac_prefixes.sql."""

from bulkdeploy.store.migrations.sql_script import run_script_beside

revision = "0040_pre_mac_prefixes"
down_revision = "0039_pre_requested_addresses"


def upgrade() -> None:
    """Let the numbers that MAC addresses are made of begin at a random multiple of 2^28."""
    run_script_beside(__file__)
