"""The configuration of host HA: calls configure, enable and disable HA. Sweepers execute the HA actions."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import HypervisorType
from bulkdeploy.services.availability.out_of_band_management import KINDS, PARAMETERS
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import lock_entities, subject
from bulkdeploy.store.availability import host_ha as store
from bulkdeploy.store.jobs.events import record_event

RESULT = "hostha"
COMMANDS = "org.apache.cloudstack.api.command.admin.ha"

SIMULATOR_PROVIDER = "SimulatorHAProvider"
PROVIDERS: Mapping[HypervisorType, str] = {
    **dict.fromkeys(HypervisorType, "PowerHAProvider"),
    HypervisorType.KVM: "KVMHAProvider",
    HypervisorType.SIMULATOR: SIMULATOR_PROVIDER,
}
"""The provider of each hypervisor type: CloudStack's names, and one of ours for types that have none there."""


def configure(connection: Connection, caller: Caller, host: EntityRef, provider: str) -> JobTicket:
    """Write the HA provider of a host, and return the finished job of the call.

    Raises:
        InvalidParameter: the host was deleted, there is no such provider, or the provider is for another
            hypervisor.
    """
    row = lock_entities(connection, [host], "hostid")[host.id]
    wanted = next((name for name in PROVIDERS.values() if name.lower() == provider.lower()), None)
    if wanted is None:
        names = ", ".join(sorted(set(PROVIDERS.values())))
        raise InvalidParameter("provider", provider, f"it must be one of {names}")
    right = provider_of(row["hypervisor"])
    if wanted != right:
        rule = f"host {host.name} has hypervisor {row['hypervisor']}, whose provider is {right}"
        raise InvalidParameter("provider", provider, rule)
    store.configure_ha(connection, host.id, wanted.lower())
    about = subject("Host", host)
    text = f"configured host HA of host {host.name} with provider {wanted}"
    record_event(connection, caller, EventType.HOST_HA_CONFIGURE, text, about)
    result = {"hostid": str(host.uuid), "haprovider": wanted.lower(), "status": True}
    return done_with_object(connection, caller, f"{COMMANDS}.ConfigureHAForHostCmd", RESULT, result, about)


def provider_of(hypervisor: str) -> str:
    """Return the name of the provider of a hypervisor type."""
    kind = HypervisorType.parse(hypervisor)
    return PROVIDERS[kind or HypervisorType.EXTERNAL]


def set_enabled(connection: Connection, caller: Caller, place: EntityRef, *, enabled: bool) -> JobTicket:
    """Enable or disable host HA for a host, a cluster or a zone, and return the finished job of the call.

    Raises:
        InvalidParameter: the host, cluster or zone was deleted, or the host has no HA provider.
    """
    lock_entities(connection, [place], PARAMETERS[place.entity])
    if place.entity is Entity.HOST:
        _require_configured(connection, place)
        store.set_enabled(connection, place.id, enabled=enabled)
    elif place.entity is Entity.CLUSTER:
        store.set_enabled_in_cluster(connection, place.id, enabled=enabled)
    else:
        store.set_enabled_in_zone(connection, place.id, enabled=enabled)
    kind, verb = KINDS[place.entity], "Enable" if enabled else "Disable"
    event = EventType.HOST_HA_ENABLE if enabled else EventType.HOST_HA_DISABLE
    about = subject(kind, place)
    record_event(connection, caller, event, f"{verb.lower()}d host HA of {kind.lower()} {place.name}", about)
    cmd = f"{COMMANDS}.{verb}HAFor{kind}Cmd"
    if place.entity is not Entity.HOST:
        return done_with_success(connection, caller, cmd, about)
    result = {"hostid": str(place.uuid), "haenable": enabled, "status": True}
    return done_with_object(connection, caller, cmd, RESULT, result, about)


def configure_simulated(connection: Connection, host: EntityRef, given: Mapping[str, bool]) -> None:
    """Set the results that the checks, resets and fencing of a simulated host return.

    Raises:
        InvalidParameter: the host was deleted, is not simulated, or has no provider.
    """
    row = lock_entities(connection, [host], "hostid")[host.id]
    if row["hypervisor"].lower() != HypervisorType.SIMULATOR.value.lower():
        rule = f"host {host.name} has hypervisor {row['hypervisor']}: only hosts of type Simulator are simulated"
        raise InvalidParameter("hostid", str(host.uuid), rule)
    _require_configured(connection, host)
    store.set_simulated(connection, host.id, given)


def list_transitions(connection: Connection, host: EntityRef) -> list[dict[str, Any]]:
    """Return the last transitions of a host, the oldest first."""
    return store.list_transitions(connection, host.id)


def _require_configured(connection: Connection, host: EntityRef) -> Row[Any]:
    row = store.read_ha(connection, host.id)
    if row is None:
        rule = f"host {host.name} has no provider of host HA: see configureHAForHost"
        raise InvalidParameter("hostid", str(host.uuid), rule)
    return row
