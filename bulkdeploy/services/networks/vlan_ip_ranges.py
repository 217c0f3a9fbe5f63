"""Operations on address ranges of guest networks and on public ranges of zones: create and delete."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, MissingParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import NetworkType
from bulkdeploy.domain.networks.addresses import check_in_subnet, check_order, subnet_of
from bulkdeploy.services.live_entities import given_refs, lock_entities, subject
from bulkdeploy.services.ownership import require_all_access
from bulkdeploy.store.infrastructure.physical_networks import with_public_traffic
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.networks import vlan_ip_ranges
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import insert_rows, own_uuid, remove_rows

KIND = "VlanIpRange"
COMMAND = "createVlanIpRange"
VLAN = re.compile(r"[0-9]{1,8}", re.ASCII)
SHARED = "Shared"


def create_ranges(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Add address ranges to guest networks, or with ``forvirtualnetwork`` to the public addresses of zones.

    Raises:
        MissingParameter, InvalidParameter, InvalidCombination: a value violates its rule, addresses are outside the
        gateway's network, a range overlaps another range, or no network for a range exists.
        PermissionDenied: the caller may not access the network.
    """
    of_guests = [given for given in batch if not given.get("forvirtualnetwork")]
    guests = iter(_of_guests(connection, caller, of_guests))
    public = iter(_public(connection, [given for given in batch if given.get("forvirtualnetwork")]))
    rows = []
    for given in batch:
        place = next(public if given.get("forvirtualnetwork") else guests)
        addresses = _addresses(given, place.defaults)
        rows.append({**own_uuid(given), **place.columns, **addresses, "next_ip": addresses["start_ip"]})
    _check_overlaps(connection, rows)
    made = insert_rows(connection, Entity.VLAN_IP_RANGE, rows)
    happened = (
        Happened(
            EventType.VLAN_IP_RANGE_CREATE,
            f"created address range from {row['start_ip']} to {row['end_ip']}",
            subject(KIND, ref),
        )
        for ref, row in zip(made, rows, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def delete_ranges(connection: Connection, caller: Caller, ranges: Sequence[EntityRef]) -> None:
    """Delete address ranges of which no address is in use.

    Raises:
        InvalidParameter: one of the ranges was deleted.
        ResourceInUse: a VM has an address of one of the ranges.
    """
    lock_entities(connection, ranges)
    used = vlan_ip_ranges.count_addresses(connection, [one.id for one in ranges])
    for one in ranges:
        if one.id in used:
            raise ResourceInUse(
                f"The address range cannot be deleted: {used[one.id]} of its address(es) are in use"
            )
    remove_rows(connection, ranges)
    happened = (
        Happened(EventType.VLAN_IP_RANGE_DELETE, f"deleted address range from {one.name}", subject(KIND, one))
        for one in ranges
    )
    record_events(connection, caller, happened)


@dataclass(frozen=True, slots=True)
class _Place:
    """The owner of an address range: the columns of its zone, network or pod, and the defaults of its addresses."""

    columns: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)


def _public(connection: Connection, batch: Sequence[Arguments]) -> list[_Place]:
    """Return the zones and physical networks of ranges of public addresses. The zones are locked exclusively."""
    for given in batch:
        for parameter in ("networkid", "podid"):
            if parameter in given:
                rule = f"{parameter} can be given only for guest addresses, not with forvirtualnetwork=true"
                raise InvalidCombination((parameter, "forvirtualnetwork"), rule)
        if "zoneid" not in given:
            raise MissingParameter(COMMAND, "zoneid")
    zones = lock_entities(connection, given_refs(batch, "zoneid"), "zoneid")
    physical = lock_entities(connection, given_refs(batch, "physicalnetworkid"), "physicalnetworkid", shared=True)
    carrying = with_public_traffic(connection, zones)
    return [_public_place(given, zones[given["zoneid"].id], physical, carrying) for given in batch]


def _public_place(
    given: Arguments,
    row: Mapping[str, Any],
    physical: Mapping[int, Mapping[str, Any]],
    carrying: Mapping[int, Sequence[int]],
) -> _Place:
    zone: EntityRef = given["zoneid"]
    if row["network_type"] == NetworkType.BASIC:
        raise InvalidParameter("forvirtualnetwork", "true", f"Basic zone {zone.name} has no public addresses")
    wanted: EntityRef | None = given.get("physicalnetworkid")
    if wanted is not None:
        if physical[wanted.id]["zone_id"] != zone.id:
            rule = f"physical network {wanted.name} is not in zone {zone.name}"
            raise InvalidParameter("physicalnetworkid", str(wanted.uuid), rule)
        return _Place({"zone_id": zone.id, "physical_network_id": wanted.id})
    able = carrying.get(zone.id, ())
    if not able:
        rule = "no physical network of the zone has traffic type Public; add one with addTrafficType"
        raise InvalidParameter("physicalnetworkid", zone.name, rule)
    if len(able) > 1:
        rule = f"zone {zone.name} has {len(able)} physical networks with traffic type Public; name one"
        raise InvalidParameter("physicalnetworkid", None, rule)
    return _Place({"zone_id": zone.id, "physical_network_id": able[0]})


def _of_guests(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[_Place]:
    """Return the guest networks of address ranges, locked exclusively, and in Basic zones their pods."""
    named = _networks(connection, batch)
    networks = lock_entities(connection, list(dict.fromkeys(named)), "networkid")
    owners = {f"network {network.uuid}": networks[network.id]["account_id"] for network in named}
    require_all_access(connection, caller, owners)
    pods = lock_entities(connection, given_refs(batch, "podid"), "podid", shared=True)
    types = vlan_ip_ranges.network_types(connection, {row["zone_id"] for row in networks.values()})
    return [
        _guest_place(given, network, networks[network.id], pods, types)
        for given, network in zip(batch, named, strict=True)
    ]


def _guest_place(
    given: Arguments,
    network: EntityRef,
    row: Mapping[str, Any],
    pods: Mapping[int, Mapping[str, Any]],
    types: Mapping[int, str],
) -> _Place:
    zone: EntityRef | None = given.get("zoneid")
    pod: EntityRef | None = given.get("podid")
    if zone is not None and row["zone_id"] != zone.id:
        raise InvalidParameter("networkid", str(network.uuid), f"network {network.name} is not in zone {zone.name}")
    if row["guest_type"] != SHARED:
        rule = f"network {network.name} is of type {row['guest_type']}; ranges are added to Shared ones"
        raise InvalidParameter("networkid", str(network.uuid), rule)
    if pod is None and types[row["zone_id"]] == NetworkType.BASIC:
        raise MissingParameter(COMMAND, "podid")
    if pod is not None and pods[pod.id]["zone_id"] != row["zone_id"]:
        raise InvalidParameter("podid", str(pod.uuid), f"pod {pod.name} is not in the network's zone")
    return _Place(
        {"network_id": network.id, "pod_id": None if pod is None else pod.id},
        {name: row[name] for name in ("gateway", "netmask", "vlan")},
    )


def _networks(connection: Connection, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Return the network of each range.

    A range that names no network belongs to the only guest network of its zone. Raises InvalidParameter if the zone
    has none or several.
    """
    unnamed = [given for given in batch if "networkid" not in given]
    if any("zoneid" not in given for given in unnamed):
        raise MissingParameter(COMMAND, "networkid")
    of_zone = vlan_ip_ranges.guest_networks(connection, {given["zoneid"].id for given in unnamed})
    found = []
    for given in batch:
        candidates = [given["networkid"]] if "networkid" in given else of_zone.get(given["zoneid"].id, [])
        if len(candidates) != 1:
            rule = f"zone {given['zoneid'].name} has {len(candidates)} guest networks; name one"
            raise InvalidParameter("networkid", None, rule)
        found.append(candidates[0])
    return found


def _check_overlaps(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error if two ranges of a network, or of a zone's public addresses, have an address in common."""
    networks = {row["network_id"] for row in rows if "network_id" in row}
    zones = {row["zone_id"] for row in rows if "zone_id" in row}
    there = vlan_ip_ranges.ranges_of(connection, networks, zones)
    for row in rows:
        others = there.setdefault((row.get("network_id"), row.get("zone_id")), [])
        first, last = IPv4Address(row["start_ip"]), IPv4Address(row["end_ip"])
        for start, end in others:
            if start <= last and end >= first:
                raise InvalidParameter("startip", str(first), f"the range overlaps one from {start} to {end}")
        others.append((first, last))


def _addresses(given: Arguments, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Check an address range and return its columns.

    Gateway, netmask and VLAN default to the values of the network.
    """
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
    """Return the number in a VLAN parameter, with or without the prefix ``vlan://``, or None for ``untagged``."""
    bare = written.lower().removeprefix("vlan://")
    if bare in ("", vlan_ip_ranges.UNTAGGED):
        return None
    if not VLAN.fullmatch(bare):
        raise InvalidParameter("vlan", written, "it must be a number, or untagged")
    return bare
