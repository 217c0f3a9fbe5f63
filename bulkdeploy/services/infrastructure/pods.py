"""Operations on pods: create, update and delete."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.addresses import check_in_subnet, check_order, subnet_of
from bulkdeploy.services.infrastructure.places import delete_places
from bulkdeploy.services.live_entities import changed_events, given_refs, lock_entities, subject, unique_name
from bulkdeploy.store.infrastructure import pods
from bulkdeploy.store.infrastructure.dedications import zones_of
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows

KIND = "Pod"
STATES = {"allocationstate", "allocpolicy"}
OF_THE_ZONE = "another pod of the zone"
NETWORK = ("gateway", "netmask", "start_ip", "end_ip")


def create_pods(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create pods in zones and return them.

    Raises:
        InvalidParameter, InvalidCombination: a name is already used, an address range is outside of its network, or
        a management network overlaps that of another pod.
    """
    zones = given_refs(batch, "zoneid")
    lock_entities(connection, zones, "zoneid")  # alone: two pods at once would not see each other's network
    rows = [columns_of(pods.FIELDS, given) for given in batch]
    others = pods.management_networks(connection, [zone.id for zone in zones])
    for row in rows:
        _check_network(row, others)
        others.append(row)
    with unique_name("name", rows[0]["name"], OF_THE_ZONE):
        made = insert_rows(connection, Entity.POD, rows)
    record_events(
        connection,
        caller,
        (
            Happened(
                EventType.POD_CREATE, f"created pod {pod.name} in zone {given['zoneid'].name}", subject(KIND, pod)
            )
            for pod, given in zip(made, batch, strict=True)
        ),
    )
    return made


def update_pods(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change pods. Later placements respect whether the pods are enabled.

    Raises:
        InvalidParameter, InvalidCombination: under the same conditions as ``create_pods``.
    """
    zones = zones_of(connection, [pod for pod, _ in changes])
    change_zone_rules(connection, {zones[pod.id].id for pod, given in changes if given.keys() & STATES})
    lock_entities(connection, list(zones.values()))
    rows = lock_entities(connection, [pod for pod, _ in changes])
    others = pods.management_networks(connection, {zone.id for zone in zones.values()})
    written = []
    for pod, given in changes:
        values = columns_of(pods.FIELDS, given)
        if values.keys() & set(NETWORK):
            row = {**rows[pod.id], **values}
            others = [other for other in others if other.get("id") != pod.id]
            _check_network(row, others)
            others.append(row)
            values |= {column: row[column] for column in NETWORK}
        written.append((pod, values))
    with unique_name("name", changes[0][1].get("name"), OF_THE_ZONE):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.POD_EDIT, KIND, written))


def delete_pods(connection: Connection, caller: Caller, places: Sequence[EntityRef]) -> None:
    """Delete empty pods.

    Raises:
        InvalidParameter: one of the pods is not empty.
    """
    delete_places(connection, caller, places, pods.CONTENTS, EventType.POD_DELETE, KIND)


def _check_network(row: dict[str, Any], others: Iterable[Mapping[str, Any]]) -> None:
    """Check the management network of a pod.

    Gateway and netmask must be given together, the address range must be in their subnet, and no other pod of the
    zone may use an overlapping network.
    """
    gateway, mask = row.get("gateway"), row.get("netmask")
    if (gateway is None) is not (mask is None):
        raise InvalidCombination(("gateway", "netmask"), "gateway and netmask must be given together")
    if gateway is None or mask is None:
        if row.get("start_ip") is not None or row.get("end_ip") is not None:
            raise InvalidCombination(("startip", "gateway"), "an address range requires gateway and netmask")
        return
    subnet = subnet_of(gateway, mask)
    check_in_subnet("gateway", gateway, subnet)
    _check_range(row, subnet)
    for other in others:
        if other["zone_id"] != row["zone_id"] or other.get("gateway") is None:
            continue
        if subnet_of(other["gateway"], other["netmask"]).overlaps(subnet):
            raise InvalidParameter("gateway", gateway, f"network {subnet} overlaps that of pod {other['name']}")


def _check_range(row: dict[str, Any], subnet: IPv4Network) -> None:
    """Check an address range and add its missing end.

    A range without an end extends to the last address of its subnet, as in CloudStack.
    """
    if row.get("start_ip") is None:
        if row.get("end_ip") is not None:
            raise InvalidCombination(("startip", "endip"), "endip requires startip")
        return
    row["end_ip"] = row.get("end_ip") or str(subnet.broadcast_address - 1)
    check_in_subnet("startip", row["start_ip"], subnet)
    check_in_subnet("endip", row["end_ip"], subnet)
    check_order(row["start_ip"], row["end_ip"])
