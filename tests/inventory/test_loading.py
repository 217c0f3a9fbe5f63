"""Loading an inventory file into a real database."""

from pathlib import Path

from sqlalchemy import Engine

from bulkdeploy.services.inventory import load_inventory
from bulkdeploy.services.system import Cipher
from tests.inventory.support import all_rows

SMALL = Path(__file__).parents[1] / "zones" / "small.yaml"


def test_loading_twice_changes_nothing(engine: Engine, cipher: Cipher) -> None:
    """The second load of a file adds and changes no row of any table."""
    first = load_inventory(engine, cipher, SMALL)
    before = all_rows(engine)
    second = load_inventory(engine, cipher, SMALL)
    assert first.added["hosts"] == 12
    assert (dict(second.added), dict(second.changed)) == ({}, {})
    assert all_rows(engine) == before
