"""Network service providers of physical networks: add, configure, enable and delete.

bulkdeploy runs no routers. Providers exist only because clients that create a zone require enabled providers.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.network_services import ELEMENTS, PROVIDERS
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import (
    ONE,
    deleted_events,
    lock_entities,
    lock_entity,
    only_row,
    subject,
    unique_name,
)
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.jobs.events import record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_row, insert_row, remove_rows

KIND = "PhysicalNetworkServiceProvider"
COMMANDS = "org.apache.cloudstack.api.command.admin."
ENABLED = "Enabled"
ELEMENTS_BY_KEY = {
    "virtualrouterelement": ("VirtualRouter", "VpcVirtualRouter"),
    "internalloadbalancerelement": ("InternalLbVm",),
}
"""Providers whose elements are of a kind, by its name on the wire."""


def add_provider(connection: Connection, caller: Caller, given: Arguments) -> JobTicket:
    """Add a disabled network service provider to a physical network, and return the job of the call.

    Raises:
        InvalidParameter: the physical network was deleted or already has the provider, or the provider does not
            offer a service.
    """
    network: EntityRef = given["physicalnetworkid"]
    lock_entity(connection, network, "physicalnetworkid", shared=True)
    services = _services(given["name"], given)
    values = {"physical_network_id": network.id, "name": given["name"], **services}
    with unique_name("name", given["name"], f"physical network {network.name}: a provider"):
        provider = insert_row(connection, Entity.NETWORK_SERVICE_PROVIDER, values)
    text = f"added provider {provider.name} to physical network {network.name}"
    return _finished_job(connection, caller, EventType.SERVICE_PROVIDER_CREATE, provider, text)


def update_provider(connection: Connection, caller: Caller, provider: EntityRef, given: Arguments) -> JobTicket:
    """Enable or disable a provider, or change the services that it offers.

    Raises:
        InvalidParameter: the provider was deleted, or must be configured before it is enabled; or the provider does
            not offer a service.
    """
    row = lock_entity(connection, provider)
    state = given.get("state", row["state"])
    if state == ENABLED and provider.name in ELEMENTS and not row["element_enabled"]:
        raise InvalidParameter("state", state, f"provider {provider.name} must be configured first")
    change_row(connection, provider, {"state": state, **_services(provider.name, given)})
    text = f"changed provider {provider.name}: {state}"
    return _finished_job(connection, caller, EventType.SERVICE_PROVIDER_UPDATE, provider, text)


def _services(name: str, given: Arguments) -> dict[str, Any]:
    """Return the column of the services that the call gives a provider, or an empty mapping if it gives none."""
    services = list(dict.fromkeys(given.get("servicelist", ())))
    for service in services:
        if service not in PROVIDERS[name]:
            rule = f"provider {name} has the services {', '.join(PROVIDERS[name])}"
            raise InvalidParameter("servicelist", service, rule)
    return {"services": services} if services else {}


def delete_providers(connection: Connection, caller: Caller, providers: Sequence[EntityRef]) -> None:
    """Delete network service providers.

    Raises:
        InvalidParameter: one of the providers was deleted.
    """
    lock_entities(connection, providers)
    remove_rows(connection, providers)
    record_events(connection, caller, deleted_events(EventType.SERVICE_PROVIDER_DELETE, KIND, providers))


def deleted(connection: Connection, caller: Caller, provider: EntityRef) -> JobTicket:
    """Return the finished job of a call that deleted a provider."""
    cmd = f"{COMMANDS}network.DeleteNetworkServiceProviderCmd"
    return done_with_success(connection, caller, cmd, subject(KIND, provider))


def configure_element(
    connection: Connection, caller: Caller, key: str, cmd: str, element: EntityRef, *, enabled: bool
) -> JobTicket:
    """Enable or disable the element of a network service provider. The result of the returned job is the element.

    ``key`` is the provider's type and the result's key, and ``cmd`` the class name of the command.

    Raises:
        InvalidParameter: the element does not belong to a provider of the type ``key``, or the provider was
            deleted.
    """
    names = ELEMENTS_BY_KEY[key]
    lock_entity(connection, element)
    if element.name not in names:
        raise InvalidParameter("id", str(element.uuid), f"it must be an element of {' or '.join(names)}")
    change_row(connection, element, {"element_enabled": enabled})
    about = subject(KIND, element)
    text = f"configured {element.name}: {'enabled' if enabled else 'disabled'}"
    record_event(connection, caller, EventType.NETWORK_ELEMENT_CONFIGURE, text, about)
    row = only_row(physical_networks.list_elements(connection, names, {"id": element}, ONE))
    return done_with_object(connection, caller, f"{COMMANDS}{cmd}", key, row, about)


def _finished_job(
    connection: Connection, caller: Caller, event: EventType, provider: EntityRef, text: str
) -> JobTicket:
    about = subject(KIND, provider)
    record_event(connection, caller, event, text, about)
    row = only_row(physical_networks.list_providers(connection, {"id": provider}, ONE))
    created = event is EventType.SERVICE_PROVIDER_CREATE
    cmd = f"{COMMANDS}network.{'Add' if created else 'Update'}NetworkServiceProviderCmd"
    return done_with_object(connection, caller, cmd, "networkserviceprovider", row, about, created=created)
