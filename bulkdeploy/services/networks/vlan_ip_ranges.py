"""Address ranges: added to guest networks, or to a zone as public ones, and deleted."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.addresses import check_in_subnet, check_order, subnet_of
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, MissingParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import NetworkType
from bulkdeploy.services.live_entities import hold, subject
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure.physical_networks import with_public_traffic
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.live_rows import insert_row, own_uuid, remove_rows
from bulkdeploy.store.networks import vlan_ip_ranges

KIND = "VlanIpRange"
COMMAND = "createVlanIpRange"
VLAN = re.compile(r"[0-9]{1,8}", re.ASCII)
SHARED = "Shared"


def create_ranges(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Add ranges to guest networks; with ``forvirtualnetwork``, to zones' public addresses.

    Raises:
        MissingParameter, InvalidParameter, InvalidCombination: a value that breaks its rule, addresses outside the
            gateway's network, a range that overlaps another, or no network that it could belong to.
        PermissionDenied: the network is not the caller's to touch.
    """
    return [_create(connection, caller, given) for given in batch]


def _create(connection: Connection, caller: Caller, given: Arguments) -> EntityRef:
    place = _public(connection, given) if given.get("forvirtualnetwork") else _of_guests(connection, caller, given)
    addresses = _addresses(given, place.pop("defaults", {}))
    start, end = addresses["start_ip"], addresses["end_ip"]
    other = vlan_ip_ranges.overlapped(
        connection, start, end, network_id=place.get("network_id"), zone_id=place.get("zone_id")
    )
    if other is not None:
        raise InvalidParameter("startip", start, f"the range overlaps one from {other[0]} to {other[1]}")
    made = insert_row(connection, Entity.VLAN_IP_RANGE, {**own_uuid(given), **place, **addresses, "next_ip": start})
    text = f"created address range from {start} to {end}"
    record_event(connection, caller, EventType.VLAN_IP_RANGE_CREATE, text, subject(KIND, made))
    return made


def delete_range(connection: Connection, caller: Caller, one: EntityRef) -> None:
    """Delete a range that nobody has an address of.

    Raises:
        InvalidParameter: it was deleted.
        ResourceInUse: VMs have addresses of it.
    """
    hold(connection, one)
    if used := vlan_ip_ranges.count_addresses(connection, one.id):
        raise ResourceInUse(f"The address range can not be deleted: {used} of its address(es) are in use")
    remove_rows(connection, [one])
    text = f"deleted address range from {one.name}"
    record_event(connection, caller, EventType.VLAN_IP_RANGE_DELETE, text, subject(KIND, one))


def _public(connection: Connection, given: Arguments) -> dict[str, Any]:
    """The zone and the physical network of public addresses; the zone is held alone."""
    for parameter in ("networkid", "podid"):
        if parameter in given:
            raise InvalidCombination((parameter, "forvirtualnetwork"), f"{parameter} is for addresses of guests")
    zone: EntityRef | None = given.get("zoneid")
    if zone is None:
        raise MissingParameter(COMMAND, "zoneid")
    if hold(connection, zone, "zoneid")["network_type"] == NetworkType.BASIC:
        raise InvalidParameter("forvirtualnetwork", "true", f"Basic zone {zone.name} has no public addresses")
    carrying = with_public_traffic(connection, zone.id)
    wanted: EntityRef | None = given.get("physicalnetworkid")
    if not carrying or (wanted is not None and wanted.id not in carrying):
        shown = zone.name if wanted is None else wanted.name
        raise InvalidParameter(
            "physicalnetworkid", shown, "no traffic type Public is set up there; see addTrafficType"
        )
    if wanted is None and len(carrying) > 1:
        rule = f"zone {zone.name} has {len(carrying)} physical networks with traffic type Public; name one"
        raise InvalidParameter("physicalnetworkid", None, rule)
    return {"zone_id": zone.id, "physical_network_id": carrying[0] if wanted is None else wanted.id}


def _of_guests(connection: Connection, caller: Caller, given: Arguments) -> dict[str, Any]:
    """The guest network, held alone, with the pod in a Basic zone, and what the network says of its addresses."""
    network: EntityRef | None = given.get("networkid")
    zone: EntityRef | None = given.get("zoneid")
    pod: EntityRef | None = given.get("podid")
    if network is None:
        network = _only_network(connection, zone)
    row = hold(connection, network, "networkid")
    require_access(connection, caller, row["account_id"], f"network {network.uuid}")
    if zone is not None and row["zone_id"] != zone.id:
        raise InvalidParameter("networkid", str(network.uuid), f"network {network.name} is not in zone {zone.name}")
    if row["guest_type"] != SHARED:
        rule = f"network {network.name} is of type {row['guest_type']}; ranges are added to Shared ones"
        raise InvalidParameter("networkid", str(network.uuid), rule)
    place: dict[str, Any] = {"network_id": network.id, "pod_id": None}
    if pod is not None:
        if hold(connection, pod, "podid", shared=True)["zone_id"] != row["zone_id"]:
            raise InvalidParameter("podid", str(pod.uuid), f"pod {pod.name} is not in the network's zone")
        place["pod_id"] = pod.id
    elif vlan_ip_ranges.network_type(connection, row["zone_id"]) == NetworkType.BASIC:
        raise MissingParameter(COMMAND, "podid")
    place["defaults"] = {name: row[name] for name in ("gateway", "netmask", "vlan")}
    return place


def _only_network(connection: Connection, zone: EntityRef | None) -> EntityRef:
    if zone is None:
        raise MissingParameter(COMMAND, "networkid")
    found = vlan_ip_ranges.guest_networks(connection, zone.id)
    if len(found) != 1:
        rule = f"zone {zone.name} has {len(found)} guest networks; name one"
        raise InvalidParameter("networkid", None, rule)
    return found[0]


def _addresses(given: Arguments, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The range itself, checked; gateway, netmask and VLAN are the network's where they are not given."""
    start = _needed(given, "startip")
    end = given.get("endip", start)
    gateway = given.get("gateway") or defaults.get("gateway") or _needed(given, "gateway")
    mask = given.get("netmask") or defaults.get("netmask") or _needed(given, "netmask")
    subnet = subnet_of(gateway, mask)
    for parameter, address in (("gateway", gateway), ("startip", start), ("endip", end)):
        check_in_subnet(parameter, address, subnet)
    check_order(start, end)
    return {
        "start_ip": start,
        "end_ip": end,
        "gateway": gateway,
        "netmask": mask,
        "vlan": _vlan(given["vlan"]) if "vlan" in given else defaults.get("vlan"),
    }


def _needed(given: Arguments, parameter: str) -> str:
    if not given.get(parameter):
        raise MissingParameter(COMMAND, parameter)
    return str(given[parameter])


def _vlan(written: str) -> str | None:
    """A VLAN's number, with or without ``vlan://``; ``untagged`` is none."""
    bare = written.lower().removeprefix("vlan://")
    if bare in ("", vlan_ip_ranges.UNTAGGED):
        return None
    if not VLAN.fullmatch(bare):
        raise InvalidParameter("vlan", written, "it must be a number, or untagged")
    return bare
