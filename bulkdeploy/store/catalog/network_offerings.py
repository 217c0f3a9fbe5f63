"""Rows of network offerings: the list query, inserts and updates, and the networks that use an offering."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Select, select

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.catalog.offering_places import offered_to, place_columns, read_offerings
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, has_all, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.networks import network_offerings, networks
from bulkdeploy.store.tables.offerings import service_offerings

FILTERS: Filters = {
    "id": by_id(network_offerings.c.id),
    "name": same_text(network_offerings.c.name),
    "displaytext": same_text(network_offerings.c.display_text),
    "keyword": keyword(network_offerings.c.name, network_offerings.c.display_text),
    "guestiptype": same_text(network_offerings.c.guest_type),
    "traffictype": same_text(network_offerings.c.traffic_type),
    "availability": same_text(network_offerings.c.availability),
    "state": same_text(network_offerings.c.state),
    "isdefault": equal(network_offerings.c.is_default),
    "specifyvlan": equal(network_offerings.c.specify_vlan),
    "supportedservices": has_all(network_offerings.c.services),
    "specifyipranges": equal(network_offerings.c.specify_ip_ranges),
    "tags": same_text(network_offerings.c.tags),
    "istagged": lambda value: network_offerings.c.tags.is_not(None) == value,
    "sourcenatsupported": lambda value: has_all(network_offerings.c.services)(["SourceNat"]) == value,
}

FIELDS: Fields = {
    "name": network_offerings.c.name,
    "displaytext": network_offerings.c.display_text,
    "guestiptype": network_offerings.c.guest_type,
    "traffictype": network_offerings.c.traffic_type,
    "availability": network_offerings.c.availability,
    "specifyvlan": network_offerings.c.specify_vlan,
    "specifyipranges": network_offerings.c.specify_ip_ranges,
    "ispersistent": network_offerings.c.is_persistent,
    "conservemode": network_offerings.c.conserve_mode,
    "egressdefaultpolicy": network_offerings.c.egress_default_policy,
    "networkrate": network_offerings.c.network_rate,
    "maxconnections": network_offerings.c.max_connections,
    "serviceofferingid": network_offerings.c.service_offering_id,
    "domainid": network_offerings.c.domain_ids,
    "zoneid": network_offerings.c.zone_ids,
    "state": network_offerings.c.state,
    "sortkey": network_offerings.c.sort_key,
    "tags": network_offerings.c.tags,
}

NETWORKS: Column[Any] = networks.c.network_offering_id
"""Networks hang on their offering by this column."""


def read_network_offerings(connection: Connection) -> list[dict[str, Any]]:
    """Return every live network offering as the parameters that create it.

    ``_default`` is True if the installation created the offering. ``_offered`` is False if all zones or domains of
    the offering were deleted, so that no account can use it.
    """
    offering = network_offerings.c
    parts = {"supportedservices": offering.services, "_providers": offering.providers}
    parts |= {"_capabilities": offering.capabilities, "_default": offering.is_default}
    rows = read_offerings(connection, Entity.NETWORK_OFFERING, {**FIELDS, **parts})
    for row in rows:
        row["serviceproviderlist"] = [
            {"service": service, "provider": provider}
            for service, providers in row.pop("_providers").items()
            for provider in providers
        ]
        row["servicecapabilitylist"] = [
            {"service": service, "capabilitytype": name, "capabilityvalue": value}
            for service, said in row.pop("_capabilities").items()
            for name, value in said.items()
        ]
    return rows


def list_network_offerings(
    connection: Connection,
    caller: Caller,
    arguments: Arguments,
    paging: Paging,
    present: OfferingFacts | None = None,
) -> Page:
    """Return one page of the network offerings that the caller may use, ordered by id.

    With ``present``, the page lists the offerings to which a network of the offering ``present`` can change.
    """
    offering, query = network_offerings.c, _query().where(offered_to(network_offerings, caller))
    if present is not None:
        query = query.where(
            offering.id != present.id,
            offering.guest_type == present.guest_type,
            offering.traffic_type == "Guest",
            offering.state == "Enabled",
            has_all(offering.services)(present.services),
        )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        providers, capabilities = row.pop("providers"), row.pop("capabilities")
        row["service"] = [_service(name, providers, capabilities) for name in row["service"]]
        row["forvpc"] = False
    return Page(rows, count)


def _query() -> Select[Any]:
    offering = network_offerings.c
    return (
        select(
            offering.uuid.label("id"),
            offering.name,
            offering.display_text.label("displaytext"),
            offering.guest_type.label("guestiptype"),
            offering.traffic_type.label("traffictype"),
            offering.availability,
            offering.specify_vlan.label("specifyvlan"),
            offering.is_default.label("isdefault"),
            offering.state,
            offering.services.label("service"),
            offering.providers,
            offering.capabilities,
            offering.specify_ip_ranges.label("specifyipranges"),
            offering.is_persistent.label("ispersistent"),
            offering.conserve_mode.label("conservemode"),
            offering.egress_default_policy.label("egressdefaultpolicy"),
            offering.network_rate.label("networkrate"),
            offering.max_connections.label("maxconnections"),
            service_offerings.c.uuid.label("serviceofferingid"),
            offering.tags,
            offering.created,
            *place_columns(network_offerings),
            *annotation_columns(Entity.NETWORK_OFFERING),
        )
        .select_from(
            network_offerings.outerjoin(service_offerings, service_offerings.c.id == offering.service_offering_id)
        )
        .where(offering.removed.is_(None))
        .order_by(offering.sort_key, offering.id)
    )


def _service(
    name: str, providers: Mapping[str, list[str]], capabilities: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    found = capabilities.get(name, {})
    return {
        "name": name,
        "provider": [{"name": provider} for provider in providers.get(name, ())] or None,
        "capability": [{"name": each, "value": value} for each, value in found.items()] or None,
    }
