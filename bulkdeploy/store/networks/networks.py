"""The list query of guest networks."""

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    case,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.resource_tags import NETWORK, add_tags
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    always,
    by_id,
    equal,
    filtered,
    has_all,
    keyword,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.visibility import Visibility, account_name, with_owner
from bulkdeploy.store.tables.accounts import domains, projects
from bulkdeploy.store.tables.networks import (
    network_offerings,
    network_permissions,
    networks,
    nics,
    physical_networks,
)
from bulkdeploy.store.tables.topology import zones

GUEST = "Guest"
SHARED = "Shared"
ALLOCATED = "Allocated"
OF_ACCOUNT, OF_DOMAIN = "Account", "Domain"

reach = domains.alias("reach")
"""The domain that a network of a domain is open to."""


class NetworkFilter(StrEnum):
    """The values of the parameter ``networkfilter``."""

    ACCOUNT = "Account"
    DOMAIN = "Domain"
    ACCOUNT_DOMAIN = "AccountDomain"
    SHARED = "Shared"
    ALL = "All"


def list_networks(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging, shown: NetworkFilter
) -> Page:
    """Return one page of networks that visible accounts own or may use, ordered by id."""
    query = _query().where(networks.c.removed.is_(None), _shown(shown, visibility))
    rows, count = fetch_rows(connection, filtered(query, _filters(), arguments), paging)
    for row in rows:
        row["service"] = [{"name": name} for name in row["service"]]
        row.update(
            related=row["id"],
            traffictype=GUEST,
            broadcastdomaintype="Vlan",
            displaynetwork=True,
            restartrequired=False,
            specifyipranges=row["type"] == SHARED,
            canusefordeploy=not row["issystem"],
        )
    add_tags(connection, NETWORK, rows)
    return Page(rows, count)


def _shown(shown: NetworkFilter, visibility: Visibility) -> Condition:
    network = networks.c
    owned = and_(network.acl_type == OF_ACCOUNT, visibility.condition())
    usable = and_(
        network.acl_type == OF_DOMAIN, visibility.reaches(reach.c.lineage, network.subdomain_access.is_(True))
    )
    permission = network_permissions.c
    permitted = select(1).where(permission.network_id == network.id, visibility.of_account(permission.account_id))
    conditions = {
        NetworkFilter.ACCOUNT: owned,
        NetworkFilter.DOMAIN: usable,
        NetworkFilter.ACCOUNT_DOMAIN: or_(owned, usable),
        NetworkFilter.SHARED: exists(permitted),
        NetworkFilter.ALL: or_(owned, usable, exists(permitted)),
    }
    return conditions[shown]


def _query() -> Select[Any]:
    network = networks.c
    return (
        select(
            network.id.label("_id"),
            network.uuid.label("id"),
            network.name,
            network.display_text.label("displaytext"),
            network.guest_type.label("type"),
            network.acl_type.label("acltype"),
            *_owner_columns(),
            network.subdomain_access.label("subdomainaccess"),
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            func.coalesce(network.dns1, zones.c.dns1).label("dns1"),
            case((network.dns1.is_(None), zones.c.dns2), else_=network.dns2).label("dns2"),
            network.public_mtu.label("publicmtu"),
            network.private_mtu.label("privatemtu"),
            network_offerings.c.uuid.label("networkofferingid"),
            network_offerings.c.name.label("networkofferingname"),
            network_offerings.c.display_text.label("networkofferingdisplaytext"),
            network_offerings.c.availability.label("networkofferingavailability"),
            network_offerings.c.specify_vlan.label("specifyvlan"),
            network_offerings.c.services.label("service"),
            physical_networks.c.uuid.label("physicalnetworkid"),
            network.cidr,
            network.gateway,
            network.netmask,
            network.vlan,
            (literal("vlan://") + network.vlan).label("broadcasturi"),
            network.network_domain.label("networkdomain"),
            network.is_default.label("isdefault"),
            network.is_system.label("issystem"),
            network_offerings.c.is_persistent.label("ispersistent"),
            _state(),
            network.created,
            *annotation_columns(Entity.NETWORK),
        )
        .select_from(_tables())
        .order_by(network.id)
    )


def _state() -> ColumnElement[str]:
    """Return the column ``state``. A network that is set up for its VMs only is Allocated until it has a VM."""
    network, nic = networks.c, nics.c
    has_vms = exists(select(1).where(nic.network_id == network.id, nic.removed.is_(None)))
    is_set_up = or_(network.guest_type == SHARED, network_offerings.c.is_persistent, has_vms)
    return case((is_set_up, network.state), else_=ALLOCATED).label("state")


def _owner_columns() -> tuple[ColumnElement[Any], ...]:
    """Return the columns of a network's domain, and of its account or project if it belongs to only one."""
    is_owned = networks.c.acl_type == OF_ACCOUNT
    return (
        case((is_owned, account_name())).label("account"),
        reach.c.uuid.label("domainid"),
        reach.c.name.label("domain"),
        reach.c.path.label("domainpath"),
        case((is_owned, projects.c.name)).label("project"),
        case((is_owned, projects.c.uuid)).label("projectid"),
    )


def _tables() -> FromClause:
    network = networks.c
    return (
        with_owner(networks, network.account_id)
        .join(reach, reach.c.id == network.domain_id)
        .join(zones, zones.c.id == network.zone_id)
        .join(network_offerings, network_offerings.c.id == network.network_offering_id)
        .outerjoin(physical_networks, physical_networks.c.id == network.physical_network_id)
    )


def _filters() -> Filters:
    network = networks.c
    return {
        "id": by_id(network.id),
        "name": same_text(network.name),
        "keyword": keyword(network.name, network.display_text),
        "zoneid": by_id(network.zone_id),
        "type": same_text(network.guest_type),
        "acltype": same_text(network.acl_type),
        "traffictype": lambda value: true() if value.lower() == GUEST.lower() else false(),
        "networkofferingid": by_id(network.network_offering_id),
        "physicalnetworkid": by_id(network.physical_network_id),
        "issystem": equal(network.is_system),
        "canusefordeploy": network.is_system.is_not,
        "supportedservices": has_all(network_offerings.c.services),
        "specifyipranges": lambda value: (network.guest_type == SHARED) == value,
        "displaynetwork": always(True),
        "restartrequired": always(False),
        "vlan": lambda value: network.vlan == value.lower().removeprefix("vlan://"),
        "tags": tagged(NETWORK, network.id),
    }
