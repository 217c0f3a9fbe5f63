"""The traffic types of a physical network, and the host bridges that carry them on each hypervisor."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.network_services import TrafficType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import (
    ONE,
    deleted_events,
    lock_entities,
    lock_entity,
    only_row,
    subject,
    unique_name,
)
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.jobs.events import record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_row, insert_row, remove_rows, what_hangs_on

KIND = "TrafficType"
COMMANDS = "org.apache.cloudstack.api.command.admin.usage."
NEEDED_BY = {TrafficType.GUEST.value: "networks", TrafficType.PUBLIC.value: "public address ranges"}
LABELS = tuple(f"{hypervisor}networklabel" for hypervisor in ("xen", "kvm", "vmware", "hyperv", "ovm3"))
VLAN = "vlan"


def add_type(connection: Connection, caller: Caller, given: Arguments) -> JobTicket:
    """Add a traffic type to a physical network.

    Raises:
        InvalidParameter: the physical network was deleted, or already has the traffic type.
    """
    network: EntityRef = given["physicalnetworkid"]
    lock_entity(connection, network, "physicalnetworkid", shared=True)
    values = {"physical_network_id": network.id, "traffic_type": given["traffictype"], "labels": _labels(given)}
    with unique_name("traffictype", given["traffictype"], f"physical network {network.name}: a traffic type"):
        made = insert_row(connection, Entity.TRAFFIC_TYPE, values)
    text = f"added traffic type {made.name} to physical network {network.name}"
    return _finished_job(connection, caller, EventType.TRAFFIC_TYPE_CREATE, made, text, "AddTrafficTypeCmd")


def update_type(connection: Connection, caller: Caller, one: EntityRef, given: Arguments) -> JobTicket:
    """Change the bridges of a traffic type. An empty value removes the bridge.

    Raises:
        InvalidParameter: the traffic type was deleted.
    """
    labels = {**lock_entity(connection, one)["labels"], **_labels(given)}
    change_row(connection, one, {"labels": {name: label for name, label in labels.items() if label}})
    text = f"changed traffic type {one.name}"
    return _finished_job(connection, caller, EventType.TRAFFIC_TYPE_UPDATE, one, text, "UpdateTrafficTypeCmd")


def delete_types(connection: Connection, caller: Caller, refs: Sequence[EntityRef]) -> None:
    """Remove traffic types from physical networks.

    Raises:
        InvalidParameter: one of the traffic types was deleted.
        ResourceInUse: guest networks or public address ranges of a physical network need one of the traffic types.
    """
    rows = lock_entities(connection, refs)
    used = what_hangs_on(
        connection, physical_networks.CONTENTS, {row["physical_network_id"] for row in rows.values()}
    )
    for one in refs:
        needed_by = NEEDED_BY.get(one.name)
        if needed_by in used.get(rows[one.id]["physical_network_id"], ()):
            raise ResourceInUse(f"Traffic type {one.name} is in use by {needed_by}")
    remove_rows(connection, refs)
    record_events(connection, caller, deleted_events(EventType.TRAFFIC_TYPE_DELETE, KIND, refs))


def deleted(connection: Connection, caller: Caller, one: EntityRef) -> JobTicket:
    """Return the finished job of a call that removed a traffic type."""
    return done_with_success(connection, caller, f"{COMMANDS}DeleteTrafficTypeCmd", subject(KIND, one))


def _labels(given: Arguments) -> dict[str, Any]:
    return {name: given[name] for name in (*LABELS, VLAN) if name in given}


def _finished_job(
    connection: Connection, caller: Caller, event: EventType, one: EntityRef, text: str, cmd: str
) -> JobTicket:
    about = subject(KIND, one)
    record_event(connection, caller, event, text, about)
    row = only_row(physical_networks.list_traffic_types(connection, {"id": one}, ONE))
    created = event is EventType.TRAFFIC_TYPE_CREATE
    return done_with_object(connection, caller, f"{COMMANDS}{cmd}", "traffictype", row, about, created=created)
