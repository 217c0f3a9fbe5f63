"""Guest networks made, changed, restarted and deleted (reference section 8.9).

A network is rows: VLAN and addresses, which VMs are given. There is no appliance that serves it, so nothing is
built, and restarting one finds nothing to restart.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.guest_networks import DEFAULT_GUEST_CIDR, GuestType, Subnet, check_network_domain, subnet_of
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.networks.network_rules import (
    DNS_SERVERS,
    NetworkAsk,
    check_dns,
    check_new_offering,
    check_offering,
    check_zone,
    choose_vlan,
    reach_of,
)
from bulkdeploy.services.owned_entities import lock_own
from bulkdeploy.services.ownership import as_found_by_id, require_access, require_open_zones
from bulkdeploy.store.accounts.live_limits import require_room
from bulkdeploy.store.accounts.owned_entities import insert_entity, mark_removed
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Paging
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.networks.networks import NetworkFilter, list_networks

NOUN = "network"
COMMANDS = "org.apache.cloudstack.api.command.user.network"


def create_network(connection: Connection, caller: Caller, ask: NetworkAsk) -> Mapping[str, Any]:
    """Make a network and answer it.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: a rule of ``network_rules`` is broken.
        ResourceLimitExceeded: the account, or a domain above it, has all the networks that it may.
        InsufficientVlans: the physical network has no VLAN left.
    """
    if ask.network_domain is not None:
        check_network_domain(ask.network_domain)
    guest_cidr = check_zone(connection, caller, ask.zone)
    offering = check_offering(connection, caller, ask.offering)
    check_dns(ask.settings, offering)
    subnet = subnet_of(GuestType(offering.guest_type), ask.subnet, guest_cidr or DEFAULT_GUEST_CIDR)
    reach = reach_of(connection, caller, ask, offering.guest_type)
    require_open_zones(connection, reach.owner, {ask.zone.id: str(ask.zone.uuid)})
    require_room(connection, reach.owner, ResourceType.NETWORK)
    vlan, physical_id = choose_vlan(connection, ask, offering)
    ref = insert_entity(
        connection,
        Entity.NETWORK,
        name=ask.name,
        display_text=ask.display_text or ask.name,
        zone_id=ask.zone.id,
        network_offering_id=ask.offering.id,
        physical_network_id=physical_id,
        guest_type=offering.guest_type,
        acl_type=reach.acl_type,
        account_id=reach.owner.account_id,
        domain_id=reach.domain_id,
        subdomain_access=reach.subdomain_access,
        **_subnet_columns(subnet),
        vlan=vlan,
        network_domain=ask.network_domain,
        **ask.settings,
        state="Setup" if offering.guest_type == GuestType.SHARED else "Implemented",
    )
    if ref is None:
        raise InvalidParameter("name", ask.name, "there is such a network already")
    if subnet is not None:
        store.insert_range(connection, ref.id, subnet)
    text = f"made {offering.guest_type} network {ask.name}"
    record_event(connection, caller, EventType.NETWORK_CREATE, text, _about(ref), reach.owner)
    return _row(connection, caller, ref)


def _subnet_columns(subnet: Subnet | None) -> dict[str, str]:
    return {} if subnet is None else {"cidr": subnet.cidr, "gateway": subnet.gateway, "netmask": subnet.netmask}


def update_network(
    connection: Connection, caller: Caller, ref: EntityRef, given: Mapping[str, Any], offering: EntityRef | None
) -> JobTicket:
    """Change what a network is called, its DNS, packet sizes or offering; the job's result is the network.

    ``given``: new values by column. VMs that exist keep the DNS domain they were given.

    Raises:
        InvalidParameter: it was deleted, the DNS domain or a server is none, or the offering does not go with it.
        PermissionDenied: it is not the caller's to touch, or the offering not the caller's to use.
    """
    if "network_domain" in given:
        check_network_domain(given["network_domain"])
    row, owner = lock_own(connection, caller, ref, NOUN)
    changes: dict[str, Any] = dict(given)
    if offering is not None and offering.id != row.network_offering_id:
        check_new_offering(connection, caller, row.network_offering_id, offering)
        changes["network_offering_id"] = offering.id
    if DNS_SERVERS & given.keys():
        has = store.read_offering(connection, changes.get("network_offering_id", row.network_offering_id))
        check_dns({"dns1": row.dns1, "dns2": row.dns2, **given}, has)
    if changes:
        store.update_network(connection, ref.id, changes)
        text = f"changed {', '.join(sorted(changes))} of network {row.name}"
        record_event(connection, caller, EventType.NETWORK_UPDATE, text, _about(ref), owner)
    shown = _row(connection, caller, ref)
    return done_with_object(connection, caller, f"{COMMANDS}.UpdateNetworkCmd", "network", shown, _about(ref))


def restart_network(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Nothing but an event: no appliance serves the network here.

    Raises:
        InvalidParameter: it was deleted.
        PermissionDenied: it is not the caller's to touch.
    """
    row, owner = lock_own(connection, caller, ref, NOUN)
    text = f"restarted network {row.name}: nothing serves it, so there was nothing to do"
    record_event(connection, caller, EventType.NETWORK_RESTART, text, _about(ref), owner)
    return done_with_success(connection, caller, f"{COMMANDS}.RestartNetworkCmd", _about(ref))


def delete_network(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Delete a network that no VM has a nic in, with its addresses.

    Raises:
        InvalidParameter: it was deleted, or only the system uses it.
        PermissionDenied: it is not the caller's to touch.
        ResourceInUse: a VM that is not expunged has a nic in it.
    """
    row, owner = lock_own(connection, caller, ref, NOUN)
    if row.is_system:
        raise InvalidParameter("id", str(ref.uuid), "only the system uses this network, and it stays")
    store.remove_ranges(connection, ref.id)
    user = store.user_of(connection, ref.id)
    if user is not None:
        raise ResourceInUse(f"Network {row.name} can not be deleted: {user}")
    mark_removed(connection, ref)
    text = f"deleted network {row.name}"
    record_event(connection, caller, EventType.NETWORK_DELETE, text, _about(ref), owner)
    return done_with_success(connection, caller, f"{COMMANDS}.DeleteNetworkCmd", _about(ref))


def offering_of(connection: Connection, caller: Caller, ref: EntityRef) -> OfferingFacts:
    """The offering of a network that the caller may change.

    Raises:
        PermissionDenied: it is not the caller's to touch.
    """
    account_id, offering_id = store.owner_and_offering(connection, ref.id)
    require_access(connection, caller, account_id, f"{NOUN} {ref.uuid}")
    return store.read_offering(connection, offering_id)


def _about(ref: EntityRef) -> Instance:
    return Instance("Network", ref.id, ref.uuid)


def _row(connection: Connection, caller: Caller, ref: EntityRef) -> Mapping[str, Any]:
    seen = as_found_by_id(connection, caller)
    return list_networks(connection, seen, {"id": ref}, Paging(1), NetworkFilter.ALL).rows[0]
