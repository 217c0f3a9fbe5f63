"""Consoles of VMs: one-time tokens for permitted callers, and the connections that the tokens open."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import BulkDeployError, InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.consoles import ConsoleKind, SerialConsoles, VncConsoles
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.security.random_texts import random_text
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.store.virtual_machines.console_tokens import allowed_consoles, keep_token, take_token
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row
from bulkdeploy.telemetry.request_id import current_request, working_for

TOKEN_BYTES = 32
TOKEN_SECONDS = 60
VM = "virtualmachineid"


class ConsoleRefused(BulkDeployError):
    """Raised or returned when the VM of a valid console token does not run any more."""


class UnknownConsoleToken(BulkDeployError):
    """Raised when a console token is unknown, used or expired, or when its user or VM no longer exists."""

    def __init__(self) -> None:
        super().__init__("the token is unknown, used or older than a minute: create another endpoint")


@dataclass(frozen=True, slots=True)
class Console:
    """A console of a guest, with its host, the user who got the token, and the account that owns the VM."""

    kind: ConsoleKind
    vm_uuid: UUID
    user_id: int
    user_uuid: UUID
    host: HostAddress
    owner_id: int


def new_token(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, kind: ConsoleKind, extra: str
) -> str:
    """Return a token that opens a console of a running VM once, within TOKEN_SECONDS, together with ``extra``.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM does not run, or its hypervisor has no such console.
    """
    row = read_vm_row(connection, vm.id)
    require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
    ability = VncConsoles if kind is ConsoleKind.VNC else SerialConsoles
    require_ability(system.drivers, row.hypervisor, ability, VM, str(vm.uuid))
    if row.removed is not None or row.state != VmState.RUNNING:
        rule = f"only a running virtual machine has a console; its state is {row.state}"
        raise InvalidParameter(VM, str(vm.uuid), rule)
    token = random_text(TOKEN_BYTES)
    user_id, kept = caller.user_id, _joined(token, extra)
    keep_token(connection, kept, vm_id=vm.id, user_id=user_id, kind=kind, valid_seconds=TOKEN_SECONDS)
    return token


def console_of(connection: Connection, token: str, extra: str) -> Console | ConsoleRefused | UnknownConsoleToken:
    """Return the console that a token opens, or the error if it opens none. The token is used up in any case."""
    row = take_token(connection, _joined(token, extra))
    if row is None:
        return UnknownConsoleToken()
    if row.host_uuid is None or row.state != VmState.RUNNING:
        return ConsoleRefused(f"virtual machine {row.name} does not run any more; its state is {row.state}")
    host = HostAddress(row.host_uuid, row.host_name, row.ip_address, row.hypervisor, row.url)
    return Console(ConsoleKind(row.kind), row.uuid, row.user_id, row.user_uuid, host, row.owner_id)


def forbidden_consoles(connection: Connection, opened: Sequence[Console]) -> list[Console]:
    """Return the open consoles that their users may no longer see, by the rules of ``allowed_consoles``."""
    keys = [(console.user_uuid, console.vm_uuid, console.owner_id) for console in opened]
    allowed = allowed_consoles(connection, keys)
    return [console for position, console in enumerate(opened) if position not in allowed]


def connect(system: System, console: Console) -> socket.socket:
    """Connect to a console for the user of its token, and return the socket, which the caller must close.

    Raises:
        DriverError: the console cannot be reached.
    """
    driver, host = system.drivers.driver_for(console.host.hypervisor), console.host
    with working_for(current_request(), console.user_id):
        if console.kind is ConsoleKind.VNC:
            screens = VncConsoles.of(driver, "console", host)
            return screens.open_vnc_console(host, console.vm_uuid, timeout_s=system.driver_timeout_s)
        consoles = SerialConsoles.of(driver, "console", host)
        return consoles.open_serial_console(host, console.vm_uuid, timeout_s=system.driver_timeout_s)


def _joined(token: str, extra: str) -> str:
    """Return the text whose hash is stored: the token together with ``extra``, so that neither is valid alone."""
    return f"{token}\n{extra}"
