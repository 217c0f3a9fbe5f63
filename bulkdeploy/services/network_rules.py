"""The rules of createNetwork for zone, offering and owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.domain.infrastructure.topology import AllocationState, NetworkType
from bulkdeploy.domain.networks.guest_networks import GuestType
from bulkdeploy.services.live_entities import given_refs
from bulkdeploy.services.ownership import lock_owners, require_domains
from bulkdeploy.store.accounts.resource_limits import domain_ids
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.rows.filters import Arguments

DNS_SERVERS = frozenset({"dns1", "dns2"})
OF_ACCOUNT, OF_DOMAIN = "Account", "Domain"


@dataclass(frozen=True, slots=True)
class Reach:
    """The owner of a network: an account, or a whole domain."""

    acl_type: str
    owner: Owner
    domain_id: int
    subdomain_access: bool

    @classmethod
    def of_account(cls, owner: Owner) -> "Reach":
        """Return the reach of a network that belongs to one account."""
        return cls(OF_ACCOUNT, owner, owner.domain_id, subdomain_access=True)


def check_zones(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> dict[int, Row[Any]]:
    """Return the zones of new networks by internal id. The zones are locked until the transaction ends.

    Raises:
        InvalidParameter: a zone was deleted, or is a Basic zone that already has its only guest network.
        PermissionDenied: a zone is disabled, and the caller is not a root admin.
    """
    rows = store.keep_zones(connection, {given["zoneid"].id for given in batch})
    full = store.zones_with_networks(connection, rows)
    for given in batch:
        zone: EntityRef = given["zoneid"]
        row = rows.get(zone.id)
        if row is None:
            raise InvalidParameter("zoneid", str(zone.uuid), "the zone was deleted")
        if row.network_type == NetworkType.BASIC:
            if zone.id in full:
                raise InvalidParameter(
                    "zoneid", str(zone.uuid), "a Basic zone has one guest network and cannot get another one"
                )
            full.add(zone.id)
        if row.allocation_state != AllocationState.ENABLED and not caller.is_root_admin:
            raise PermissionDenied(f"Cannot perform this operation, Zone is currently disabled: {zone.uuid}")
    return rows


def check_basic(given: Arguments, offering: OfferingFacts) -> None:
    """Check the arguments of a Basic zone's network.

    The network must be Shared, and its addresses are added per pod (createVlanIpRange), so no range may be given.

    Raises:
        InvalidParameter, InvalidCombination: the network is not Shared, or addresses or a VLAN are given.
    """
    if offering.guest_type != GuestType.SHARED:
        raise InvalidParameter(
            "networkofferingid",
            str(given["networkofferingid"].uuid),
            "the network of a Basic zone must be a Shared one",
        )
    for name in ("gateway", "netmask", "startip", "endip", "vlan"):
        if name in given:
            rule = f"{name} cannot be given in a Basic zone: its pods have ranges of addresses"
            raise InvalidCombination((name, "zoneid"), rule)


def require_open_offering(offering: OfferingFacts, owner: Owner, zone_id: int) -> None:
    """Check that a network offering is for the zone and the owner's domain. Root admins may use all offerings.

    Raises:
        PermissionDenied: the offering is for other domains.
        InvalidParameter: the offering is for other zones.
    """
    if (
        offering.domain_ids
        and not owner.is_root_admin
        and offering.domain_ids.isdisjoint(domain_ids(owner.lineage))
    ):
        raise PermissionDenied(
            f"Account {owner.account_name} does not have permission to use network offering {offering.name}"
        )
    if offering.zone_ids and zone_id not in offering.zone_ids:
        raise InvalidParameter("networkofferingid", offering.name, "the offering is not available in the zone")


def check_offerings(
    connection: Connection, caller: Caller, offerings: Sequence[EntityRef]
) -> dict[int, OfferingFacts]:
    """Return network offerings by internal id, after checking that the caller may create networks from them.

    Raises:
        InvalidParameter: an offering is not enabled, or is not for guest networks.
        PermissionDenied: an offering is for Shared networks, and the caller is not a root admin.
    """
    found = store.read_offerings(connection, {offering.id for offering in offerings})
    for offering in offerings:
        facts = found[offering.id]
        if not facts.usable:
            raise InvalidParameter(
                "networkofferingid", str(offering.uuid), "it must be an enabled offering of guest networks"
            )
        if facts.guest_type == GuestType.SHARED and not caller.is_root_admin:
            raise PermissionDenied(f"{caller.username} may not create Shared networks: only root admins may")
    return found


def check_new_offering(present: OfferingFacts, new: OfferingFacts, offering: EntityRef) -> None:
    """Raise InvalidParameter if a network cannot change from its present offering to this new offering.

    Raises:
        InvalidParameter: the new offering has another network type, or lacks a service of the present offering.
    """
    if new.guest_type != present.guest_type:
        raise InvalidParameter(
            "networkofferingid", str(offering.uuid), f"it must be an offering of {present.guest_type} networks"
        )
    missing = sorted(set(present.services) - set(new.services))
    if missing:
        rule = f"it must have all services of the network's offering, and lacks {', '.join(missing)}"
        raise InvalidParameter("networkofferingid", str(offering.uuid), rule)


def reaches_of(
    connection: Connection, caller: Caller, batch: Sequence[Arguments], offerings: Mapping[int, OfferingFacts]
) -> list[Reach]:
    """Return the owner of each new network.

    A Shared network belongs to a domain unless the request names an account. Other networks belong to an account.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: the caller may not create networks for the owner, or
        ``acltype`` does not match the other parameters.
    """
    acl_types = [_acl_type(caller, given, offerings[given["networkofferingid"].id].guest_type) for given in batch]
    of_accounts = [given for given, acl_type in zip(batch, acl_types, strict=True) if acl_type == OF_ACCOUNT]
    owners = iter(lock_owners(connection, caller, of_accounts))
    of_domains = (given for given, acl_type in zip(batch, acl_types, strict=True) if acl_type == OF_DOMAIN)
    require_domains(connection, caller, given_refs(of_domains, "domainid"))
    return [
        Reach.of_account(next(owners)) if acl_type == OF_ACCOUNT else _reach_of_domain(caller, given)
        for given, acl_type in zip(batch, acl_types, strict=True)
    ]


def _acl_type(caller: Caller, given: Arguments, guest_type: str) -> str:
    shared = guest_type == GuestType.SHARED
    account_given = "account" in given or "projectid" in given
    acl_type = str(given.get("acltype") or (OF_DOMAIN if shared and not account_given else OF_ACCOUNT))
    if acl_type == OF_ACCOUNT:
        if "subdomainaccess" in given:
            raise InvalidCombination(("subdomainaccess", "acltype"), "subdomainaccess requires acltype Domain")
    elif not shared:
        raise InvalidParameter(
            "acltype", acl_type, f"{guest_type} networks belong to one account, so acltype must be Account"
        )
    elif account_given:
        raise InvalidCombination(
            ("acltype", "account"), "a network of a whole domain has no account and no project"
        )
    elif caller.role_type is RoleType.USER:
        raise PermissionDenied(f"{caller.username} may not create networks for a whole domain")
    return acl_type


def _reach_of_domain(caller: Caller, given: Arguments) -> Reach:
    domain: EntityRef | None = given.get("domainid")
    if domain is not None and domain.removed:
        raise InvalidParameter("domainid", str(domain.uuid), "the domain was deleted")
    domain_id = caller.owner.domain_id if domain is None else domain.id
    return Reach(OF_DOMAIN, caller.owner, domain_id, given.get("subdomainaccess") is not False)


def check_dns(servers: Mapping[str, Any], offering: OfferingFacts) -> None:
    """Check a network's own DNS servers.

    Raises:
        InvalidParameter, InvalidCombination: a server is not an IPv4 address, the second is given without the
        first, or the offering does not have the DNS service.
    """
    given = {name: servers[name] for name in sorted(DNS_SERVERS) if servers.get(name) is not None}
    for name, server in given.items():
        if "Dns" not in offering.services:
            raise InvalidParameter(name, server, f"network offering {offering.name} has no service Dns")
    if list(given) == ["dns2"]:
        raise InvalidCombination(("dns1", "dns2"), "dns2 requires dns1")
