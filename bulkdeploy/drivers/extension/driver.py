"""The driver for executables of the Extension protocol: docs/how-to/extensions.md (one file: one class).

A guest is created by ``prepare`` and ``create`` from a payload. The response of ``prepare`` is stored and sent with
each later action. ``create`` must not be repeated, so its beginning is recorded before the action runs. If the
response of ``create`` is lost, the driver looks for the guest and deletes its remains before it creates the guest
again under the same identity. The protocol has no fences, and no rule that only one host may have a guest; the
service's records contain both. The driver has no data volumes and no live migration. Screens are VNC servers that
``getconsole`` returns.
"""

import socket
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self
from uuid import UUID

from typing_extensions import override

from bulkdeploy.drivers.abilities.consoles import VncConsoles
from bulkdeploy.drivers.abilities.custom_actions import CustomAction, CustomActions
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, refuse_lost_volumes
from bulkdeploy.drivers.exchanges.parallel_calls import call_each
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.extension.extension import STEPS, Extension, KeptGuest, Made, error_of
from bulkdeploy.drivers.extension.extension_call import ExtensionCall
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.extension.payload import (
    OFF,
    ON,
    UNKNOWN,
    host_details,
    payload_of,
    read_host_url,
    vm_of,
)
from bulkdeploy.drivers.extension.program import ActionFailed
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.records import Records

ANY_TEMPLATE = "default"
LONGEST_MARK = 4096
"""The largest number of characters of an activity mark, which is stored until the next check."""

LOOK_SECONDS = 60.0
"""The time limit of each action for listings, whose callers set no time limit, in seconds."""


class ExtensionDriver(VncConsoles, CustomActions, HypervisorDriver):
    """The driver for one executable of the Extension protocol. Threads share the object."""

    options_model = ExtensionOptions

    def __init__(self, options: ExtensionOptions) -> None:
        self._extension = Extension(options)
        self.is_watched = options.statuses  # without the action statuses, each check would run a program per guest
        self._turns = Turns()

    @classmethod
    @override
    def from_options(cls, options: ExtensionOptions) -> Self:
        return cls(options)

    @override
    def use_records(self, records: Records) -> None:
        super().use_records(records)
        self._extension.records = records

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Register a host with the hardware in its URL, and return this hardware.

        If the extension has the action ``statuses``, the action must succeed for the host.

        Raises:
            DriverError: the URL is invalid, or the action ``statuses`` failed.
        """
        try:
            model = read_host_url(host.access.url)
            if self._extension.options.statuses:
                payload = payload_of(self._extension.details, host_details(host.access.url))
                self._extension.program.run("statuses", payload, timeout_s=timeout_s)
        except (ValueError, ActionFailed) as error:
            raise DriverError("connect", ANY_HOST, str(error), transient=False) from error
        return model

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool | None:
        """Return whether a host answers the action ``statuses``.

        Returns None if the extension does not have this action.
        """
        try:
            states = self._extension.states(host, timeout_s)
        except DriverError:
            return False
        return None if states is None else True

    @override
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        with self._call("boot", host, guest.uuid, fence, timeout_s) as call:
            if len(guest.volumes) > 1:
                raise DriverError(
                    "volume", host.name, "guests of extensions cannot have data volumes", transient=False
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
        states = self._extension.states(host, timeout_s)
        for guest_uuid, fenced in self._records.fences.guests_with_details().items():
            known = KeptGuest.of(fenced)
            if known is None or known.made is Made.NO or guest_uuid in kept:
                continue
            if states is None and fenced.host_uuids:
                continue
            if states is None or states.get(known.name) == ON:
                fence = self._records.fences.highest(guest_uuid)
                self.ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest on this host, or None if the guest is not there.

        A guest without a host in the records counts as absent.
        """
        with self._call("look", host, guest_uuid, fence, timeout_s) as call:
            fenced = call.fenced_here("look")
            if not fenced.host_uuids or call.kept is None or call.kept.made is Made.NO:
                call.record_absence(fenced)
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
        """Delete a guest with its root disk.

        If the guest's root disk is not in ``volume_uuids``, the guest is only stopped.
        """
        with self._call("delete", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("delete")
            if call.kept is not None and {UUID(volume) for volume, _, _ in call.kept.volumes} <= set(volume_uuids):
                call.delete()
            else:
                call.stop()
            self._records.fences.release(guest_uuid, fence)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Raise an error if the volume is the root disk of a guest, and do nothing otherwise.

        A root disk is deleted with its guest, and guests of extensions have no other volumes.
        """
        del timeout_s
        for guest_uuid, kept in self._kept():
            if kept.made is not Made.NO and any(
                (UUID(volume), UUID(pool)) == (volume_uuid, pool_uuid) for volume, pool, _ in kept.volumes
            ):
                raise DriverError(
                    "delete", ANY_HOST, f"the volume is the root disk of guest {guest_uuid}", transient=True
                )

    def open_vnc_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Open the screen of a guest, if the action ``getconsole`` of the extension returns a VNC server."""
        return ExtensionCall(self._extension, host, guest_uuid, 0, timeout_s).open_screen()

    @property
    @override
    def program(self) -> Path:
        return self._extension.options.executable

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
        if not self._extension.program.is_there:
            raise DriverError("look", ANY_HOST, f"{self._extension.program.path} cannot be run", transient=True)
        kept = self._kept_by_host()
        return call_each(hosts, lambda host: [one for one, _ in self._guests(host, kept[host.uuid], timeout_s)])

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str | None:
        """Return the response of the action ``activity``, or None if the extension does not have this action.

        Raises:
            DriverError: the action failed or returned no mark. Host HA must not conclude from this error that the
                silent host is dead, because many executables succeed for actions that they do not know.
        """
        del volumes  # the executable decides where disks are
        if not self._extension.options.activity:
            return None
        guests = [{"uuid": kept.vm["uuid"], "name": kept.name} for _, kept in self._kept_by_host()[host.uuid]]
        payload = {
            **self._extension.payload(other),
            "silenthost": host_details(host.url),
            "virtualmachines": guests,
        }
        try:
            answer = self._extension.program.run("activity", payload, timeout_s=timeout_s)
        except ActionFailed as error:
            raise error_of("activity", other.name, error) from error
        mark = str(answer.get("mark", ""))
        if not 0 < len(mark) <= LONGEST_MARK or "\0" in mark:
            reason = (
                f"the response of the action activity must contain mark, a text of 1 to {LONGEST_MARK} characters"
            )
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
        """List the root disks of the guests that exist."""
        for _, kept in self._kept():
            if kept.made is not Made.NO:
                for volume, pool, size_bytes in kept.volumes:
                    yield UUID(volume), UUID(pool), size_bytes

    def _new(self, guest: GuestSpec) -> KeptGuest:
        template = next((volume.template_uuid for volume in guest.volumes if volume.template_uuid), None)
        image = None if template is None else self._records.directory.template(template)
        known = self._extension.options.templates
        named = None if image is None else image.named_in(known)
        external = known.get(ANY_TEMPLATE, {}) if named is None else named
        volumes = tuple((str(one.uuid), str(one.pool_uuid), one.size_bytes) for one in guest.volumes)
        return KeptGuest(vm_of(guest), dict(external), (guest.cpu_number, guest.cpu_mhz, guest.memory_mib), volumes)

    def _kept(self) -> Iterator[tuple[UUID, KeptGuest]]:
        for guest_uuid, fenced in self._records.fences.guests_with_details().items():
            if (kept := KeptGuest.of(fenced)) is not None:
                yield guest_uuid, kept

    def _kept_by_host(self) -> Mapping[UUID | None, Sequence[tuple[UUID, KeptGuest]]]:
        """Return the stored states of all guests that may exist, by the uuid of the guest's possible host."""
        found: defaultdict[UUID | None, list[tuple[UUID, KeptGuest]]] = defaultdict(list)
        for guest_uuid, fenced in self._records.fences.guests_with_details().items():
            kept = KeptGuest.of(fenced)
            if kept is not None and kept.made is not Made.NO:
                found[fenced.host_uuid].append((guest_uuid, kept))
        return found

    def _guests(
        self, host: HostAddress, kept_here: Sequence[tuple[UUID, KeptGuest]], timeout_s: float
    ) -> list[tuple[Guest, str]]:
        """Return the guests of a host with the power states that the extension reports.

        A guest whose state is unknown counts as running.
        """
        states = self._extension.states(host, timeout_s)
        found = []
        for guest_uuid, kept in kept_here:
            state = self._extension.state(host, kept, timeout_s) if states is None else states.get(kept.name)
            if state is not None:
                power = PowerState.STOPPED if state == OFF else PowerState.RUNNING
                volumes = frozenset(UUID(volume) for volume, _, _ in kept.volumes)
                found.append((Guest(guest_uuid, host.uuid, power, *kept.sizes, volumes), state))
        return found

    @contextmanager
    def _call(
        self, step: str, host: HostAddress | None, guest: UUID, fence: int, timeout_s: float
    ) -> Iterator[ExtensionCall]:
        call = ExtensionCall(self._extension, host, guest, fence, timeout_s)
        with self._turns.of(guest, step, call.host_name, timeout_s=timeout_s):
            yield call


DRIVER = ExtensionDriver
