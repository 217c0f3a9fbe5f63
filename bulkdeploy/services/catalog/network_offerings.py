"""Making, changing and deleting network offerings (reference section 8.9)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.network_services import SERVICES
from bulkdeploy.services.inventory.inventory_values import name
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.wire_values import checked
from bulkdeploy.store.catalog import network_offerings
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.live_rows import change_row, has_live, insert_row, remove_row

KIND = "NetworkOffering"
ANOTHER = "another network offering"
SHARED = "Shared"
PLAIN = {
    "displaytext": "display_text",
    "availability": "availability",
    "specifyvlan": "specify_vlan",
    "specifyipranges": "specify_ip_ranges",
    "ispersistent": "is_persistent",
    "conservemode": "conserve_mode",
    "egressdefaultpolicy": "egress_default_policy",
    "networkrate": "network_rate",
    "sortkey": "sort_key",
    "state": "state",
}


def create_offering(connection: Connection, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Make a network offering.

    Raises:
        InvalidParameter, InvalidCombination: services or providers that do not belong together, a value that breaks
            its rule, or a name that is taken.
    """
    values = {
        "display_text": given["name"],
        "guest_type": given["guestiptype"],
        "traffic_type": given["traffictype"],
        "state": "Enabled" if given.get("enable") else "Disabled",
        **_columns(given),
        **_services(given),
    }
    if given["guestiptype"] == SHARED:
        if given.get("specifyipranges") is False:
            raise InvalidCombination(
                ("specifyipranges", "guestiptype"), "Shared networks are given their addresses"
            )
        values["specify_ip_ranges"] = True
    of_routers: EntityRef | None = given.get("serviceofferingid")
    if of_routers is not None:
        values["service_offering_id"] = hold(connection, of_routers, "serviceofferingid", shared=True)["id"]
    with unique_name("name", values["name"], ANOTHER):
        offering = insert_row(connection, Entity.NETWORK_OFFERING, values)
    text = f"created network offering {offering.name}"
    return _told(connection, caller, EventType.NETWORK_OFFERING_CREATE, offering, text)


def update_offering(
    connection: Connection, caller: Caller, offering: EntityRef, given: Arguments
) -> Mapping[str, Any]:
    """Change a network offering; networks that have it stay as they are.

    Raises:
        InvalidParameter: a value that breaks its rule, or a name that is taken.
    """
    values = _columns(given)
    hold(connection, offering)
    with unique_name("name", values.get("name"), ANOTHER):
        change_row(connection, offering, values)
    text = f"changed network offering {offering.name}{changed(values)}"
    return _told(connection, caller, EventType.NETWORK_OFFERING_EDIT, offering, text)


def delete_offering(connection: Connection, caller: Caller, offering: EntityRef) -> None:
    """Delete a network offering that no network has.

    Raises:
        InvalidParameter: it was deleted, or came with the installation.
        ResourceInUse: networks have it.
    """
    if hold(connection, offering)["is_default"]:
        rule = f"network offering {offering.name} came with the installation; it can be disabled"
        raise InvalidParameter("id", str(offering.uuid), rule)
    if has_live(connection, network_offerings.NETWORKS, offering.id):
        raise ResourceInUse(f"Network offering {offering.name} can not be deleted: networks have it")
    remove_row(connection, offering)
    text = f"deleted network offering {offering.name}"
    record_event(connection, caller, EventType.NETWORK_OFFERING_DELETE, text, subject(KIND, offering))


def _columns(given: Arguments) -> dict[str, Any]:
    values = {column: given[parameter] for parameter, column in PLAIN.items() if parameter in given}
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    return values


def _services(given: Arguments) -> dict[str, Any]:
    """Services with their providers and capabilities, spelled as CloudStack does."""
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
    raise InvalidParameter(parameter, written, f"it should be one of {', '.join(SERVICES)}")


def _provider(service: str, written: str) -> str:
    for known in SERVICES[service]:
        if known.lower() == written.lower():
            return known
    rule = f"{service} is offered by {', '.join(SERVICES[service])}"
    raise InvalidParameter("serviceproviderlist", written, rule)


def _listed(parameter: str, entry: Mapping[str, str], services: list[str]) -> str:
    service = _service(parameter, entry.get("service", ""))
    if service not in services:
        raise InvalidCombination((parameter, "supportedservices"), f"{service} is not among supportedservices")
    return service


def _told(
    connection: Connection, caller: Caller, event: EventType, offering: EntityRef, text: str
) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(KIND, offering))
    return only_row(network_offerings.list_network_offerings(connection, {"id": offering}, ONE))
