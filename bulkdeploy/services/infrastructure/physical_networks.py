"""Operations on physical networks. In CloudStack these calls run as jobs; here the jobs end with the call."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import NetworkType
from bulkdeploy.domain.networks.guest_networks import vlan_ranges
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import (
    ONE,
    changed_events,
    deleted_events,
    given_refs,
    lock_entities,
    only_row,
    subject,
)
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.networks.dedicated_vlan_ranges import ranges_of
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import (
    change_rows,
    columns_of,
    insert_rows,
    parents_in_use,
    remove_rows,
    what_hangs_on,
)

KIND = "PhysicalNetwork"
COMMANDS = "org.apache.cloudstack.api.command.admin.network."
ISOLATION_METHODS = ("VLAN", "VXLAN", "GRE", "STT", "L3")
VLAN_RANGE = re.compile(r"[0-9]{1,8}(-[0-9]{1,8})?", re.ASCII)
LARGEST_ID = {"VLAN": 4095}
LARGEST_VNI = 2**24 - 1


def create_networks(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create disabled physical networks with their default providers, and return the networks.

    Raises:
        InvalidParameter: a value violates its rule, or a Basic zone would get a second physical network.
    """
    zones = lock_entities(connection, given_refs(batch, "zoneid"), "zoneid")  # alone: a Basic zone has one
    taken = parents_in_use(connection, physical_networks.PHYSICAL_NETWORKS_OF_A_ZONE, zones)
    rows = []
    for given in batch:
        rows.append(_new_network(given, zones[given["zoneid"].id], taken))
        taken.add(given["zoneid"].id)
    made = insert_rows(connection, Entity.PHYSICAL_NETWORK, rows)
    with_groups = {
        zone_id: row["network_type"] == NetworkType.BASIC or row["security_groups_enabled"]
        for zone_id, row in zones.items()
    }
    physical_networks.add_default_providers(
        connection,
        {network.id: with_groups[given["zoneid"].id] for network, given in zip(made, batch, strict=True)},
    )
    texts = (
        f"created physical network {network.name} in zone {given['zoneid'].name}"
        for network, given in zip(made, batch, strict=True)
    )
    happened = (
        Happened(EventType.PHYSICAL_NETWORK_CREATE, text, subject(KIND, network))
        for text, network in zip(texts, made, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def _new_network(given: Arguments, row: Mapping[str, Any], taken: Collection[int]) -> dict[str, Any]:
    zone: EntityRef = given["zoneid"]
    methods = _isolation_methods(given)
    values = {
        "broadcast_domain_range": "ZONE",
        **_columns(given, methods[0]),
        "state": "Disabled",
        "isolation_methods": ",".join(methods),
    }
    is_basic = row["network_type"] == NetworkType.BASIC
    if is_basic and zone.id in taken:
        raise InvalidParameter(
            "zoneid", str(zone.uuid), f"Basic zone {zone.name} can have only one physical network"
        )
    if is_basic and values.get("vlan_range") is not None:
        raise InvalidParameter("vlan", given["vlan"], f"Basic zone {zone.name} has no VLANs")
    return values


def update_networks(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change physical networks.

    Raises:
        InvalidParameter: a value violates its rule.
    """
    rows = lock_entities(connection, [network for network, _ in changes])
    written = [
        (network, _columns(given, rows[network.id]["isolation_methods"].partition(",")[0]))
        for network, given in changes
    ]
    _check_dedicated_vlans(connection, written)
    change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.PHYSICAL_NETWORK_UPDATE, KIND, written))


def _check_dedicated_vlans(connection: Connection, written: Sequence[tuple[EntityRef, Mapping[str, Any]]]) -> None:
    """Check that the new VLAN ranges of physical networks contain their dedicated ranges."""
    ranges = {ref.id: (ref, values["vlan_range"] or "") for ref, values in written if "vlan_range" in values}
    for row in ranges_of(connection, ranges.keys()):
        ref, new = ranges[row.physical_network_id]
        if not any(low <= row.first_vlan and row.last_vlan <= high for low, high in vlan_ranges(new)):
            vlans = f"{row.first_vlan}-{row.last_vlan}"
            rule = f"VLANs {vlans} of physical network {ref.name} are dedicated to an account; release them first"
            raise InvalidParameter("vlan", new, rule)


def finished_network_job(connection: Connection, caller: Caller, network: EntityRef, *, created: bool) -> JobTicket:
    """Return the finished job of a call that created or changed a physical network. Its result is the network."""
    row = only_row(physical_networks.list_physical_networks(connection, {"id": network}, ONE))
    cmd = f"{COMMANDS}{'Create' if created else 'Update'}PhysicalNetworkCmd"
    about = subject(KIND, network)
    return done_with_object(connection, caller, cmd, "physicalnetwork", row, about, created=created)


def delete_networks(connection: Connection, caller: Caller, refs: Sequence[EntityRef]) -> None:
    """Delete physical networks, with their traffic types and providers.

    Raises:
        InvalidParameter: one of the physical networks was deleted.
        ResourceInUse: guest networks or public address ranges use one of them.
    """
    lock_entities(connection, refs)
    ids = [network.id for network in refs]
    left = what_hangs_on(connection, physical_networks.CONTENTS, ids)
    for network in refs:
        if network.id in left:
            raise ResourceInUse(f"Physical network {network.name} still has {', '.join(left[network.id])}")
    physical_networks.remove_contents(connection, ids)
    remove_rows(connection, refs)
    record_events(connection, caller, deleted_events(EventType.PHYSICAL_NETWORK_DELETE, KIND, refs))


def deleted(connection: Connection, caller: Caller, network: EntityRef) -> JobTicket:
    """Return the finished job of a call that deleted a physical network."""
    cmd = f"{COMMANDS}DeletePhysicalNetworkCmd"
    return done_with_success(connection, caller, cmd, subject(KIND, network))


def _isolation_methods(given: Arguments) -> tuple[str, ...]:
    methods = tuple(method.upper() for method in given.get("isolationmethods") or ("VLAN",))
    for method in methods:
        if method not in ISOLATION_METHODS:
            raise InvalidParameter("isolationmethods", method, f"it must be one of {', '.join(ISOLATION_METHODS)}")
    return methods


def _columns(given: Arguments, method: str) -> dict[str, Any]:
    values = columns_of(physical_networks.FIELDS, given)
    if "vlan" in given:
        values["vlan_range"] = _vlan_ranges(given["vlan"], LARGEST_ID.get(method, LARGEST_VNI))
    return values


def _vlan_ranges(written: str, largest: int) -> str | None:
    """Return VLAN ranges in CloudStack's format, such as ``100-199,300-399``, or None if there are none."""
    parts = [part.strip() for part in written.split(",") if part.strip()]
    for part in parts:
        low, _, high = part.partition("-")
        if not VLAN_RANGE.fullmatch(part) or not int(low) <= int(high or low) <= largest:
            raise InvalidParameter("vlan", written, f"it must be ranges such as 100-199 of ids from 0 to {largest}")
    return ",".join(parts) or None
