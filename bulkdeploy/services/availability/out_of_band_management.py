"""Out-of-band management of hosts: the addresses of management controllers, and the actions on them."""

import secrets
import string
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.power import PowerAction
from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.power.driver import PowerDriver
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.availability.change_power_password import CHANGE_POWER_PASSWORD
from bulkdeploy.provisioning.kinds.availability.issue_power_action import ISSUE_POWER_ACTION
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.live_entities import lock_entities, subject
from bulkdeploy.services.sending import submit_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.availability import out_of_band_management as store
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event

RESULT = "outofbandmanagement"
COMMANDS = "org.apache.cloudstack.api.command.admin.outofbandmanagement"
KINDS = {Entity.HOST: "Host", Entity.CLUSTER: "Cluster", Entity.ZONE: "Zone"}
PARAMETERS = {Entity.HOST: "hostid", Entity.CLUSTER: "clusterid", Entity.ZONE: "zoneid"}
NEW_PASSWORD_LENGTH = 16
"""IPMI 1.5 keeps no longer ones."""


def configure(
    connection: Connection, system: System, caller: Caller, host: EntityRef, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the driver, address and credentials of a host's management controller, and return the stored settings.

    The password is encrypted and is not returned.

    Raises:
        InvalidParameter: the host was deleted, or the driver is not installed or cannot be imported.
    """
    lock_entities(connection, [host], "hostid")
    _find_driver(system, given["driver"], "driver", given["driver"])
    values = {
        **{name: given[name] for name in ("driver", "address", "username")},
        "port": int(given["port"]),
        "password_encrypted": system.cipher.encrypt(given["password"]),
    }
    store.configure_bmc(connection, host.id, values)
    where = f"{given['address']}, port {given['port']}, driver {given['driver']}"
    text = f"configured out-of-band management of host {host.name}: {where}"
    record_event(connection, caller, EventType.HOST_POWER_CONFIGURE, text, subject("Host", host))
    row = _require_configured(connection, host)
    description = f"Out-of-band management of host {host.name} is configured"
    return {**store.shown_bmc(row), "hostid": str(host.uuid), "status": True, "description": description}


def set_enabled(connection: Connection, caller: Caller, place: EntityRef, *, enabled: bool) -> JobTicket:
    """Enable or disable out-of-band management for a host, a cluster or a zone, and return the finished job.

    Raises:
        InvalidParameter: the host, cluster or zone was deleted, or the host has no out-of-band management
            configured.
    """
    lock_entities(connection, [place], PARAMETERS[place.entity])
    result: dict[str, Any] = {"enabled": enabled, "status": True}
    if place.entity is Entity.HOST:
        _require_configured(connection, place)
        store.set_enabled(connection, place.id, enabled=enabled)
        result["hostid"] = str(place.uuid)
    elif place.entity is Entity.CLUSTER:
        store.set_enabled_in_cluster(connection, place.id, enabled=enabled)
    else:
        store.set_enabled_in_zone(connection, place.id, enabled=enabled)
    kind, verb = KINDS[place.entity], "Enable" if enabled else "Disable"
    event = EventType.HOST_POWER_ENABLE if enabled else EventType.HOST_POWER_DISABLE
    text = f"{verb.lower()}d out-of-band management of {kind.lower()} {place.name}"
    about = subject(kind, place)
    record_event(connection, caller, event, text, about)
    cmd = f"{COMMANDS}.{verb}OutOfBandManagementFor{kind}Cmd"
    return done_with_object(connection, caller, cmd, RESULT, result, about)


def issue_power_action(
    connection: Connection,
    system: System,
    caller: Caller,
    host: EntityRef,
    *,
    action: PowerAction,
    timeout_s: int | None,
) -> JobTicket:
    """Create a job in which a host's management controller performs a power action; its result has the power state.

    Raises:
        InvalidParameter: the host was deleted, or its out-of-band management is disabled or not configured.
    """
    _require_used(connection, host)
    params = {"action": action.value, "timeout_s": timeout_s}
    return _submit(connection, system, caller, host, ISSUE_POWER_ACTION, params)


def change_password(
    connection: Connection, system: System, caller: Caller, host: EntityRef, password: str | None
) -> JobTicket:
    """Create a job that changes the password of the controller's user, and return the job.

    If no password is given, a random one is generated.

    Raises:
        InvalidParameter: the host was deleted, its out-of-band management is disabled or not configured, or its
            driver cannot change passwords.
    """
    row = _require_used(connection, host)
    if not _find_driver(system, row.driver, "hostid", str(host.uuid)).changes_passwords:
        rule = (
            f"power driver {row.driver!r} cannot change passwords: change it at the controller, then configure it"
        )
        raise InvalidParameter("hostid", str(host.uuid), rule)
    signs = string.ascii_letters + string.digits
    new = password or "".join(secrets.choice(signs) for _ in range(NEW_PASSWORD_LENGTH))
    params = {"password": system.cipher.encrypt(new).decode()}
    return _submit(connection, system, caller, host, CHANGE_POWER_PASSWORD, params)


def _find_driver(system: System, name: str, parameter: str, value: str) -> type[PowerDriver]:
    """Return the class of a power driver. If it cannot be used, the error is about this parameter."""
    try:
        return system.power.find(name, "driver")
    except DriverSettingError as error:
        raise InvalidParameter(parameter, value, str(error)) from error


def _require_configured(connection: Connection, host: EntityRef) -> Row[Any]:
    row = store.read_bmc(connection, host.id)
    if row is None:
        rule = f"out-of-band management of host {host.name} is not configured: see configureOutOfBandManagement"
        raise InvalidParameter("hostid", str(host.uuid), rule)
    return row


def _require_used(connection: Connection, host: EntityRef) -> Row[Any]:
    lock_entities(connection, [host], "hostid", shared=True)
    row = _require_configured(connection, host)
    for used, where in ((row.in_zone, "zone"), (row.in_cluster, "cluster"), (row.enabled, "host")):
        if not used:
            place = "host" if where == "host" else f"host's {where}"
            raise InvalidParameter("hostid", str(host.uuid), f"out-of-band management is disabled for the {place}")
    return row


def _submit(
    connection: Connection,
    system: System,
    caller: Caller,
    host: EntityRef,
    kind: JobKind,
    params: Mapping[str, Any],
) -> JobTicket:
    job = kind.new_job(
        Instance(kind.instance_type, host.id, host.uuid),
        f"asked to {kind.verb} host {host.name}",
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        params=params,
    )
    (ticket,) = submit_jobs(connection, system.job_queue, [job])
    return ticket
