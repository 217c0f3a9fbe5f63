"""Rows of physical networks with traffic types and service providers, and the objects that use them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Column, Connection, delete, func, insert, select, update

from bulkdeploy.domain.networks.network_services import ELEMENTS, PROVIDERS, TrafficType
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.networks import (
    dedicated_vlan_ranges,
    ip_ranges,
    network_service_providers,
    networks,
    physical_networks,
    traffic_types,
)
from bulkdeploy.store.tables.topology import zones

PHYSICAL: Filters = {
    "id": by_id(physical_networks.c.id),
    "name": same_text(physical_networks.c.name),
    "keyword": keyword(physical_networks.c.name),
    "zoneid": by_id(physical_networks.c.zone_id),
}
TRAFFIC: Filters = {
    "id": by_id(traffic_types.c.id),
    "physicalnetworkid": by_id(traffic_types.c.physical_network_id),
    "keyword": keyword(traffic_types.c.traffic_type),
}
PROVIDER: Filters = {
    "id": by_id(network_service_providers.c.id),
    "physicalnetworkid": by_id(network_service_providers.c.physical_network_id),
    "name": same_text(network_service_providers.c.name),
    "keyword": keyword(network_service_providers.c.name),
    "state": same_text(network_service_providers.c.state),
    "nspid": by_id(network_service_providers.c.id),
    "enabled": equal(network_service_providers.c.element_enabled),
}
CONTENTS: Mapping[str, Column[Any]] = {
    "networks": networks.c.physical_network_id,
    "public address ranges": ip_ranges.c.physical_network_id,
}
"""What must be gone before a physical network is; traffic types and providers go with it."""

FIELDS: Fields = {
    "zoneid": physical_networks.c.zone_id,
    "name": physical_networks.c.name,
    "state": physical_networks.c.state,
    "vlan": physical_networks.c.vlan_range,
    "isolationmethods": func.string_to_array(physical_networks.c.isolation_methods, ","),
    "broadcastdomainrange": physical_networks.c.broadcast_domain_range,
    "networkspeed": physical_networks.c.network_speed,
    "tags": physical_networks.c.tags,
}

PHYSICAL_NETWORKS_OF_A_ZONE: Column[Any] = physical_networks.c.zone_id


def list_physical_networks(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of physical networks by id."""
    one = physical_networks.c
    query = (
        select(
            one.uuid.label("id"),
            one.name,
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            one.state,
            one.vlan_range.label("vlan"),
            one.isolation_methods.label("isolationmethods"),
            one.network_speed.label("networkspeed"),
            one.broadcast_domain_range.label("broadcastdomainrange"),
            one.tags,
        )
        .select_from(physical_networks.join(zones, zones.c.id == one.zone_id))
        .where(one.removed.is_(None))
        .order_by(one.id)
    )
    rows, count = fetch_rows(connection, filtered(query, PHYSICAL, arguments), paging)
    for row in rows:
        row["tags"] = ",".join(row["tags"]) or None
    return Page(rows, count)


def list_traffic_types(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of traffic types by id."""
    one = traffic_types.c
    query = (
        select(
            one.uuid.label("id"),
            one.traffic_type.label("traffictype"),
            physical_networks.c.uuid.label("physicalnetworkid"),
            physical_networks.c.isolation_methods.label("isolationmethods"),
            one.labels,
        )
        .select_from(traffic_types.join(physical_networks, physical_networks.c.id == one.physical_network_id))
        .where(one.removed.is_(None), physical_networks.c.removed.is_(None))
        .order_by(one.id)
    )
    rows, count = fetch_rows(connection, filtered(query, TRAFFIC, arguments), paging)
    for row in rows:
        row.update(row.pop("labels"))
    return Page(rows, count)


def list_providers(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of service providers by id."""
    one = network_service_providers.c
    query = (
        select(
            one.uuid.label("id"),
            one.name,
            one.state,
            one.services.label("servicelist"),
            physical_networks.c.uuid.label("physicalnetworkid"),
        )
        .select_from(
            network_service_providers.join(physical_networks, physical_networks.c.id == one.physical_network_id)
        )
        .where(one.removed.is_(None), physical_networks.c.removed.is_(None))
        .order_by(one.id)
    )
    rows, count = fetch_rows(connection, filtered(query, PROVIDER, arguments), paging)
    for row in rows:
        row["servicelist"] = row["servicelist"] or list(PROVIDERS[row["name"]])
        row["canenableindividualservice"] = True
    return Page(rows, count)


def list_elements(connection: Connection, names: Iterable[str], arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the elements of the providers with these names. An element's id is its provider's id."""
    one = network_service_providers.c
    query = (
        select(one.uuid.label("id"), one.uuid.label("nspid"), one.element_enabled.label("enabled"))
        .where(one.removed.is_(None), one.name.in_(sorted(names)))
        .order_by(one.id)
    )
    return fetch_page(connection, filtered(query, PROVIDER, arguments), paging)


def add_default_providers(connection: Connection, networks: Mapping[int, bool]) -> None:
    """Insert the default service providers of new physical networks. All providers are disabled.

    ``networks`` maps the internal ids of the networks to whether they need a provider of security groups.
    """
    names = [*sorted(ELEMENTS, reverse=True), "ConfigDrive"]
    rows = [
        {"physical_network_id": network_id, "name": name}
        for network_id, has_groups in networks.items()
        for name in (*names, *(("SecurityGroupProvider",) if has_groups else ()))
    ]
    connection.execute(insert(network_service_providers).values(rows))


def remove_contents(connection: Connection, network_ids: Collection[int]) -> None:
    """Mark the traffic types and providers of physical networks as deleted, and release their dedicated VLANs."""
    for table in (traffic_types, network_service_providers):
        of_networks = (id_in(table.c.physical_network_id, network_ids), table.c.removed.is_(None))
        connection.execute(update(table).where(*of_networks).values(removed=func.now()))
    dedicated = dedicated_vlan_ranges
    connection.execute(delete(dedicated).where(id_in(dedicated.c.physical_network_id, network_ids)))


def with_public_traffic(connection: Connection, zone_ids: Collection[int]) -> dict[int, list[int]]:
    """Return the ids of the physical networks that carry public traffic, by the id of their zone."""
    query = (
        select(physical_networks.c.zone_id, physical_networks.c.id)
        .join(traffic_types, traffic_types.c.physical_network_id == physical_networks.c.id)
        .where(
            id_in(physical_networks.c.zone_id, zone_ids),
            physical_networks.c.removed.is_(None),
            traffic_types.c.removed.is_(None),
            traffic_types.c.traffic_type == TrafficType.PUBLIC.value,
        )
        .order_by(physical_networks.c.id)
    )
    found: dict[int, list[int]] = {}
    for row in connection.execute(query):
        found.setdefault(row.zone_id, []).append(row.id)
    return found
