"""Writing an inventory as a file: reading the file gives the inventory again, whatever is in it."""

import pytest
from hypothesis import HealthCheck, given, settings

from bulkdeploy.domain.inventory import Inventory
from bulkdeploy.services.inventory.inventory_file import parse_inventory
from bulkdeploy.services.inventory.inventory_text import inventory_text
from tests.inventory.inventories import inventories
from tests.inventory.support import BASIC, DEMO, SMALL, changed


@given(inventories())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_what_is_written_is_read_back(inventory: Inventory) -> None:
    """Any inventory survives being written and read."""
    assert parse_inventory("f.yaml", inventory_text(inventory).encode()) == inventory


@pytest.mark.parametrize("path", [SMALL, DEMO, BASIC], ids=lambda path: path.stem)
def test_the_samples_survive_too(path) -> None:  # type: ignore[no-untyped-def]
    """The zones that come with the product, with their running VMs, are read back the same."""
    inventory = parse_inventory(path.name, path.read_bytes())
    written = inventory_text(inventory)
    assert parse_inventory("f.yaml", written.encode()) == inventory
    assert len(written.splitlines()) < 300


def test_hosts_that_do_not_count_up_are_not_one_group() -> None:
    """A gap in names or in addresses ends a group, however alike the hosts are."""
    group = "{{names: [{}], first_ip: {}, cpu_cores: 4, cpu_mhz: 2000, memory: 8 GiB}}"
    one = '{names: "host-{1..2}", first_ip: 10.0.0.11, cpu_cores: 4, cpu_mhz: 2000, memory: 8 GiB}'
    several = ", ".join([group.format("a-1, a-3", "10.0.0.11"), group.format("a-4", "10.0.0.14")])
    inventory = parse_inventory("f.yaml", changed(one, several).encode())
    written = inventory_text(inventory)
    assert written.count("first_ip") == 3
    assert parse_inventory("f.yaml", written.encode()) == inventory


def test_alike_hosts_are_one_line() -> None:
    """A hundred and twenty hosts are written as the groups that they came in."""
    written = inventory_text(parse_inventory("demo.yaml", DEMO.read_bytes()))
    assert (
        "{names: 'a-kvm-1-{01..10}', first_ip: 10.0.17.11, cpu_cores: 16, cpu_mhz: 2400, memory: 64 GiB}" in written
    )
    assert written.count("first_ip") == 15
