"""Operations on network offerings: create, update and delete."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.network_services import SERVICES
from bulkdeploy.services.catalog.offering_places import require_places, without_subdomains
from bulkdeploy.services.live_entities import (
    changed_events,
    deleted_events,
    given_refs,
    lock_entities,
    subject,
    unique_name,
)
from bulkdeploy.store.catalog import network_offerings
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows, parents_in_use, remove_rows

KIND = "NetworkOffering"
ANOTHER = "another network offering"
SHARED = "Shared"


def create_network_offerings(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create network offerings and return them.

    Raises:
        InvalidParameter, InvalidCombination: services and providers do not match, a service offering was deleted,
        or a name is already used.
    """
    require_places(connection, caller, batch)
    rows = [_row(given) for given in without_subdomains(connection, batch)]
    lock_entities(connection, given_refs(batch, "serviceofferingid"), "serviceofferingid", shared=True)
    with unique_name("name", rows[0]["name"], ANOTHER):
        made = insert_rows(connection, Entity.NETWORK_OFFERING, rows)
    record_events(
        connection,
        caller,
        (
            Happened(EventType.NETWORK_OFFERING_CREATE, f"created network offering {one.name}", subject(KIND, one))
            for one in made
        ),
    )
    return made


def update_network_offerings(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change network offerings. Existing networks of these offerings are not changed.

    Raises:
        InvalidParameter: one of the offerings was deleted, or a name is already used.
    """
    lock_entities(connection, [offering for offering, _ in changes])
    require_places(connection, caller, [given for _, given in changes])
    reduced = without_subdomains(connection, [given for _, given in changes])
    written = [
        (offering, columns_of(network_offerings.FIELDS, given))
        for (offering, _), given in zip(changes, reduced, strict=True)
    ]
    with unique_name("name", changes[0][1].get("name"), ANOTHER):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.NETWORK_OFFERING_EDIT, KIND, written))


def delete_offerings(connection: Connection, caller: Caller, offerings: Sequence[EntityRef]) -> None:
    """Delete network offerings that no network uses.

    Raises:
        InvalidParameter: one of the offerings was deleted, or was created by the installation.
        ResourceInUse: a network uses one of the offerings.
    """
    rows = lock_entities(connection, offerings)
    used = parents_in_use(connection, network_offerings.NETWORKS, [offering.id for offering in offerings])
    for offering in offerings:
        if rows[offering.id]["is_default"]:
            rule = (
                f"network offering {offering.name} is a default offering and cannot be deleted; it can be disabled"
            )
            raise InvalidParameter("id", str(offering.uuid), rule)
        if offering.id in used:
            raise ResourceInUse(f"Network offering {offering.name} cannot be deleted: networks use it")
    remove_rows(connection, offerings)
    record_events(connection, caller, deleted_events(EventType.NETWORK_OFFERING_DELETE, KIND, offerings))


def _row(given: Arguments) -> dict[str, Any]:
    row = {
        "display_text": given["name"],
        "state": "Enabled" if given.get("enable") else "Disabled",
        **columns_of(network_offerings.FIELDS, given),
        **_services(given),
    }
    if given["guestiptype"] == SHARED:
        if given.get("specifyipranges") is False:
            raise InvalidCombination(
                ("specifyipranges", "guestiptype"), "Shared networks need specifyipranges=true"
            )
        row["specify_ip_ranges"] = True
    return row


def _services(given: Arguments) -> dict[str, Any]:
    """Return the columns with the offering's services, providers and capabilities, in CloudStack's spelling."""
    services = [_service("supportedservices", word) for word in given.get("supportedservices", ())]
    providers: dict[str, list[str]] = {}
    for entry in given.get("serviceproviderlist", ()):
        service = _listed("serviceproviderlist", entry, services)
        provider = _provider(service, entry.get("provider", ""))
        if provider not in providers.setdefault(service, []):
            providers[service].append(provider)
    capabilities: dict[str, dict[str, str]] = {}
    for entry in given.get("servicecapabilitylist", ()):
        service = _listed("servicecapabilitylist", entry, services)
        if not entry.get("capabilitytype"):
            raise InvalidParameter(
                "servicecapabilitylist", service, "capabilitytype and capabilityvalue are needed"
            )
        capabilities.setdefault(service, {})[entry["capabilitytype"]] = entry.get("capabilityvalue", "")
    return {"services": list(dict.fromkeys(services)), "providers": providers, "capabilities": capabilities}


def _service(parameter: str, written: str) -> str:
    for known in SERVICES:
        if known.lower() == written.lower():
            return known
    raise InvalidParameter(parameter, written, f"it must be one of {', '.join(SERVICES)}")


def _provider(service: str, written: str) -> str:
    for known in SERVICES[service]:
        if known.lower() == written.lower():
            return known
    rule = f"the providers of {service} are {', '.join(SERVICES[service])}"
    raise InvalidParameter("serviceproviderlist", written, rule)


def _listed(parameter: str, entry: Mapping[str, str], services: list[str]) -> str:
    service = _service(parameter, entry.get("service", ""))
    if service not in services:
        raise InvalidCombination((parameter, "supportedservices"), f"{service} is not among supportedservices")
    return service
