"""The creation of guest networks, by createNetwork or for an account's first VM without a network."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import NetworkType
from bulkdeploy.domain.networks.guest_networks import (
    DEFAULT_GUEST_CIDR,
    GuestType,
    RequestedSubnet,
    Subnet,
    subnet_of,
)
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.scheduling.network_vlans import choose_vlans
from bulkdeploy.services.live_entities import given_refs, unique_name
from bulkdeploy.services.network_rules import (
    Reach,
    check_basic,
    check_dns,
    check_offerings,
    check_zones,
    reaches_of,
    require_open_offering,
)
from bulkdeploy.services.ownership import require_open_zones
from bulkdeploy.store.accounts.live_limits import lock_limits, require_within_limits
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import columns_of, insert_rows


def create_networks(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create networks and return them.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: a network violates a rule of ``network_rules``.
        ResourceLimitExceeded: the network limit of an account or of a domain above it would be exceeded.
        InsufficientVlans: a physical network has no VLAN left.
    """
    zones = check_zones(connection, caller, batch)
    offerings = check_offerings(connection, caller, given_refs(batch, "networkofferingid"))
    for given in batch:  # before accounts are read
        _subnet(given, zones[given["zoneid"].id], offerings[given["networkofferingid"].id])
    reaches = reaches_of(connection, caller, batch, offerings)
    return _create(connection, caller, batch, zones, offerings, reaches)


def create_default_network(connection: Connection, caller: Caller, owner: Owner, zone: EntityRef) -> bool:
    """Create the network of an account's first VM in a zone if the deployment names no network.

    The network is created from the enabled offering of isolated networks whose availability is Required. If another
    transaction has just created a network for the account, no network is created.

    Returns:
        False if there is no such offering, otherwise True.

    Raises:
        ResourceLimitExceeded: the network limit of the account or of a domain above it would be exceeded.
        InsufficientVlans: the physical network has no free VLAN.
    """
    offering = store.required_offering(connection)
    if offering is None:
        return False
    lock_limits(connection, [owner])
    if not store.has_isolated_network(connection, owner.account_id, zone.id):
        given = {"name": f"{owner.account_name}-network", "zoneid": zone, "networkofferingid": offering}
        zones = check_zones(connection, caller, [given])
        offerings = store.read_offerings(connection, [offering.id])
        _create(connection, caller, [given], zones, offerings, [Reach.of_account(owner)])
    return True


def _create(
    connection: Connection,
    caller: Caller,
    batch: Sequence[Arguments],
    zones: Mapping[int, Row[Any]],
    offerings: Mapping[int, OfferingFacts],
    reaches: Sequence[Reach],
) -> list[EntityRef]:
    subnets = [
        _subnet(given, zones[given["zoneid"].id], offerings[given["networkofferingid"].id]) for given in batch
    ]
    require_open_zones(
        connection,
        (
            (reach.owner, given["zoneid"].id, given["zoneid"].uuid)
            for reach, given in zip(reaches, batch, strict=True)
        ),
    )
    for reach, given in zip(reaches, batch, strict=True):
        require_open_offering(offerings[given["networkofferingid"].id], reach.owner, given["zoneid"].id)
    require_within_limits(connection, [reach.owner for reach in reaches], ResourceType.NETWORK)
    vlans = iter(_choose_vlans(connection, batch, zones, offerings, reaches))
    rows = [
        _row(given, offerings[given["networkofferingid"].id], subnet, reach)
        for given, subnet, reach in zip(batch, subnets, reaches, strict=True)
    ]
    for given, row in zip(batch, rows, strict=True):
        is_basic = zones[given["zoneid"].id].network_type == NetworkType.BASIC
        row["vlan"], row["physical_network_id"] = (None, None) if is_basic else next(vlans)
        row.setdefault("is_default", is_basic)
    with unique_name("name", batch[0]["name"], "another network"):
        made = insert_rows(connection, Entity.NETWORK, rows)
    ranges = [
        store.range_of(ref.id, subnet) for ref, subnet in zip(made, subnets, strict=True) if subnet is not None
    ]
    insert_rows(connection, Entity.VLAN_IP_RANGE, ranges)
    happened = (
        Happened(
            EventType.NETWORK_CREATE,
            f"made {row['guest_type']} network {ref.name}",
            Instance("Network", ref.id, ref.uuid),
            reach.owner,
        )
        for ref, row, reach in zip(made, rows, reaches, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def _choose_vlans(
    connection: Connection,
    batch: Sequence[Arguments],
    zones: Mapping[int, Row[Any]],
    offerings: Mapping[int, OfferingFacts],
    reaches: Sequence[Reach],
) -> list[tuple[str | None, int | None]]:
    """Return the VLAN and the physical network of each network in an Advanced zone, as ``choose_vlans`` does."""
    advanced = [
        (given, reach.owner.account_id)
        for given, reach in zip(batch, reaches, strict=True)
        if zones[given["zoneid"].id].network_type != NetworkType.BASIC
    ]
    return choose_vlans(
        connection, [given for given, _ in advanced], offerings, [account for _, account in advanced]
    )


def _row(given: Arguments, offering: OfferingFacts, subnet: Subnet | None, reach: Reach) -> dict[str, Any]:
    return {
        **columns_of(store.FIELDS, given),
        "display_text": given.get("displaytext") or given["name"],
        "guest_type": offering.guest_type,
        "acl_type": reach.acl_type,
        "account_id": reach.owner.account_id,
        "domain_id": reach.domain_id,
        "subdomain_access": reach.subdomain_access,
        "cidr": None if subnet is None else subnet.cidr,
        "gateway": None if subnet is None else subnet.gateway,
        "netmask": None if subnet is None else subnet.netmask,
        "state": "Setup" if offering.guest_type == GuestType.SHARED else "Implemented",
    }


def _subnet(given: Arguments, zone: Row[Any], offering: OfferingFacts) -> Subnet | None:
    check_dns(given, offering)
    if zone.network_type == NetworkType.BASIC:
        check_basic(given, offering)
        return None
    requested = RequestedSubnet(*(given.get(name) for name in ("gateway", "netmask", "startip", "endip")))
    return subnet_of(GuestType(offering.guest_type), requested, zone.guest_cidr or DEFAULT_GUEST_CIDR)
