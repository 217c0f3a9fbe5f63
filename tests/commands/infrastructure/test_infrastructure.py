"""Zones, pods, clusters, hosts, pools and capacity: who sees what, and that the numbers are the ledger's."""

from typing import Any

import pytest

from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World

GIB = 1024**3


def capacity(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Capacity rows by type."""
    return {row["type"]: row for row in rows}


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (ADMIN, {"small", "for-rivals", "closed", "dedicated"}),
        (DOMAIN_ADMIN, {"small", "dedicated"}),
        (USER, {"small", "dedicated"}),
        (RIVAL, {"small", "for-rivals"}),
    ],
)
def test_zones_are_shown_to_who_may_use_them(world: World, caller: str, expected: set[str]) -> None:
    """Private, dedicated and disabled zones are hidden from those who cannot deploy there."""
    assert set(world.names("listZones", caller)) == expected
    assert set(world.names("listZones", caller, available="true")) == expected


def test_zones_where_nothing_runs_can_be_left_out(world: World) -> None:
    """``available=false`` shows a user only zones where its account has VMs."""
    assert world.names("listZones", USER, available="false") == ["small"]
    assert world.names("listZones", RIVAL, available="false") == ["for-rivals"]
    assert world.names("listZones", NEIGHBOUR, available="false") == ["small"]


def test_a_host_shows_what_is_promised_of_it(fresh_world: World) -> None:
    """Claims of a host are in its row: MHz, percent and bytes, before and after over-commit."""
    fresh_world.deploy("one", hostid=fresh_world.id_of("hosts", "a-1-1"))
    fresh_world.client().call(
        "updateConfiguration",
        name="cpu.overprovisioning.factor",
        value="2",
        clusterid=fresh_world.id_of("clusters", "a-1"),
    )
    (host,) = fresh_world.rows("listHosts", name="a-1-1")
    assert (host["cpunumber"], host["cpuspeed"], host["cpusockets"]) == (16, 2000, 2)
    assert host["cpuallocatedvalue"] == 500
    assert (host["cpuallocated"], host["cpuallocatedwithoverprovisioning"]) == ("1.56%", "0.78%")
    assert host["cpuwithoverprovisioning"] == "64000"
    assert (host["memorytotal"], host["memoryallocated"]) == (64 * GIB, GIB // 2)
    assert (host["memorywithoverprovisioning"], host["memoryallocatedpercentage"]) == (str(64 * GIB), "0.78%")


def test_hosts_have_parts(world: World) -> None:
    """``details=min`` leaves the numbers of the ledger out; an unknown word is refused."""
    whole, small = world.rows("listHosts", name="a-1-1")[0], world.rows("listHosts", name="a-1-1", details="min")[0]
    assert set(whole) - set(small) >= {"cpuallocated", "memoryallocated", "disksizetotal", "islocalstorageactive"}
    assert world.rows("listHosts", name="a-1-1", details="min,capacity") == [whole]
    assert world.client().get("listHosts", details="much").status == 431


def test_only_hosts_that_run_vms_are_listed(world: World) -> None:
    """``type=Routing`` is every host; of other types there are none."""
    assert world.rows("listHosts", type="routing") == world.rows("listHosts")
    assert world.client().call("listHosts", type="ConsoleProxy") == {}


def test_capacity_is_what_the_ledger_says(fresh_world: World) -> None:
    """Totals are after over-commit, what is used is what is claimed, at every level."""
    before = capacity(fresh_world.rows("listCapacity"))
    fresh_world.deploy("one", clusterid=fresh_world.id_of("clusters", "a-1"))
    after = capacity(fresh_world.rows("listCapacity"))
    assert {kind: row["capacitytotal"] for kind, row in after.items()} == {
        0: 12 * 64 * GIB,
        1: 12 * 16 * 2000,
        3: 2 * (4 * 5 + 10) * 1024 * GIB,
        8: 65525,
        90: 12 * 16,
    }
    used = {kind: after[kind]["capacityused"] - before[kind]["capacityused"] for kind in after}
    assert used == {0: GIB // 2, 1: 500, 3: 2 * GIB, 8: 1, 90: 1}
    for level in ("podid", "clusterid"):
        table, name = ("pods", "pod-a") if level == "podid" else ("clusters", "a-1")
        rows = capacity(fresh_world.rows("listCapacity", **{level: fresh_world.id_of(table, name)}))
        assert {kind: rows[kind]["capacityused"] for kind in (0, 1, 3, 90)} == {
            0: GIB // 2,
            1: 500,
            3: 2 * GIB,
            90: 1,
        }
        assert {row["podname"] for row in rows.values()} == {"pod-a"}


def test_capacity_leaves_disabled_hosts_out(fresh_world: World) -> None:
    """A host that the operator has disabled is no capacity, as in CloudStack."""
    fresh_world.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name LIKE 'a-1-%'")
    cluster = fresh_world.id_of("clusters", "a-1")
    assert set(capacity(fresh_world.rows("listCapacity", clusterid=cluster))) == {3}
    assert capacity(fresh_world.rows("listCapacity"))[1]["capacitytotal"] == 9 * 16 * 2000


def test_capacity_can_be_sorted_by_usage(world: World) -> None:
    """``sortby=usage`` answers the fullest first."""
    shares = [float(row["percentused"]) for row in world.rows("listCapacity", sortby="usage")]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]


def test_addresses_given_back_are_free(world: World) -> None:
    """Addresses that were handed out and released count as free; a pod counts its own ranges."""
    rows = capacity(world.rows("listCapacity", podid=world.id_of("pods", "pod-a")))
    assert (rows[8]["capacitytotal"], rows[8]["capacityused"], rows[8]["percentused"]) == (10, 3, "30")


@pytest.mark.parametrize("command", ["listZones", "listPods", "listClusters"])
def test_places_show_their_capacity_where_wanted(world: World, command: str) -> None:
    """``showcapacities`` puts into each place what listCapacity says of it."""
    level = {"listZones": "zoneid", "listPods": "podid", "listClusters": "clusterid"}[command]
    assert all("capacity" not in row for row in world.rows(command))
    for row in world.rows(command, showcapacities="true"):
        assert row["capacity"] == world.rows("listCapacity", **{level: row["id"]})


def test_shared_pools_promise_more_than_they_hold(fresh_world: World) -> None:
    """A pool's factor is its own where it has one; local disks promise what they hold."""
    pool = fresh_world.id_of("storage_pools", "a-1-primary")
    client = fresh_world.client()
    client.call("updateConfiguration", name="storage.overprovisioning.factor", value="3.5", storageid=pool)
    client.call("updateConfiguration", name="storage.overprovisioning.factor", value="1.5")
    factors = {row["name"]: row["overprovisionfactor"] for row in fresh_world.rows("listStoragePools")}
    assert (factors["a-1-primary"], factors["a-2-primary"]) == ("3.5", "1.5")
    rows = capacity(fresh_world.rows("listCapacity", clusterid=fresh_world.id_of("clusters", "a-1")))
    assert rows[3]["capacitytotal"] == int(3.5 * 5 * 1024 * GIB)


def test_hypervisors_are_those_of_the_clusters(world: World) -> None:
    """The hypervisors listed are those that there are clusters of, by zone where one is given."""
    assert world.names("listHypervisors") == ["KVM", "VMware"]
    assert world.names("listHypervisors", zoneid=world.id_of("zones", "for-rivals")) == ["VMware"]
    assert world.rows("listHypervisors", zoneid=world.id_of("zones", "closed")) == []
