"""The rules of createNetwork (reference section 8.9): zone, offering, who gets it, VLAN."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InsufficientVlans, InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.domain.guest_networks import UNTAGGED, GuestType, RequestedSubnet, free_vlan, vlan_of
from bulkdeploy.domain.topology import AllocationState, NetworkType
from bulkdeploy.services.ownership import NamedOwner, lock_owner, require_domain
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.network_changes import OfferingFacts

DNS_SERVERS = frozenset({"dns1", "dns2"})
OF_ACCOUNT, OF_DOMAIN = "Account", "Domain"


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """What createNetwork was called with; references and numbers, nothing checked against each other."""

    name: str
    zone: EntityRef
    offering: EntityRef
    named: NamedOwner
    subnet: RequestedSubnet
    display_text: str | None = None
    acl_type: str | None = None
    domain: EntityRef | None = None
    subdomain_access: bool | None = None
    vlan: str | None = None
    bypass_vlan_overlap_check: bool = False
    physical_network: EntityRef | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """DNS, packet sizes and what else may be changed, by column."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Who has a network: an account, or a whole domain."""

    acl_type: str
    owner: Owner
    domain_id: int
    subdomain_access: bool


def check_zone(connection: Connection, caller: Caller, zone: EntityRef) -> Row[Any]:
    """The zone's row; it stays until the transaction ends.

    Raises:
        InvalidParameter: it was deleted, or is a Basic one that has its one guest network.
        PermissionDenied: it is disabled, and the caller no root admin.
    """
    row = store.keep_zone(connection, zone.id)
    if row is None:
        raise InvalidParameter("zoneid", str(zone.uuid), "the zone was deleted")
    if row.network_type == NetworkType.BASIC and store.has_network(connection, zone.id):
        raise InvalidParameter("zoneid", str(zone.uuid), "a Basic zone has one guest network and gets no others")
    if row.allocation_state != AllocationState.ENABLED and not caller.is_root_admin:
        raise PermissionDenied(f"Cannot perform this operation, Zone is currently disabled: {zone.uuid}")
    return row


def check_basic(request: NetworkRequest, offering: OfferingFacts) -> None:
    """The network of a Basic zone is a Shared one, whose addresses are given pod by pod (createVlanIpRange).

    Raises:
        InvalidParameter, InvalidCombination: it is another one, or is given addresses or a VLAN.
    """
    if offering.guest_type != GuestType.SHARED:
        raise InvalidParameter(
            "networkofferingid", str(request.offering.uuid), "the network of a Basic zone must be a Shared one"
        )
    given = [*request.subnet.given(), *(("vlan",) if request.vlan is not None else ())]
    if given:
        rule = f"{given[0]} can not be given in a Basic zone: its pods have ranges of addresses"
        raise InvalidCombination((given[0], "zoneid"), rule)


def check_offering(connection: Connection, caller: Caller, offering: EntityRef) -> OfferingFacts:
    """The offering, if networks can be made from it.

    Raises:
        InvalidParameter: it is not enabled, or not for guests.
        PermissionDenied: Shared networks are made by root admins.
    """
    facts = store.read_offering(connection, offering.id)
    if not facts.usable:
        raise InvalidParameter(
            "networkofferingid", str(offering.uuid), "it must be an enabled offering of guest networks"
        )
    if facts.guest_type == GuestType.SHARED and not caller.is_root_admin:
        raise PermissionDenied(f"{caller.username} may not make Shared networks: only root admins may")
    return facts


def check_new_offering(connection: Connection, caller: Caller, present_id: int, offering: EntityRef) -> None:
    """A network may have this offering instead of its present one.

    Raises:
        InvalidParameter: it is not enabled, of another type, or without a service that the network has.
        PermissionDenied: Shared networks are made by root admins.
    """
    present, new = store.read_offering(connection, present_id), check_offering(connection, caller, offering)
    if new.guest_type != present.guest_type:
        raise InvalidParameter(
            "networkofferingid", str(offering.uuid), f"it must be one of {present.guest_type} networks"
        )
    missing = sorted(set(present.services) - set(new.services))
    if missing:
        rule = f"it should have all services of the network's offering, and lacks {', '.join(missing)}"
        raise InvalidParameter("networkofferingid", str(offering.uuid), rule)


def reach_of(connection: Connection, caller: Caller, request: NetworkRequest, guest_type: str) -> Reach:
    """Who gets the network. Shared ones: the domain, unless an account is named; others: an account.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``services.ownership``; ``acltype`` and what
            it goes with.
    """
    named, shared = request.named, guest_type == GuestType.SHARED
    account_given = named.account is not None or named.project_id is not None
    acl_type = request.acl_type or (OF_DOMAIN if shared and not account_given else OF_ACCOUNT)
    if acl_type == OF_ACCOUNT:
        if request.subdomain_access is not None:
            raise InvalidCombination(
                ("subdomainaccess", "acltype"), "subdomainaccess goes with acltype Domain, not with Account"
            )
        owner = lock_owner(connection, caller, named)
        return Reach(OF_ACCOUNT, owner, owner.domain_id, subdomain_access=True)
    if not shared:
        raise InvalidParameter("acltype", acl_type, f"{guest_type} networks are of one account: Account")
    if account_given:
        raise InvalidCombination(
            ("acltype", "account"), "a network of a whole domain has no account and no project"
        )
    if caller.role_type is RoleType.USER:
        raise PermissionDenied(f"{caller.username} may not make networks of a whole domain")
    domain_id = caller.owner.domain_id
    if request.domain is not None:
        require_domain(connection, caller, request.domain)
        if request.domain.removed:
            raise InvalidParameter("domainid", str(request.domain.uuid), "the domain was deleted")
        domain_id = request.domain.id
    return Reach(OF_DOMAIN, caller.owner, domain_id, request.subdomain_access is not False)


def choose_vlan(
    connection: Connection, request: NetworkRequest, offering: OfferingFacts
) -> tuple[str | None, int | None]:
    """The VLAN, and the physical network (internal id) it is on; each VLAN is given once.

    The one asked for, or where the offering does not want one to be said, the lowest free one of the physical
    network's range; None where there is no range to take it from.

    Raises:
        InvalidParameter, InvalidCombination: it is missing, malformed or in use, or there is no such
            physical network in the zone.
        InsufficientVlans: all of the range are in use.
    """
    wanted = request.physical_network
    physical = store.lock_physical_network(connection, request.zone.id, None if wanted is None else wanted.id)
    if wanted is not None and physical is None:
        raise InvalidParameter(
            "physicalnetworkid", str(wanted.uuid), f"zone {request.zone.name} has no such physical network"
        )
    physical_id = None if physical is None else physical.id
    used = store.vlans_in_use(connection, request.zone.id, physical_id)
    if request.vlan is not None:
        vlan = vlan_of(request.vlan)
        if vlan in used and vlan != UNTAGGED and not request.bypass_vlan_overlap_check:
            raise InvalidParameter(
                "vlan",
                request.vlan,
                f"network {used[vlan]} has it; bypassvlanoverlapcheck=true takes it all the same",
            )
        return vlan, physical_id
    if offering.specify_vlan:
        raise InvalidCombination(("vlan", "networkofferingid"), f"offering {offering.name} wants vlan to be given")
    if physical is None or not physical.vlan_range:
        return None, physical_id
    found = free_vlan(physical.vlan_range, used)
    if found is None:
        raise InsufficientVlans(physical.name, physical.vlan_range)
    return found, physical_id


def check_dns(servers: Mapping[str, Any], offering: OfferingFacts) -> None:
    """A network's own DNS servers: IPv4 addresses, the second only beside the first, in networks that have DNS.

    Raises:
        InvalidParameter, InvalidCombination: they are not.
    """
    given = {name: servers[name] for name in sorted(DNS_SERVERS) if servers.get(name) is not None}
    for name, server in given.items():
        if "Dns" not in offering.services:
            raise InvalidParameter(name, server, f"network offering {offering.name} has no service Dns")
    if list(given) == ["dns2"]:
        raise InvalidCombination(("dns1", "dns2"), "dns2 needs dns1 beside it")
