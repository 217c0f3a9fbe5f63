"""Guest networks made, changed, restarted and deleted (reference section 8.9).

A network is rows: VLAN and addresses, which VMs are given. There is no appliance that serves it, so nothing is
built, and restarting one finds nothing to restart.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.guest_networks import DEFAULT_GUEST_CIDR, GuestType, RequestedSubnet, Subnet, subnet_of
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.topology import NetworkType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import unique_name
from bulkdeploy.services.networks.network_rules import (
    DNS_SERVERS,
    NetworkRequest,
    check_basic,
    check_dns,
    check_new_offering,
    check_offering,
    check_zone,
    choose_vlan,
    reach_of,
)
from bulkdeploy.services.owned_entities import lock_own
from bulkdeploy.services.ownership import as_found_by_id, named_owner_of, require_access, require_open_zones
from bulkdeploy.store.accounts.live_limits import require_within_limits
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Paging
from bulkdeploy.store.live_rows import columns_of, insert_row, remove_rows
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.networks.networks import NetworkFilter, list_networks

NOUN = "network"
NEVER_EMPTY = ("name", "displaytext", "networkdomain")
COMMANDS = "org.apache.cloudstack.api.command.user.network"


def create_networks(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Make networks.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: a rule of ``network_rules`` is broken.
        ResourceLimitExceeded: an account, or a domain above it, has all the networks that it may.
        InsufficientVlans: a physical network has no VLAN left.
    """
    return [_create(connection, caller, _requested(given)) for given in batch]


def _requested(given: Arguments) -> NetworkRequest:
    return NetworkRequest(
        name=given["name"],
        zone=given["zoneid"],
        offering=given["networkofferingid"],
        named=named_owner_of(given),
        subnet=RequestedSubnet(*(given.get(name) for name in ("gateway", "netmask", "startip", "endip"))),
        display_text=given.get("displaytext"),
        acl_type=given.get("acltype"),
        domain=given.get("domainid"),
        subdomain_access=given.get("subdomainaccess"),
        vlan=given.get("vlan"),
        bypass_vlan_overlap_check=bool(given.get("bypassvlanoverlapcheck")),
        physical_network=given.get("physicalnetworkid"),
        settings={
            name: value
            for name, value in columns_of(store.CHANGEABLE, given).items()
            if name not in ("name", "display_text")
        },
    )


def _create(connection: Connection, caller: Caller, request: NetworkRequest) -> EntityRef:
    zone = check_zone(connection, caller, request.zone)
    offering = check_offering(connection, caller, request.offering)
    check_dns(request.settings, offering)
    is_basic = zone.network_type == NetworkType.BASIC
    subnet = None
    if is_basic:
        check_basic(request, offering)
    else:
        subnet = subnet_of(GuestType(offering.guest_type), request.subnet, zone.guest_cidr or DEFAULT_GUEST_CIDR)
    reach = reach_of(connection, caller, request, offering.guest_type)
    require_open_zones(connection, reach.owner, {request.zone.id: str(request.zone.uuid)})
    require_within_limits(connection, [reach.owner], ResourceType.NETWORK)
    vlan, physical_id = (None, None) if is_basic else choose_vlan(connection, request, offering)
    columns = {
        "name": request.name,
        "display_text": request.display_text or request.name,
        "zone_id": request.zone.id,
        "network_offering_id": request.offering.id,
        "physical_network_id": physical_id,
        "guest_type": offering.guest_type,
        "acl_type": reach.acl_type,
        "account_id": reach.owner.account_id,
        "domain_id": reach.domain_id,
        "subdomain_access": reach.subdomain_access,
        **_subnet_columns(subnet),
        "vlan": vlan,
        "is_default": is_basic,
        **request.settings,
        "state": "Setup" if offering.guest_type == GuestType.SHARED else "Implemented",
    }
    with unique_name("name", request.name, "another network"):
        ref = insert_row(connection, Entity.NETWORK, columns)
    if subnet is not None:
        store.insert_range(connection, ref.id, subnet)
    text = f"made {offering.guest_type} network {request.name}"
    record_event(connection, caller, EventType.NETWORK_CREATE, text, _about(ref), reach.owner)
    return ref


def _subnet_columns(subnet: Subnet | None) -> dict[str, str]:
    return {} if subnet is None else {"cidr": subnet.cidr, "gateway": subnet.gateway, "netmask": subnet.netmask}


def update_networks(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change what networks are called, their DNS, packet sizes or offering; names that are empty stay.

    VMs that exist keep the DNS domain they were given.

    Raises:
        InvalidParameter: one was deleted, or an offering or a server does not go with it.
        PermissionDenied: one is not the caller's to touch, or an offering not the caller's to use.
    """
    for ref, given in changes:
        _update(connection, caller, ref, given)


def _update(connection: Connection, caller: Caller, ref: EntityRef, given: Arguments) -> None:
    row, owner = lock_own(connection, caller, ref, NOUN)
    values = columns_of(store.CHANGEABLE, given, never_empty=NEVER_EMPTY)
    offering: EntityRef | None = given.get("networkofferingid")
    if offering is not None and offering.id != row.network_offering_id:
        check_new_offering(connection, caller, row.network_offering_id, offering)
        values["network_offering_id"] = offering.id
    if DNS_SERVERS & values.keys():
        has = store.read_offering(connection, values.get("network_offering_id", row.network_offering_id))
        check_dns({"dns1": row.dns1, "dns2": row.dns2, **values}, has)
    if values:
        store.update_network(connection, ref.id, values)
        text = f"changed {', '.join(sorted(values))} of network {row.name}"
        record_event(connection, caller, EventType.NETWORK_UPDATE, text, _about(ref), owner)


def changed_network(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """The job that changed a network; its result is the network."""
    shown = network_row(connection, caller, ref)
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
    remove_rows(connection, [ref])
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


def network_row(connection: Connection, caller: Caller, ref: EntityRef) -> Mapping[str, Any]:
    """The network as listNetworks shows it to the caller."""
    seen = as_found_by_id(connection, caller)
    return list_networks(connection, seen, {"id": ref}, Paging(1), NetworkFilter.ALL).rows[0]
