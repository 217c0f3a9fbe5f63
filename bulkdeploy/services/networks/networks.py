"""Operations on guest networks: create, update, restart and delete.

A network consists of rows: a VLAN and addresses that VMs get. No appliance serves a network, so creating a network
starts nothing, and restarting a network only records an event.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.network_rules import (
    DNS_SERVERS,
    check_dns,
    check_new_offering,
    check_offerings,
    require_open_offering,
)
from bulkdeploy.services.owned_entities import lock_all_own, lock_own
from bulkdeploy.services.ownership import as_found_by_id, require_access
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.networks.network_permissions import remove_permissions
from bulkdeploy.store.networks.networks import NetworkFilter, list_networks
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, remove_rows

NOUN = "network"
SHARED_STATE = "Setup"
"""The state of shared networks, which are in use from the beginning."""

NEVER_EMPTY = ("name", "displaytext", "networkdomain")
COMMANDS = "org.apache.cloudstack.api.command.user.network"


def update_networks(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change the names, descriptions, DNS servers, MTU or offering of networks. An empty name is ignored.

    Existing VMs keep their DNS domain.

    Raises:
        InvalidParameter: one of the networks was deleted, or an offering or a DNS server does not match the
            network.
        PermissionDenied: the caller may not access one of the networks, or may not use an offering.
    """
    locked = lock_all_own(connection, caller, [ref for ref, _ in changes], NOUN)
    rows = [row for row, _ in locked]
    new = [
        given["networkofferingid"]
        for (_, given), row in zip(changes, rows, strict=True)
        if "networkofferingid" in given and given["networkofferingid"].id != row.network_offering_id
    ]
    offerings = check_offerings(connection, caller, new)
    offerings |= store.read_offerings(connection, {row.network_offering_id for row in rows})
    for (_, given), (row, owner) in zip(changes, locked, strict=True):
        if (offering := given.get("networkofferingid")) is not None and offering.id != row.network_offering_id:
            require_open_offering(offerings[offering.id], owner, row.zone_id)
    written = [(ref, _changed(given, row, offerings)) for (ref, given), row in zip(changes, rows, strict=True)]
    change_rows(connection, written)
    happened = (
        Happened(
            EventType.NETWORK_UPDATE,
            f"changed {', '.join(sorted(values))} of network {row.name}",
            _network_reference(ref),
            owner,
        )
        for (ref, values), (row, owner) in zip(written, locked, strict=True)
        if values
    )
    record_events(connection, caller, happened)


def _changed(given: Arguments, row: Row[Any], offerings: Mapping[int, OfferingFacts]) -> dict[str, Any]:
    values = columns_of(store.CHANGEABLE, given, never_empty=NEVER_EMPTY)
    present, offering = offerings[row.network_offering_id], given.get("networkofferingid")
    if offering is not None and offering.id != present.id:
        check_new_offering(present, offerings[offering.id], offering)
        values["network_offering_id"] = offering.id
    if DNS_SERVERS & values.keys():
        has = offerings[values.get("network_offering_id", present.id)]
        check_dns({"dns1": row.dns1, "dns2": row.dns2, **values}, has)
    return values


def changed_network(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Return the finished job of a call that changed a network. Its result is the network."""
    shown = network_row(connection, caller, ref)
    return done_with_object(
        connection, caller, f"{COMMANDS}.UpdateNetworkCmd", "network", shown, _network_reference(ref)
    )


def restart_network(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Record the restart of a network as an event. Nothing else happens, because no appliance serves the network.

    Raises:
        InvalidParameter: the network was deleted, or no VM has a NIC in it and the network is not shared.
        PermissionDenied: the caller may not access the network.
    """
    row, owner = lock_own(connection, caller, ref, NOUN)
    if row.state != SHARED_STATE and ref.id not in store.users_of(connection, [ref.id]):
        raise InvalidParameter("id", str(ref.uuid), "no virtual machine has a nic in the network")
    text = f"restarted network {row.name}: nothing serves it, so there was nothing to do"
    record_event(connection, caller, EventType.NETWORK_RESTART, text, _network_reference(ref), owner)
    return done_with_success(connection, caller, f"{COMMANDS}.RestartNetworkCmd", _network_reference(ref))


def delete_networks(connection: Connection, caller: Caller, refs: Sequence[EntityRef]) -> None:
    """Delete networks in which no VM has a NIC, and their addresses.

    Raises:
        InvalidParameter: one of the networks was deleted, or only the system uses it.
        PermissionDenied: the caller may not access one of the networks.
        ResourceInUse: a VM that is not expunged has a NIC in one of the networks.
    """
    locked = lock_all_own(connection, caller, refs, NOUN)
    for ref, (row, _) in zip(refs, locked, strict=True):
        if row.is_system:
            raise InvalidParameter(
                "id", str(ref.uuid), "the network is used by the system only and cannot be deleted"
            )
    ids = [ref.id for ref in refs]
    store.remove_ranges(connection, ids)
    users = store.users_of(connection, ids)
    for row, _ in locked:
        if row.id in users:
            raise ResourceInUse(f"Network {row.name} cannot be deleted: {users[row.id]}")
    remove_rows(connection, refs)
    remove_permissions(connection, ids)
    happened = (
        Happened(EventType.NETWORK_DELETE, f"deleted network {row.name}", _network_reference(ref), owner)
        for ref, (row, owner) in zip(refs, locked, strict=True)
    )
    record_events(connection, caller, happened)


def deleted_network(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Return the finished job of a call that deleted a network."""
    return done_with_success(connection, caller, f"{COMMANDS}.DeleteNetworkCmd", _network_reference(ref))


def offering_of(connection: Connection, caller: Caller, ref: EntityRef) -> OfferingFacts:
    """Return the offering of a network that the caller may change.

    Raises:
        PermissionDenied: the caller may not access the network.
    """
    account_id, offering_id = store.owner_and_offering(connection, ref.id)
    require_access(connection, caller, account_id, f"{NOUN} {ref.uuid}")
    return store.read_offerings(connection, [offering_id])[offering_id]


def _network_reference(ref: EntityRef) -> Instance:
    return Instance("Network", ref.id, ref.uuid)


def network_row(connection: Connection, caller: Caller, ref: EntityRef) -> Mapping[str, Any]:
    """Return the caller's row of the network in listNetworks."""
    seen = as_found_by_id(connection, caller)
    return list_networks(connection, seen, {"id": ref}, Paging(1), NetworkFilter.ALL).rows[0]
