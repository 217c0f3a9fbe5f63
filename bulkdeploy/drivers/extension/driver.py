"""The driver for executables of the Extension protocol: docs/how-to/extensions.md (one file: a call is one guest).

A guest is what ``prepare`` and ``create`` made of a payload; what ``prepare`` answered is kept and sent with each
later action. ``create`` may not be repeated: that it is begun is kept before it is, so that after a lost answer
the guest is looked for, and what is left of it deleted, before it is made anew under the same identity. What the
protocol has no place for, fences and the one host that may have a guest, stands in the service's records. It has no
data volumes and no live migration. Screens are VNC servers that ``getconsole`` names.
"""

import socket
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from typing_extensions import override

from bulkdeploy.drivers.abilities.consoles import VncConsoles
from bulkdeploy.drivers.abilities.custom_actions import CustomAction, CustomActions
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, refuse_lost_volumes
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.exchanges.parallel_calls import call_each
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.extension.payload import (
    OFF,
    ON,
    UNKNOWN,
    WrongAnswer,
    host_details,
    payload_of,
    power_of_word,
    prepared,
    read_console,
    read_host_url,
    vm_of,
    without_prefix,
)
from bulkdeploy.drivers.extension.program import ActionFailed, Program
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.records import FencedGuest, Overtaken
from bulkdeploy.drivers.vnc import VncRefused, connect_to_vnc
from bulkdeploy.telemetry.request_id import current_user

KEPT_UNDER = "extension"
GONE = "gone"
"""State of a guest that was made, and that its host does not have any more."""

AGAIN_S = 0.5
"""Pause before an executable that answered a taken identity is asked again, in seconds."""

ANY_TEMPLATE = "default"
LONGEST_MARK = 4096
"""Characters of a mark of activity, which is stored until the next check."""

LOOK_SECONDS = 60.0
"""Patience for listings, which have no timeout of their own."""

STEPS = {
    "prepare": "boot",
    "create": "boot",
    "start": "boot",
    "status": "look",
    "statuses": "look",
    "activity": "look",
    "getconsole": "console",
}
"""What errors call an action; others by their own names."""


class Made(StrEnum):
    """The progress of making a guest."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class _Kept:
    """The stored state of a guest: ``vm``, which the protocol calls cloudstack.vm.details, with prepare's output.

    ``host`` is the uuid of the guest's last host, which is used for a stopped guest.
    """

    vm: dict[str, Any]
    external: dict[str, str]
    sizes: tuple[int, int, int]
    volumes: tuple[tuple[str, str, int], ...]
    made: Made = Made.NO
    host: str = ""

    @property
    def name(self) -> str:
        """The guest's name on the hypervisor."""
        return str(self.external.get("vm_name") or self.vm["name"])

    @classmethod
    def of(cls, fenced: FencedGuest) -> "_Kept | None":
        """Return the stored state of a guest, or None if this driver has stored none."""
        read = fenced.details.get(KEPT_UNDER)
        return None if read is None else cls(**{**read, "made": Made(read["made"])})


class ExtensionDriver(VncConsoles, CustomActions, HypervisorDriver):
    """See the module."""

    options_model = ExtensionOptions

    def __init__(self, options: ExtensionOptions) -> None:
        self._options = options
        self.is_watched = options.statuses  # guest by guest would be a program for each, every few seconds
        self._details = {key: value.get_secret_value() for key, value in options.details.items()}
        self._program = Program(
            options.executable, at_once=options.actions_at_once, secrets=list(self._details.values())
        )
        self._turns = Turns()
        self._turn_name = f"extension {options.executable}"

    @classmethod
    @override
    def from_options(cls, options: ExtensionOptions) -> Self:
        return cls(options)

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Register a host with the hardware in its URL.

        If the extension has the action ``statuses``, the action must succeed for the host.
        """
        try:
            model = read_host_url(host.access.url)
            if self._options.statuses:
                payload = payload_of(self._details, host_details(host.access.url))
                self._program.run("statuses", payload, timeout_s=timeout_s)
        except (ValueError, ActionFailed) as error:
            raise DriverError("connect", ANY_HOST, str(error), transient=False) from error
        return model

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool | None:
        """Return whether a host answers the action ``statuses``.

        Returns None if the extension does not have this action.
        """
        try:
            states = self._states(host, timeout_s)
        except DriverError:
            return False
        return None if states is None else True

    @override
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        with self._call("boot", host, guest.uuid, fence, timeout_s) as call:
            if len(guest.volumes) > 1:
                raise DriverError(
                    "volume", host.name, "guests of extensions can have a root disk only", transient=False
                )
            call.claim("boot", [volume.uuid for volume in guest.volumes])
            if call.kept is None or call.kept.made is Made.NO:
                refuse_lost_volumes("volume", host.name, guest)
                call.keep(self._new(guest))
                call.make()
            elif call.kept.made is Made.MAYBE:
                call.make_after_lost_answer(self._new(guest))
            else:
                call.start_again()
            call.keep(replace(call.known, made=Made.YES))

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop a guest and keep its disks. The extension decides how to stop it; ``forced`` is ignored."""
        del forced
        with self._call("stop", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("stop")
            call.stop()
            self._records.fences.release(guest_uuid, fence)

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Stop a copy of a guest on this host. The guest's own host and its stored state are not changed."""
        with self._call("stop", host, guest_uuid, fence, timeout_s) as call:
            call.raise_fence_elsewhere("stop")
            if call.kept is not None and call.kept.made is not Made.NO and call.find() == ON:
                call.stop_here()

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """Stop the guests that ``statuses`` of the host reports as running and that are not in ``kept``.

        Without ``statuses``, the guests that belong to no host are queried one by one.
        """
        states = self._states(host, timeout_s)
        for guest_uuid, fenced in self._records.fences.kept().items():
            known = _Kept.of(fenced)
            if known is None or known.made is Made.NO or guest_uuid in kept:
                continue
            if states is None and fenced.host_uuids:
                continue
            if states is None or states.get(known.name) == ON:
                fence = self._records.fences.highest(guest_uuid)
                self.ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest on this host.

        A guest without a host in the records counts as absent (None).
        """
        with self._call("look", host, guest_uuid, fence, timeout_s) as call:
            fenced = call.fenced_here("look")
            if not fenced.host_uuids or call.kept is None or call.kept.made is Made.NO:
                call.let_go(fenced)
                return None
            return PowerState.RUNNING if call.look() == ON else PowerState.STOPPED

    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """Delete a guest.

        If a root disk of the guest is not among ``volume_uuids``, the guest is stopped and kept.
        """
        with self._call("delete", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("delete")
            if call.kept is not None and {UUID(volume) for volume, _, _ in call.kept.volumes} <= set(volume_uuids):
                call.delete()
            else:
                call.stop()
            self._records.fences.release(guest_uuid, fence)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Raise an error if the volume is the root disk of a guest; a root disk is deleted with its guest."""
        del timeout_s
        for guest_uuid, kept in self._kept():
            if kept.made is not Made.NO and any(
                (UUID(volume), UUID(pool)) == (volume_uuid, pool_uuid) for volume, pool, _ in kept.volumes
            ):
                raise DriverError("delete", ANY_HOST, f"it is the root disk of guest {guest_uuid}", transient=True)

    def open_vnc_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Open the screen of a guest, if the action ``getconsole`` of the extension returns a VNC server."""
        return _Call(self, host, guest_uuid, 0, timeout_s).open_screen()

    @property
    @override
    def program(self) -> Path:
        return self._options.executable

    def run_custom_action(
        self, host: HostAddress | None, guest_uuid: UUID, action: CustomAction, *, fence: int, timeout_s: float
    ) -> str:
        """Run the executable with the name of the custom action."""
        with self._call("custom_action", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("custom_action")
            return call.run_custom_action(action)

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """Return the guests of each host, or an error, with one run of ``statuses`` per host."""
        if not self._program.is_there:
            raise DriverError("look", ANY_HOST, f"{self._program.path} cannot be run", transient=True)
        kept = self._kept_by_host()
        return call_each(hosts, lambda host: [one for one, _ in self._guests(host, kept[host.uuid], timeout_s)])

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str | None:
        """Return the response of the action ``activity``, or None if the extension does not have this action.

        Raises:
            DriverError: the action failed or answered no mark. Host HA then knows nothing of the silent host, and
                does not take it for dead: many executables succeed for actions that they do not know.
        """
        del volumes  # disks are where the executable made them
        if not self._options.activity:
            return None
        guests = [{"uuid": kept.vm["uuid"], "name": kept.name} for _, kept in self._kept_by_host()[host.uuid]]
        payload = {**self._payload(other), "silenthost": host_details(host.url), "virtualmachines": guests}
        try:
            answer = self._program.run("activity", payload, timeout_s=timeout_s)
        except ActionFailed as error:
            raise _error("activity", other.name, error) from error
        mark = str(answer.get("mark", ""))
        if not 0 < len(mark) <= LONGEST_MARK or "\0" in mark:
            reason = f"the action activity must answer mark, a text of 1 to {LONGEST_MARK} characters"
            raise DriverError(STEPS["activity"], other.name, reason, transient=True)
        return mark

    @override
    def list_guests(self) -> Iterator[Guest]:
        kept = self._kept_by_host()
        for host in self._records.directory.hosts():
            for guest, state in self._guests(host, kept[host.uuid], LOOK_SECONDS):
                if state == UNKNOWN:
                    reason = f"the state of guest {guest.uuid} is unknown"
                    raise DriverError("list", host.name, reason, transient=True)
                yield guest

    @override
    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        kept = self._kept_by_host()
        for host in self._records.directory.hosts():
            try:
                found = self._guests(host, kept[host.uuid], LOOK_SECONDS)
            except DriverError as error:
                unseen[host.uuid] = str(error)
                continue
            for guest, state in found:
                if state == UNKNOWN:
                    unseen[guest.uuid] = "the extension does not know its state"
                else:
                    yield guest

    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """List the root disks of guests that exist."""
        for _, kept in self._kept():
            if kept.made is not Made.NO:
                for volume, pool, size_bytes in kept.volumes:
                    yield UUID(volume), UUID(pool), size_bytes

    def _new(self, guest: GuestSpec) -> _Kept:
        template = next((volume.template_uuid for volume in guest.volumes if volume.template_uuid), None)
        image = None if template is None else self._records.directory.template(template)
        known = self._options.templates
        named = None if image is None else image.named_in(known)
        external = known.get(ANY_TEMPLATE, {}) if named is None else named
        volumes = tuple((str(one.uuid), str(one.pool_uuid), one.size_bytes) for one in guest.volumes)
        return _Kept(vm_of(guest), dict(external), (guest.cpu_number, guest.cpu_mhz, guest.memory_mib), volumes)

    def _kept(self) -> Iterator[tuple[UUID, _Kept]]:
        for guest_uuid, fenced in self._records.fences.kept().items():
            if (kept := _Kept.of(fenced)) is not None:
                yield guest_uuid, kept

    def _kept_by_host(self) -> Mapping[UUID | None, Sequence[tuple[UUID, _Kept]]]:
        """Return the stored states of guests that may exist, by the host on which they may be."""
        found: defaultdict[UUID | None, list[tuple[UUID, _Kept]]] = defaultdict(list)
        for guest_uuid, fenced in self._records.fences.kept().items():
            kept = _Kept.of(fenced)
            if kept is not None and kept.made is not Made.NO:
                found[fenced.host_uuid].append((guest_uuid, kept))
        return found

    def _guests(
        self, host: HostAddress, kept_here: Sequence[tuple[UUID, _Kept]], timeout_s: float
    ) -> list[tuple[Guest, str]]:
        """Return the guests of a host and their states. A guest with an unknown state counts as running."""
        states = self._states(host, timeout_s)
        found = []
        for guest_uuid, kept in kept_here:
            state = self._state(host, kept, timeout_s) if states is None else states.get(kept.name)
            if state is not None:
                power = PowerState.STOPPED if state == OFF else PowerState.RUNNING
                volumes = frozenset(UUID(volume) for volume, _, _ in kept.volumes)
                found.append((Guest(guest_uuid, host.uuid, power, *kept.sizes, volumes), state))
        return found

    def _states(self, host: HostAddress, timeout_s: float) -> Mapping[str, str] | None:
        """Return the states of all guests of a host by name.

        Returns None if the extension does not have the action ``statuses``.
        """
        if not self._options.statuses:
            return None
        try:
            answer = self._program.run("statuses", self._payload(host), timeout_s=timeout_s)
        except ActionFailed as error:
            raise _error("statuses", host.name, error) from error
        states = answer.get("power_state")
        if not isinstance(states, dict):
            raise DriverError("look", host.name, "statuses: power_state must be an object", transient=True)
        return {str(name): power_of_word(state) for name, state in states.items()}

    def _state(self, host: HostAddress | None, kept: _Kept, timeout_s: float) -> str:
        try:
            answer = self._program.run("status", self._payload(host, kept), timeout_s=timeout_s)
        except ActionFailed as error:
            raise _error("status", ANY_HOST if host is None else host.name, error) from error
        return power_of_word(answer.get("power_state"))

    def _payload(self, host: HostAddress | None, kept: _Kept | None = None) -> dict[str, Any]:
        details = host_details(None if host is None else host.url)
        user_id = current_user()
        caller = None if user_id is None else self._records.directory.caller(user_id)
        if kept is None:
            return payload_of(self._details, details, caller=caller)
        return payload_of(self._details, details, kept.external, kept.vm, caller)

    @contextmanager
    def _call(
        self, step: str, host: HostAddress | None, guest: UUID, fence: int, timeout_s: float
    ) -> "Iterator[_Call]":
        call = _Call(self, host, guest, fence, timeout_s)
        with self._turns.of(guest, step, call.host_name, timeout_s=timeout_s):
            yield call


class _Call(FencedCall):
    """A call about one guest and its stored state. Without a host, the call uses the guest's last host."""

    def __init__(
        self, driver: ExtensionDriver, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        super().__init__(driver._records.fences, host, guest_uuid, fence, timeout_s)
        self._driver = driver
        self.kept: _Kept | None = None

    @property
    def known(self) -> _Kept:
        """The kept state of the guest, which must exist."""
        if self.kept is None:
            raise ValueError(f"nothing is kept of guest {self.guest}")
        return self.kept

    @override
    def fenced_here(self, step: str) -> FencedGuest:
        return self._read(super().fenced_here(step))

    @override
    def raise_fence_elsewhere(self, step: str) -> FencedGuest:
        return self._read(super().raise_fence_elsewhere(step))

    @override
    def claim(self, step: str, volume_uuids: Collection[UUID]) -> FencedGuest:
        return self._read(super().claim(step, volume_uuids))

    def _read(self, fenced: FencedGuest) -> FencedGuest:
        self.kept = _Kept.of(fenced)
        if self.host is None:
            hosts = self._driver._records.directory.hosts()
            may_have = fenced.host_uuids or ({UUID(self.kept.host)} if self.kept and self.kept.host else set())
            self.host = next((host for host in hosts if host.uuid in may_have), None)
        return fenced

    def keep(self, kept: _Kept | None) -> None:
        """Record the properties of the guest and the host that has it."""
        if kept is not None and self.host is not None:
            kept = replace(kept, host=str(self.host.uuid))
        try:
            self.fences.keep(self.guest, {} if kept is None else {KEPT_UNDER: asdict(kept)}, self.fence)
        except Overtaken as error:
            raise self.stale("boot") from error
        self.kept = kept

    def make(self) -> None:
        """Prepare a guest that does not exist, and create it.

        If the executable rejects the creation, an object with the prepared identity may belong to another user of
        the hypervisor. It is not touched, and the next attempt prepares another identity.
        """
        new = self.known
        self._prepare()
        before = self.find()
        if before == ON:
            self.keep(new)
            text = "what prepare answered is the identity of a guest that runs"
            raise DriverError("boot", self.host_name, text, transient=True)
        try:
            self._create()
        except DriverError as error:
            if not error.unanswered and (before != UNKNOWN or not self._is_certainly_there()):
                self.keep(new)
            raise

    def _prepare(self) -> None:
        """Run ``prepare`` until it returns an identity with which no other guest of this service is being created.

        An executable that returns the next free number reserves nothing: concurrent calls get the same number until
        one of them has begun to create its guest.
        """
        new = self.known
        while True:
            try:
                vm = prepared(new.vm, self._run("prepare"))
            except WrongAnswer as error:
                raise self.error("boot", f"prepare: {error}") from error
            details = vm.get("details") or {}
            with self._driver._records.clusters.turn(self._driver._turn_name, timeout_s=self.left):
                other = self._other_with(details) if self._driver._options.details_identify else None
                if other is None:
                    self.keep(replace(new, vm=vm, external={**new.external, **without_prefix(details)}))
                    return
            if self.is_over:
                text = (
                    f"prepare answers the details of guest {other}, which is being created: {', '.join(details)}."
                    " If details do not identify a guest, set driver.extension.details_identify = false"
                )
                raise DriverError("boot", self.host_name, text, transient=True)
            time.sleep(AGAIN_S)

    def _other_with(self, details: Mapping[str, Any]) -> UUID | None:
        """Return another guest of this service that may exist with exactly these details, or None.

        A created guest exists with its number, which no executable returns again. Without ``statuses``, a created
        guest is assumed to exist.
        """
        if not details:
            return None
        alike = self.fences.guests_with({KEPT_UNDER: {"vm": {"details": dict(details)}}})
        for guest_uuid, fenced in alike.items():
            kept = _Kept.of(fenced)
            is_made = kept is not None and kept.made is Made.YES
            if guest_uuid != self.guest and not (is_made and self._driver._options.statuses):
                return guest_uuid
        return None

    def make_after_lost_answer(self, new: _Kept) -> None:
        """Make the guest run after a creation whose response was lost.

        A guest that runs with the prepared identity and the guest's name is this guest. If nothing has them, the
        guest is prepared again. Any other object with the identity belongs to another user and is not touched.
        """
        found = self.find_ours()
        if found == ON:
            return
        if found == UNKNOWN and self._driver._options.statuses:
            self.keep(new)
            self.make()
            return
        self._run("delete")
        self._create()

    def _create(self) -> None:
        self.keep(replace(self.known, made=Made.MAYBE))
        self._run("create")
        self._give_way()

    def start_again(self) -> None:
        """Start a guest that was created before, unless it runs.

        A guest that does not exist is not created again.
        """
        found = self.look()
        if found == GONE:
            reason = (
                f"the hypervisor does not have guest {self.known.name} and its disk any more; restoreVirtualMachine"
                " makes them anew from the template"
            )
            raise self.error("volume", reason)
        if found == OFF:
            self._run("start")
            self._give_way()

    def _give_way(self) -> None:
        """Undo the work of this call if a call with a higher fence came and does not run the guest."""
        if self.fences.is_highest(self.guest, self.fence):
            return
        fenced = self.fences.kept().get(self.guest)
        if fenced is None:
            self._run("delete")
        elif not fenced.host_uuids:
            self._run("stop")
        raise self.stale("boot")

    def stop(self) -> None:
        """Stop the guest if it runs. The remains of a creation whose response was lost are deleted."""
        if self.kept is None or self.kept.made is Made.NO:
            return
        if self.known.made is Made.MAYBE and self.find_ours() == UNKNOWN:
            if not self._driver._options.statuses:
                self._run("delete")
            self.keep(replace(self.known, made=Made.NO))
        elif self.look() == ON:
            self._run("stop")

    def stop_here(self) -> None:
        """Stop the guest, which runs on the call's host."""
        self._run("stop")

    def delete(self) -> None:
        """Delete the guest, running or not, and its stored state."""
        if self.known.made is not Made.NO:
            found = self.find()
            is_certain = self.known.made is Made.YES or not self._driver._options.statuses
            if (found == UNKNOWN and is_certain) or self.find_ours() != UNKNOWN:
                if found == ON:
                    self._run("stop")
                self._run("delete")
        self.keep(None)

    def find(self) -> str:
        """Return the state of the object with the guest's identity.

        Returns UNKNOWN if there is none or if ``status`` fails.
        """
        try:
            return self._state()
        except DriverError:
            return UNKNOWN

    def find_ours(self) -> str:
        """Return the state of the guest, or UNKNOWN if its identity is unused or belongs to another name.

        Raises:
            DriverError: ``statuses`` failed, so the owner of the guest is unknown.
        """
        found = self.find()
        return UNKNOWN if found != UNKNOWN and self._has_other_name() else found

    def _has_other_name(self) -> bool:
        """Return True if the host certainly has no guest with this guest's name."""
        states = None if self.host is None else self._driver._states(self.host, self.left)
        return states is not None and self.known.name not in states

    def _is_certainly_there(self) -> bool:
        """Return True if a guest with this name and identity certainly exists. An error counts as False."""
        if not self._driver._options.statuses or self.host is None:
            return False
        try:
            return self.find_ours() != UNKNOWN
        except DriverError:
            return False

    def look(self) -> str:
        """Return the state of a created guest, or GONE if ``statuses`` lists no guest with its name.

        Raises:
            DriverError: it cannot be seen.
        """
        state = self._state_or_failure()
        if self._has_other_name():
            return GONE
        if isinstance(state, str) and state != UNKNOWN:
            return state
        if isinstance(state, DriverError):
            raise state
        raise DriverError("look", self.host_name, "status: the state of the guest is unknown", transient=True)

    def _state_or_failure(self) -> str | DriverError:
        try:
            return self._state()
        except DriverError as error:
            return error

    def _state(self) -> str:
        return self._driver._state(self.host, self.known, self.left)

    def open_screen(self) -> socket.socket:
        """Connect to the VNC server of the guest, which runs on the call's host."""
        where = self.fences.kept().get(self.guest, FencedGuest())
        self.kept = _Kept.of(where)
        here = self.host is not None and self.host.uuid in where.host_uuids
        if self.kept is None or not here or self.find() != ON:
            raise self.error("console", "the guest does not run there")
        try:
            screen = read_console(self._run("getconsole"))
        except WrongAnswer as error:
            raise self.error("console", f"getconsole: {error}") from error
        if isinstance(screen, str):
            raise self.error("console", f"its console is a web page, which the service cannot show: {screen}")
        try:
            return connect_to_vnc(screen.address, screen.port, screen.password, timeout_s=self.left)
        except (OSError, VncRefused) as error:
            reason = f"its VNC server at {screen.address}, port {screen.port}: {error}"
            raise self.error("console", reason, transient=True) from error

    def run_custom_action(self, action: CustomAction) -> str:
        """Run a custom action on an existing guest, and return the output of the action."""
        if self.kept is None or self.kept.made is Made.NO:
            raise self.error("custom_action", "the guest does not exist yet: start the virtual machine once")
        payload = self._driver._payload(self.host, self.kept)
        if action.details:
            payload["externaldetails"]["action"] = dict(action.details)
        payload["action"] = action.name
        if action.parameters:
            payload["parameters"] = dict(action.parameters)
        try:
            return self._driver._program.print(action.name, payload, timeout_s=self.left)
        except ActionFailed as error:
            raise self.error("custom_action", str(error), transient=error.unanswered) from error

    def _run(self, action: str) -> Mapping[str, Any]:
        payload = self._driver._payload(self.host, self.kept)
        try:
            return self._driver._program.run(action, payload, timeout_s=self.left)
        except ActionFailed as error:
            raise _error(action, self.host_name, error) from error


def _error(action: str, host_name: str, failure: ActionFailed) -> DriverError:
    step = STEPS.get(action, action)
    return DriverError(step, host_name, str(failure), transient=True, unanswered=failure.unanswered)


DRIVER = ExtensionDriver
