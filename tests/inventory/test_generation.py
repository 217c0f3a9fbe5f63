"""Generated zones: exactly as much as asked, the same every time, every invariant kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulkdeploy.domain.errors import InvalidInventory, InvalidParameter
from bulkdeploy.domain.inventory import Inventory
from bulkdeploy.services.inventory_file import parse_inventory
from bulkdeploy.services.inventory_generation import Size, generate_inventory, generated_inventories
from bulkdeploy.services.inventory_text import inventory_text
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.audit import check_invariants
from tests.inventory.support import all_rows, rows, value


def counts(inventories: list[Inventory]) -> tuple[int, ...]:
    """Zones, pods, clusters, hosts and VMs."""
    pods = [pod for inventory in inventories for pod in inventory.pods]
    clusters = [cluster for pod in pods for cluster in pod.clusters]
    hosts = sum(len(cluster.hosts) for cluster in clusters)
    vms = sum(load.count for cluster in clusters for load in cluster.loads)
    return len(inventories), len(pods), len(clusters), hosts, vms


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    """Any size that goes together."""
    zones = draw(st.integers(1, 3))
    pods = draw(st.integers(zones, 8))
    clusters = draw(st.integers(pods, 20))
    return Size(zones, pods, clusters, draw(st.integers(clusters, 60)), draw(st.integers(0, 200)))


@given(sizes())
@settings(deadline=None)
def test_there_is_exactly_as_much_as_asked(size: Size) -> None:
    """Zones, pods, clusters, hosts and VMs are the numbers given, and it is a file that breaks no rule."""
    inventories = list(generated_inventories(size))
    assert counts(inventories) == (size.zones, size.pods, size.clusters, size.hosts, size.vms)
    for inventory in inventories:
        assert parse_inventory("generated.yaml", inventory_text(inventory).encode()) == inventory


def test_the_same_numbers_give_the_same_zone() -> None:
    """Chance is repeatable; another prefix gives other zones."""
    size = Size(1, 2, 10, 50, 300)
    assert list(generated_inventories(size)) == list(generated_inventories(size))
    vms = [
        [load.count for pod in inventory.pods for cluster in pod.clusters for load in cluster.loads]
        for prefix in ("a", "b")
        for inventory in generated_inventories(size, prefix=prefix)
    ]
    assert vms[0] != vms[1]
    assert len(set(vms[0])) > 5


def test_a_generated_zone_keeps_every_invariant(engine: Engine, cipher: Cipher) -> None:
    """Two zones with running VMs are written, add up, and are written once."""
    size = Size(zones=2, pods=4, clusters=12, hosts=60, vms=700)
    reports = generate_inventory(engine, cipher, size)
    assert [report.zone for report in reports] == ["generated-1", "generated-2"]
    assert [breach for finding in check_invariants(engine) for breach in finding.breaches] == []
    assert value(engine, "SELECT count(*) FROM virtual_machines WHERE state = 'Running'") == 700
    assert rows(engine, "SELECT count(*), count(DISTINCT ip_address) FROM hosts GROUP BY zone_id") == [
        (30, 30),
        (30, 30),
    ]
    before = all_rows(engine)
    again = generate_inventory(engine, cipher, size)
    assert [(dict(report.added), dict(report.changed)) for report in again] == [({}, {}), ({}, {})]
    assert all_rows(engine) == before


@pytest.mark.parametrize(
    ("size", "parameter"),
    [
        (Size(0, 1, 1, 1, 0), "zones"),
        (Size(2, 1, 1, 1, 0), "pods"),
        (Size(1, 2, 1, 1, 0), "clusters"),
        (Size(1, 1, 2, 1, 0), "hosts"),
        (Size(1, 1, 1, 1, -1), "vms"),
        (Size(1, 1, 1, 10**9, 0), "hosts"),
        (Size(1, 1, 1, 1, 10**9), "vms"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(
    engine: Engine, cipher: Cipher, size: Size, parameter: str
) -> None:
    """Every zone needs a pod, every pod a cluster, every cluster a host; and there is an end."""
    with pytest.raises(InvalidParameter) as refused:
        generate_inventory(engine, cipher, size)
    assert refused.value.parameter == parameter


@pytest.mark.parametrize("prefix", ["", "-a", "a b", "ü", "x" * 40])
def test_a_prefix_must_fit_into_host_names(engine: Engine, cipher: Cipher, prefix: str) -> None:
    """VMs are named after it."""
    with pytest.raises(InvalidParameter, match="must be a short host name"):
        generate_inventory(engine, cipher, Size(1, 1, 1, 1, 0), prefix=prefix)


def test_more_vms_than_fit_are_refused(engine: Engine, cipher: Cipher) -> None:
    """VMs beyond what the hosts hold are refused, with how many fit, and nothing stays."""
    before = all_rows(engine)
    with pytest.raises(InvalidInventory, match=r"generated-1: count: \d+ of 5000 VMs fit"):
        generate_inventory(engine, cipher, Size(1, 1, 1, 2, 5000))
    assert all_rows(engine) == before
