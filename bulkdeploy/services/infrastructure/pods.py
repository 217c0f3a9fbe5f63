"""Making, changing and deleting pods (reference section 8.2)."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.infrastructure.places import delete_place
from bulkdeploy.services.inventory.inventory_values import ip_address, name, netmask
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.wire_values import check_in_subnet, check_order, checked, subnet_of
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import pods
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.live_rows import change_row, insert_row

KIND = "Pod"
OF_THE_ZONE = "another pod of the zone"
COLUMNS = {"gateway": "gateway", "netmask": "netmask", "startip": "start_ip", "endip": "end_ip"}


def create_pod(connection: Connection, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Make a pod in a zone.

    Raises:
        InvalidParameter, InvalidCombination: a value that breaks its rule, a name that is taken, or a
            management network that overlaps another pod's.
    """
    zone: EntityRef = given["zoneid"]
    row = {"zone_id": zone.id, **_columns(given)}
    hold(connection, zone, "zoneid")  # alone: two pods at once would not see each other's network
    _check_network(connection, zone.id, row)
    with unique_name("name", row["name"], OF_THE_ZONE):
        pod = insert_row(connection, Entity.POD, row)
    return _told(connection, caller, EventType.POD_CREATE, pod, f"created pod {pod.name} in zone {zone.name}")


def update_pod(connection: Connection, caller: Caller, pod: EntityRef, given: Arguments) -> Mapping[str, Any]:
    """Change a pod; the next plan sees whether it is enabled.

    Raises:
        InvalidParameter, InvalidCombination: as ``create_pod``.
    """
    values = _columns(given)
    zone = pods.zone_of(connection, pod.id)
    if "allocation_state" in values:
        change_zone_rules(connection, zone.id)
    hold(connection, zone, "id")
    row = dict(hold(connection, pod))
    if values.keys() & set(COLUMNS.values()):
        row.update(values)
        _check_network(connection, zone.id, row, pod.id)
        values.update({column: row[column] for column in COLUMNS.values()})
    with unique_name("name", values.get("name"), OF_THE_ZONE):
        change_row(connection, pod, values)
    return _told(connection, caller, EventType.POD_EDIT, pod, f"changed pod {pod.name}{changed(values)}")


def delete_pod(connection: Connection, caller: Caller, pod: EntityRef) -> None:
    """Delete a pod that is empty.

    Raises:
        InvalidParameter: something is still in it.
    """
    delete_place(connection, caller, pod, pods.CONTENTS, EventType.POD_DELETE, KIND)


def _columns(given: Arguments) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "allocationstate" in given:
        values["allocation_state"] = given["allocationstate"]
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    for parameter, column in COLUMNS.items():
        if parameter in given:
            rule = netmask() if parameter == "netmask" else ip_address()
            values[column] = checked(parameter, given[parameter], rule)
    return values


def _check_network(connection: Connection, zone_id: int, row: dict[str, Any], pod_id: int | None = None) -> None:
    """Gateway and netmask come together, the range is of their network, and no other pod has any of it."""
    gateway, mask = row.get("gateway"), row.get("netmask")
    if (gateway is None) is not (mask is None):
        raise InvalidCombination(("gateway", "netmask"), "gateway and netmask should be given together")
    if gateway is None or mask is None:
        if row.get("start_ip") is not None or row.get("end_ip") is not None:
            raise InvalidCombination(("startip", "gateway"), "an address range needs gateway and netmask beside it")
        return
    subnet = subnet_of(gateway, mask)
    check_in_subnet("gateway", gateway, subnet)
    _check_range(row, subnet)
    for other, network in pods.management_networks(connection, zone_id, but=pod_id).items():
        if subnet_of(*network).overlaps(subnet):
            raise InvalidParameter("gateway", gateway, f"network {subnet} overlaps that of pod {other}")


def _check_range(row: dict[str, Any], subnet: IPv4Network) -> None:
    """A range without an end ends with its network, as in CloudStack."""
    if row.get("start_ip") is None:
        if row.get("end_ip") is not None:
            raise InvalidCombination(("startip", "endip"), "endip needs startip beside it")
        return
    row["end_ip"] = row.get("end_ip") or str(subnet.broadcast_address - 1)
    check_in_subnet("startip", row["start_ip"], subnet)
    check_in_subnet("endip", row["end_ip"], subnet)
    check_order(row["start_ip"], row["end_ip"])


def _told(connection: Connection, caller: Caller, event: EventType, pod: EntityRef, text: str) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(KIND, pod))
    return only_row(pods.list_pods(connection, {"id": pod}, ONE))
