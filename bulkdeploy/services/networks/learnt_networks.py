"""Networks that are imported from another cloud. Their VLANs and addresses come from that cloud."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.guest_networks import DEFAULT_GUEST_CIDR, GuestType, RequestedSubnet, subnet_of
from bulkdeploy.services.ownership import lock_owners
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import columns_of, insert_rows

OF_DOMAIN = "Domain"


def add_networks(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Write the rows of another cloud's networks. The addresses of Shared networks become separate address ranges.

    Raises:
        InvalidParameter: there is no such owner, or a gateway is not in its network.
    """
    owners = lock_owners(connection, caller, [_owned(given) for given in batch])
    rows = [_row(given, owner) for given, owner in zip(batch, owners, strict=True)]
    made = insert_rows(connection, Entity.NETWORK, rows)
    ranges = []
    for ref, given in zip(made, batch, strict=True):
        if given["guesttype"] == GuestType.ISOLATED and "gateway" in given and "netmask" in given:
            wanted = RequestedSubnet(given["gateway"], given["netmask"], None, None)
            subnet = subnet_of(GuestType.ISOLATED, wanted, DEFAULT_GUEST_CIDR)
            if subnet is not None:
                ranges.append(store.range_of(ref.id, subnet))
    insert_rows(connection, Entity.VLAN_IP_RANGE, ranges)
    happened = (
        Happened(
            EventType.NETWORK_CREATE, f"learnt of network {ref.name}", Instance("Network", ref.id, ref.uuid), owner
        )
        for ref, owner in zip(made, owners, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def _owned(given: Arguments) -> Arguments:
    """Return the parameters of a network with its owner. A domain's network is owned by the caller's account."""
    return {} if given.get("acltype") == OF_DOMAIN else given


def _row(given: Arguments, owner: Owner) -> dict[str, Any]:
    columns = columns_of({name: store.FIELDS[name] for name in store.FIELDS if name != "domainid"}, given)
    return {
        "display_text": given["name"],
        "acl_type": "Account",
        "subdomain_access": True,
        **columns,
        "account_id": owner.account_id,
        "domain_id": given["domainid"].id if given.get("acltype") == OF_DOMAIN else owner.domain_id,
        "guest_type": given["guesttype"],
        "cidr": given.get("cidr"),
        "state": "Setup" if given["guesttype"] == GuestType.SHARED else "Implemented",
    }
