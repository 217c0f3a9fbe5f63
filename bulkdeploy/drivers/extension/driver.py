"""Driver for executables of CloudStack's Extension protocol: docs/extensions.md (one file: a call is one guest).

A guest is what ``prepare`` and ``create`` made of a payload; what ``prepare`` answered is kept and sent with each
later action. ``create`` may not be repeated: that it is begun is kept before it is, so that after a lost answer
the guest is looked for, and what is left of it deleted, before it is made anew under the same identity. What the
protocol has no place for, fences and the one host that may have a guest, stands in the service's records. It has no
data volumes and no live migration. Screens are VNC servers that ``getconsole`` names.
"""

import socket
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self
from uuid import UUID

from bulkdeploy.drivers.abilities import Ability
from bulkdeploy.drivers.driver import (
    ANY_HOST,
    ConsoleKind,
    DriverError,
    Guest,
    GuestSpec,
    HypervisorDriver,
    PowerState,
    call_each,
)
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
from bulkdeploy.drivers.fenced_call import FencedCall
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.records import FencedGuest, Overtaken
from bulkdeploy.drivers.turns import Turns
from bulkdeploy.drivers.vnc import VncRefused, connect_to_vnc

KEPT_UNDER = "extension"
ANY_TEMPLATE = "default"
LOOK_SECONDS = 60.0
"""Patience for listings, which have no timeout of their own."""

STEPS = {
    "prepare": "boot",
    "create": "boot",
    "start": "boot",
    "status": "look",
    "statuses": "look",
    "getconsole": "console",
}
"""What errors call an action; others by their own names."""


class Made(StrEnum):
    """How far a guest is."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a guest: ``vm``, what the protocol calls cloudstack.vm.details, with prepare's answer."""

    vm: dict[str, Any]
    external: dict[str, str]
    sizes: tuple[int, int, int]
    volumes: tuple[tuple[str, str, int], ...]
    made: Made = Made.NO

    @property
    def name(self) -> str:
        """As the hypervisor knows the guest."""
        return str(self.external.get("vm_name") or self.vm["name"])

    @classmethod
    def of(cls, fenced: FencedGuest) -> "_Kept | None":
        """What is kept; None: nothing of ours."""
        read = fenced.details.get(KEPT_UNDER)
        return None if read is None else cls(**{**read, "made": Made(read["made"])})


class ExtensionDriver(HypervisorDriver):
    """See the module."""

    options_model = ExtensionOptions
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.VNC_CONSOLE})

    def __init__(self, options: ExtensionOptions) -> None:
        self._options = options
        self.is_watched = options.statuses  # guest by guest would be a program for each, every few seconds
        self._details = {key: value.get_secret_value() for key, value in options.details.items()}
        self._program = Program(
            options.executable, at_once=options.actions_at_once, secrets=list(self._details.values())
        )
        self._turns = Turns()

    @classmethod
    def from_options(cls, options: ExtensionOptions) -> Self:
        """See HypervisorDriver."""
        return cls(options)

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """See HypervisorDriver; ``statuses``, where the extension has it, must be answered for the host."""
        try:
            model = read_host_url(host.access.url)
            if self._options.statuses:
                payload = payload_of(self._details, host_details(host.access.url))
                self._program.run("statuses", payload, timeout_s=timeout_s)
        except (ValueError, ActionFailed) as error:
            raise DriverError("connect", ANY_HOST, str(error), transient=False) from error
        return model

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool:
        """See HypervisorDriver; an extension without ``statuses`` is believed to."""
        try:
            self._states(host, timeout_s)
        except DriverError:
            return False
        return True

    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver."""
        with self._call("boot", host, guest.uuid, fence, timeout_s) as call:
            if len(guest.volumes) > 1:
                raise DriverError(
                    "volume", host.name, "guests of extensions have a root disk alone", transient=False
                )
            call.claim("boot", [volume.uuid for volume in guest.volumes])
            if call.kept is None or call.kept.made is Made.NO:
                call.keep(self._new(guest))
                call.make()
            elif call.kept.made is Made.MAYBE:
                if call.find() != ON:
                    call.make_again()
            elif call.look() == OFF:
                call.start()
            call.keep(replace(call.known, made=Made.YES))

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver: what it is made of stays; ``forced`` is the extension's to decide."""
        del forced
        with self._call("stop", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("stop")
            call.stop()
            self._records.fences.release(guest_uuid, fence)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """See HypervisorDriver; a guest that is to be on no host counts as absent."""
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
        """See HypervisorDriver; a guest whose root disk is not named stays, and does not run."""
        with self._call("delete", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("delete")
            if call.kept is not None and {UUID(volume) for volume, _, _ in call.kept.volumes} <= set(volume_uuids):
                call.delete()
            else:
                call.stop()
            self._records.fences.release(guest_uuid, fence)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """See HypervisorDriver: a root disk goes with its guest."""
        del timeout_s
        for guest_uuid, kept in self._kept():
            if kept.made is not Made.NO and any(
                (UUID(volume), UUID(pool)) == (volume_uuid, pool_uuid) for volume, pool, _ in kept.volumes
            ):
                raise DriverError("delete", ANY_HOST, f"it is the root disk of guest {guest_uuid}", transient=True)

    def open_console(
        self, host: HostAddress, guest_uuid: UUID, kind: ConsoleKind, *, timeout_s: float
    ) -> socket.socket:
        """See HypervisorDriver: the screen, where ``getconsole`` names a VNC server."""
        if kind is not ConsoleKind.VNC:
            return super().open_console(host, guest_uuid, kind, timeout_s=timeout_s)
        return _Call(self, host, guest_uuid, 0, timeout_s).open_screen()

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """See HypervisorDriver: one ``statuses`` for each host."""
        if not self._program.is_there:
            raise DriverError("look", ANY_HOST, f"{self._program.path} can not be run", transient=True)
        kept = self._kept_by_host()
        return call_each(hosts, lambda host: [one for one, _ in self._guests(host, kept[host.uuid], timeout_s)])

    def list_guests(self) -> Iterator[Guest]:
        """See HypervisorDriver."""
        kept = self._kept_by_host()
        for host in self._records.directory.hosts():
            for guest, state in self._guests(host, kept[host.uuid], LOOK_SECONDS):
                if state == UNKNOWN:
                    reason = f"the state of guest {guest.uuid} is unknown"
                    raise DriverError("list", host.name, reason, transient=True)
                yield guest

    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """See HypervisorDriver: root disks, as long as their guests exist."""
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
        """What is kept of guests that may exist, by the host that may have them."""
        found: defaultdict[UUID | None, list[tuple[UUID, _Kept]]] = defaultdict(list)
        for guest_uuid, fenced in self._records.fences.kept().items():
            kept = _Kept.of(fenced)
            if kept is not None and kept.made is not Made.NO:
                found[fenced.host_uuid].append((guest_uuid, kept))
        return found

    def _guests(
        self, host: HostAddress, kept_here: Sequence[tuple[UUID, _Kept]], timeout_s: float
    ) -> list[tuple[Guest, str]]:
        """The guests of a host and their states; of one whose state is unknown it is taken that it runs."""
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
        """State by name of all guests of a host; None: the extension does not say."""
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
        if kept is None:
            return payload_of(self._details, details)
        return payload_of(self._details, details, kept.external, kept.vm)

    @contextmanager
    def _call(
        self, step: str, host: HostAddress | None, guest: UUID, fence: int, timeout_s: float
    ) -> "Iterator[_Call]":
        call = _Call(self, host, guest, fence, timeout_s)
        with self._turns.of(guest, step, call.host_name, timeout_s=timeout_s):
            yield call


class _Call(FencedCall):
    """One call about one guest and what is kept of it; without a host it is for the one that may have the guest."""

    def __init__(
        self, driver: ExtensionDriver, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        super().__init__(driver._records.fences, host, guest_uuid, fence, timeout_s)
        self._driver = driver
        self.kept: _Kept | None = None

    @property
    def known(self) -> _Kept:
        """What is kept of the guest, where something is."""
        if self.kept is None:
            raise ValueError(f"nothing is kept of guest {self.guest}")
        return self.kept

    def fenced_here(self, step: str) -> FencedGuest:
        """See FencedCall."""
        return self._read(super().fenced_here(step))

    def claim(self, step: str, volume_uuids: Collection[UUID]) -> FencedGuest:
        """See FencedCall."""
        return self._read(super().claim(step, volume_uuids))

    def _read(self, fenced: FencedGuest) -> FencedGuest:
        self.kept = _Kept.of(fenced)
        if self.host is None:
            hosts = self._driver._records.directory.hosts()
            self.host = next((host for host in hosts if host.uuid in fenced.host_uuids), None)
        return fenced

    def keep(self, kept: _Kept | None) -> None:
        """Remember this of the guest."""
        try:
            self.fences.keep(self.guest, {} if kept is None else {KEPT_UNDER: asdict(kept)}, self.fence)
        except Overtaken as error:
            raise self.stale("boot") from error
        self.kept = kept

    def make(self) -> None:
        """Prepare a guest that does not exist, and create it; nothing is kept of a refusal that left nothing."""
        new = self.known
        try:
            vm = prepared(new.vm, self._run("prepare"))
        except WrongAnswer as error:
            raise self.error("boot", f"prepare: {error}") from error
        self.keep(replace(new, vm=vm, external={**new.external, **without_prefix(vm.get("details"))}))
        before = self.find()
        if before == ON:
            self.keep(new)
            text = "what prepare answered is the identity of a guest that runs"
            raise DriverError("boot", self.host_name, text, transient=True)
        try:
            self._create()
        except DriverError as error:
            if not error.unanswered and (before != UNKNOWN or self.find() == UNKNOWN):
                self.keep(new)
            raise

    def make_again(self) -> None:
        """Delete what is left of a creation of which no answer was heard, and create the same guest anew."""
        self._run("delete")
        self._create()

    def _create(self) -> None:
        self.keep(replace(self.known, made=Made.MAYBE))
        self._run("create")
        self._give_way()

    def start(self) -> None:
        """Start a guest that exists and does not run."""
        self._run("start")
        self._give_way()

    def _give_way(self) -> None:
        """Undo what was done by a call that was overtaken meanwhile, unless a later one has the guest run."""
        if self.fences.is_highest(self.guest, self.fence):
            return
        fenced = self.fences.kept().get(self.guest)
        if fenced is None:
            self._run("delete")
        elif not fenced.host_uuids:
            self._run("stop")
        raise self.stale("boot")

    def stop(self) -> None:
        """Stop the guest, if it runs; what may be left of a creation of which no answer was heard is deleted."""
        if self.kept is None or self.kept.made is Made.NO:
            return
        if self.known.made is Made.MAYBE and self.find() == UNKNOWN:
            self._run("delete")
            self.keep(replace(self.known, made=Made.NO))
        elif self.look() == ON:
            self._run("stop")

    def delete(self) -> None:
        """Remove the guest, running or not, and what is kept of it."""
        if self.known.made is not Made.NO:
            if self.find() == ON:
                self._run("stop")
            self._run("delete")
        self.keep(None)

    def find(self) -> str:
        """What the guest does; UNKNOWN where none answers to its name, which extensions may call an error."""
        try:
            return self._state()
        except DriverError:
            return UNKNOWN

    def look(self) -> str:
        """What a guest that exists does.

        Raises:
            DriverError: it can not be seen.
        """
        state = self._state()
        if state == UNKNOWN:
            raise DriverError("look", self.host_name, "status: the state of the guest is unknown", transient=True)
        return state

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
            raise self.error("console", f"its console is a page of its own: {screen}")
        try:
            return connect_to_vnc(screen.address, screen.port, screen.password, timeout_s=self.left)
        except (OSError, VncRefused) as error:
            reason = f"its VNC server at {screen.address}, port {screen.port}: {error}"
            raise self.error("console", reason, transient=True) from error

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
