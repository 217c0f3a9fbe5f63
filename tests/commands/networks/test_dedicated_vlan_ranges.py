"""VLANs that are dedicated to accounts: who gets them, and what is refused while they are dedicated."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.api.async_calls import change, refusal
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World

ISOLATED = "DefaultIsolatedNetworkOfferingWithSourceNatService"


@pytest.fixture
def wires(owned_world: World) -> Iterator[dict[str, Any]]:
    """The zone and the physical network of VLANs 100 to 104 and 110, in a new zone.

    Its networks are deleted afterwards: other tests limit how many an account has.
    """
    world = owned_world
    name = f"wired {len(world.rows('listZones', ADMIN))}"
    servers = {"dns1": "10.0.0.3", "internaldns1": "10.0.0.3"}
    zone = change(world, "createZone", ADMIN, name=name, networktype="Advanced", **servers)
    made = change(world, "createPhysicalNetwork", ADMIN, zoneid=zone["id"], name=name, vlan="100-104,110")
    change(world, "updatePhysicalNetwork", ADMIN, id=made["id"], state="Enabled")
    change(world, "updateZone", ADMIN, id=zone["id"], allocationstate="Enabled")
    yield {"zoneid": zone["id"], "physicalnetworkid": made["id"]}
    for network in world.rows("listNetworks", ADMIN, zoneid=zone["id"], listall=True):
        change(world, "deleteNetwork", ADMIN, id=network["id"])


def owner(world: World, name: str = USER) -> dict[str, str]:
    """The parameters that name an account."""
    return {"account": name, "domainid": world.id_of("domains", "acme")}


def isolated(world: World, wires: dict[str, Any], name: str) -> dict[str, Any]:
    """The parameters of a new isolated network."""
    offering = world.id_of("network_offerings", ISOLATED)
    return {"zoneid": wires["zoneid"], "networkofferingid": offering, "name": name}


def vlan_of_new(world: World, wires: dict[str, Any], by: str) -> str:
    """The VLAN of a new isolated network of a caller."""
    network = change(world, "createNetwork", by, **isolated(world, wires, f"of {by}"))["id"]
    return str(world.rows("listNetworks", ADMIN, id=network)[0]["vlan"])


def test_new_networks_of_an_account_get_its_vlans_and_those_of_others_do_not(
    owned_world: World, wires: dict[str, Any]
) -> None:
    """Dedicated VLANs come first, then VLANs that are not dedicated, unless the setting forbids these."""
    world, on = owned_world, {"physicalnetworkid": wires["physicalnetworkid"]}
    made = change(world, "dedicateGuestVlanRange", ADMIN, vlanrange="100-101", **on, **owner(world, NEIGHBOUR))
    assert (made["account"], made["guestvlanrange"]) == (NEIGHBOUR, "100-101")
    numbers = "SELECT ARRAY[zone_id, id] FROM physical_networks WHERE uuid = :physicalnetworkid"
    assert world.scalar(numbers, **on) == [made["zoneid"], made["physicalnetworkid"]]
    assert world.rows("listDedicatedGuestVlanRanges", id=made["id"]) == [made]
    assert world.rows("listDedicatedGuestVlanRanges", zoneid=wires["zoneid"], **owner(world)) == []
    callers = (USER, NEIGHBOUR, USER, NEIGHBOUR)
    assert [vlan_of_new(world, wires, by) for by in callers] == ["102", "100", "103", "101"]
    setting = {"name": "use.system.guest.vlans", "accountid": world.id_of("accounts", NEIGHBOUR)}
    change(world, "updateConfiguration", ADMIN, value="false", **setting)
    assert refusal(world, "createNetwork", NEIGHBOUR, **isolated(world, wires, "one more")).status == 533
    change(world, "updateConfiguration", ADMIN, value="true", **setting)
    assert vlan_of_new(world, wires, NEIGHBOUR) == "104"
    assert change(world, "releaseDedicatedGuestVlanRange", ADMIN, id=made["id"]) == {"success": True}
    assert world.rows("listDedicatedGuestVlanRanges", **on) == []
    assert refusal(world, "releaseDedicatedGuestVlanRange", ADMIN, id=made["id"]).status == 431


def test_a_range_must_be_free_and_part_of_the_physical_network(owned_world: World, wires: dict[str, Any]) -> None:
    """A range that continues another of the same owner becomes one with it, on both sides."""
    world, on = owned_world, {"physicalnetworkid": wires["physicalnetworkid"]}
    assert vlan_of_new(world, wires, NEIGHBOUR) == "100"
    for vlans, said in (
        ("100-101", "another account"),
        ("101", "such as 100-199"),
        ("103-102", "such as 100-199"),
        ("104-110", "100-104,110"),
    ):
        refused = refusal(world, "dedicateGuestVlanRange", ADMIN, vlanrange=vlans, **on, **owner(world))
        assert said in refused.errortext
    assert "name an account" in refusal(world, "dedicateGuestVlanRange", ADMIN, vlanrange="101-101", **on).errortext
    first = change(world, "dedicateGuestVlanRange", ADMIN, vlanrange="101-101", **on, **owner(world))
    change(world, "dedicateGuestVlanRange", ADMIN, vlanrange="103-103", **on, **owner(world))
    taken = refusal(world, "dedicateGuestVlanRange", ADMIN, vlanrange="103-104", **on, **owner(world, NEIGHBOUR))
    assert "dedicated already" in taken.errortext
    joined = change(world, "dedicateGuestVlanRange", ADMIN, vlanrange="102-102", **on, **owner(world))
    assert (joined["id"], joined["guestvlanrange"]) == (first["id"], "101-103")
    assert world.rows("listDedicatedGuestVlanRanges", **on) == [joined]
    kept = refusal(world, "updatePhysicalNetwork", ADMIN, id=on["physicalnetworkid"], vlan="100-102")
    assert "release them first" in kept.errortext
    for vlans in ("100-103", "100-101,102-103"):
        change(world, "updatePhysicalNetwork", ADMIN, id=on["physicalnetworkid"], vlan=vlans)


def test_who_is_no_root_admin_sees_only_the_own_ranges(owned_world: World, wires: dict[str, Any]) -> None:
    """Not even a role that allows the command shows ranges of other accounts."""
    world, on = owned_world, {"physicalnetworkid": wires["physicalnetworkid"]}
    for vlans, name in (("100-101", NEIGHBOUR), ("103-104", USER)):
        change(world, "dedicateGuestVlanRange", ADMIN, vlanrange=vlans, **on, **owner(world, name))
    named = {"rule": "listDedicatedGuestVlanRanges", "account": USER}
    world.change(
        "INSERT INTO role_rules (role_id, rule, permission, sort_order)"
        " SELECT role_id, :rule, 'allow', -1 FROM accounts WHERE name = :account",
        **named,
    )
    assert [row["account"] for row in world.rows("listDedicatedGuestVlanRanges", USER, **on)] == [USER]
    assert len(world.rows("listDedicatedGuestVlanRanges", ADMIN, **on)) == 2
    world.change("DELETE FROM role_rules WHERE rule = :rule AND sort_order = -1", rule=named["rule"])


def test_a_requested_vlan_is_one_of_the_owner(owned_world: World, wires: dict[str, Any]) -> None:
    """Other accounts cannot request a dedicated VLAN.

    An owner with free dedicated VLANs cannot request another VLAN of the physical network.
    """
    world, on = owned_world, {"physicalnetworkid": wires["physicalnetworkid"]}
    name = f"requested {wires['zoneid']}"
    offering = change(
        world,
        "createNetworkOffering",
        ADMIN,
        name=name,
        displaytext=name,
        guestiptype="L2",
        traffictype="GUEST",
        specifyvlan=True,
    )
    change(world, "updateNetworkOffering", ADMIN, id=offering["id"], state="Enabled")
    change(world, "dedicateGuestVlanRange", ADMIN, vlanrange="100-100", **on, **owner(world))
    named = {"zoneid": wires["zoneid"], "networkofferingid": offering["id"], "name": name}
    others = refusal(world, "createNetwork", ADMIN, **named, vlan="100", **owner(world, NEIGHBOUR))
    assert "dedicated to another account" in others.errortext
    elsewhere = refusal(world, "createNetwork", ADMIN, **named, vlan="101", **owner(world))
    assert "dedicated to the owner" in elsewhere.errortext
    outside = {**named, "name": f"outside {name}"}
    assert change(world, "createNetwork", ADMIN, **outside, vlan="4000", **owner(world))["vlan"] == "4000"
    assert change(world, "createNetwork", ADMIN, **named, vlan="100", **owner(world))["vlan"] == "100"
    assert change(world, "createNetwork", ADMIN, **named, vlan="101", **owner(world))["vlan"] == "101"


def test_ranges_that_are_extended_and_released_at_once_stay_apart(
    owned_world: World, wires: dict[str, Any]
) -> None:
    """Each call sees the rows that the one before it left, whichever comes first. No VLAN is dedicated twice."""
    world, on = owned_world, {"physicalnetworkid": wires["physicalnetworkid"]}
    first = change(world, "dedicateGuestVlanRange", ADMIN, vlanrange="101-101", **on, **owner(world))
    client = world.client(ADMIN)
    with ThreadPoolExecutor(3) as pool:
        with world.engine.begin() as connection:
            connection.execute(text("SELECT FROM dedicated_vlan_ranges FOR UPDATE"))
            named = {"id": first["id"]}
            calls = [pool.submit(client.get, "releaseDedicatedGuestVlanRange", **named)]
            wait_for_locks(world, 1)
            for vlans in ("102-102", "100-100"):
                wanted = {"vlanrange": vlans, **on, **owner(world)}
                calls.append(pool.submit(client.get, "dedicateGuestVlanRange", **wanted))
            wait_for_locks(world, 2)
        answers = [call.result(PATIENCE_S) for call in calls]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert ranges(world, on) == {"100-100", "102-102"}


def ranges(world: World, on: dict[str, Any]) -> set[str]:
    """The dedicated ranges of a physical network."""
    return {row["guestvlanrange"] for row in world.rows("listDedicatedGuestVlanRanges", ADMIN, **on)}


def wait_for_locks(world: World, number: int) -> None:
    """Wait until so many sessions wait for locks of others."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    wait_for(lambda: int(world.scalar(waiting)) >= number, f"{number} transactions wait for locks", pause_s=0.02)
