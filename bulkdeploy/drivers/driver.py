"""The interface of hypervisor drivers: idempotent calls and queries (one file: one protocol, whole).

Every call is keyed by the VM's uuid and may be repeated: after a crash it is unknown whether the
first one arrived. ``fence`` is the job's lease number; a hypervisor that can check it refuses a
call with a lower fence than it has seen for that VM (a paused process that woke up too late).
docs/tutorials/drivers.md walks through an example.
"""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar
from uuid import UUID

from bulkdeploy.domain.virtual_machines.device_parameters import Device
from bulkdeploy.domain.virtual_machines.usage import HostUsage
from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.abilities.host_files import FileState, HostFile
from bulkdeploy.drivers.abilities.storage_units import StorageUnit
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.guests import (
    ConsoleKind,
    CustomAction,
    Guest,
    GuestCheck,
    GuestDetails,
    GuestSpec,
    PowerState,
    SnapshotSpec,
    VolumeSpec,
)
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.options import DriverOptions
from bulkdeploy.drivers.records import Records
from bulkdeploy.processes.tcp_ports import reachable_ports

H = TypeVar("H")
T = TypeVar("T")

NOBODY = UUID(int=0)
"""The uuid of no guest."""

HOSTS_AT_ONCE = 16
"""Hosts that ``admit_hosts`` and ``look_at_hosts`` reach at the same time."""


CONSOLES = MappingProxyType({ConsoleKind.VNC: Ability.VNC_CONSOLE, ConsoleKind.SERIAL: Ability.SERIAL_CONSOLE})
"""What a driver declares that opens consoles of a kind."""


class HypervisorDriver(ABC):
    """The interface of the driver of one hypervisor type. A driver is a subclass; threads share its object.

    Attributes:
        options_model: what ``from_options`` is given, declared.
        abilities: what the hypervisor can do beyond running, stopping and removing guests.
        device_parameters: the parameters of disks and nics that it knows; others are refused before a job is made.
        is_watched: hosts may fail: the sweeper looks (``look_at_hosts``).
        guests_may_end: guests of watched hosts may end by themselves; False: looks need not tell of guests.
    """

    options_model: ClassVar[type[DriverOptions]] = DriverOptions
    abilities: ClassVar[frozenset[Ability]] = frozenset()
    device_parameters: ClassVar[Mapping[Device, frozenset[str]]] = MappingProxyType({})
    is_watched: bool = False
    guests_may_end: ClassVar[bool] = True
    _records: Records

    @classmethod
    @abstractmethod
    def from_options(cls, options: Any) -> Self:
        """Make the driver, from an object of ``options_model``. Hosts need not answer at this moment."""

    def use_records(self, records: Records) -> None:
        """Set the records that the service stores for the driver. This is called once, before all other calls."""
        self._records = records

    @abstractmethod
    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Connect to a machine, register the machine under its uuid, and return its hardware.

        If the host is already registered, its hardware is read again.

        Raises:
            DriverError: nothing that can hold guests answers there.
        """

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """Admit several hosts, HOSTS_AT_ONCE at a time, and return the result or error of each in order.

        Each host may take ``timeout_s`` seconds. A host that fails does not affect the others.
        """
        return call_each(hosts, lambda host: self.admit_host(host, timeout_s=timeout_s))

    def guests_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[Guest]:
        """Return the guests of one host. Drivers that override ``look_at_hosts`` need not implement this method.

        Raises:
            DriverError: it does not answer; guests may run on it all the same.
        """
        del timeout_s
        raise DriverError("look", host.name, "its driver does not watch hosts", transient=False)

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """Return the guests of each host, or an error, in order; HOSTS_AT_ONCE hosts are queried at a time.

        An error means that the host does not answer. HostDrained means that it answers and accepts no new guests.

        Raises:
            DriverError: no host could be asked, for a reason that is not the hosts'.
        """
        return call_each(hosts, lambda host: self.guests_of_host(host, timeout_s=timeout_s))

    def memory_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> Mapping[UUID, int]:
        """Return the MiB of memory that the service's guests may use on hosts where this value changes.

        The value has the meaning of ``HostModel.memory_mib`` when a host is added. Hosts whose memory is constant
        or currently unknown are omitted.

        Raises:
            DriverError: the memory of no host could be read.
        """
        del hosts, timeout_s
        return {}

    def usage_of_host(self, host: HostAddress, *, timeout_s: float) -> HostUsage:
        """Return the usage of one host. Drivers that override ``usage_of_hosts`` need not implement this method.

        Raises:
            DriverError: the host does not answer.
        """
        del timeout_s
        raise DriverError("usage", host.name, "its driver measures no usage", transient=False)

    def usage_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[HostUsage | DriverError]:
        """Return the usage of each of these hosts in their order, or the error of a host that does not answer.

        Raises:
            DriverError: no host could be asked, for a reason that is not the hosts'.
        """
        return call_each(hosts, lambda host: self.usage_of_host(host, timeout_s=timeout_s))

    def answers_of_guests(self, checks: Sequence[GuestCheck], *, timeout_s: float) -> Mapping[UUID, bool]:
        """Return by guest whether the guest answers its health check. Guests that must be asked again are omitted.

        A guest whose host does not answer, or that does not run there, does not answer either. Guests that the
        hypervisor cannot check are omitted. The default implementation connects to TCP ports from this machine, and
        omits checks by guest agents (Ability.GUEST_AGENTS).

        Raises:
            DriverError: no guest could be checked, for a reason that is not the guests'.
        """
        ports = [check for check in checks if check.check.port is not None]
        reached = reachable_ports([(check.address, check.check.port) for check in ports], timeout_s=timeout_s)
        return {check.guest_uuid: answer for check, answer in zip(ports, reached, strict=True)}

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """Return the guests of these hosts that reportedly ended since the last call, without waiting.

        The result is a hint for frequent checks: guests may be missing from it, and some of them may run. It is
        empty if the hypervisor sends no such reports.
        """
        del hosts
        return frozenset()

    def ensure_template(  # noqa: B027 - others have their templates themselves
        self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float
    ) -> None:
        """Ensure that a pool of ``host`` has a template for volumes, or an ISO for drives.

        This is called before each start, and before a running guest gets an ISO. Fetching the image may take long,
        and is done once per pool. Nothing is done if the pool has the image.

        Raises:
            DriverError: the pool does not have it.
        """

    @abstractmethod
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Create and start ``guest`` on ``host`` with its volumes and NICs.

        Volumes that are too small are enlarged.

        Raises:
            DriverError: it does not run; parts of it may exist, ``ensure_absent`` removes them. Also when
                the guest runs on another host: it is never made twice. Also when a volume with ``was_made`` is not
                there: it is never made anew.
        """

    @abstractmethod
    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop the guest and remove its definition from the host.

        Its volumes are kept. A missing guest is no error.

        Raises:
            DriverError: it may still run; ``power_of`` tells.
        """

    def find_guest(self, guest_uuid: UUID) -> Sequence[Guest]:
        """Return every copy of one guest on any host. A guest that runs on two hosts is returned twice.

        Raises:
            DriverError: a host could not be asked, so that it may be there as well.
        """
        return [guest for guest in self.list_guests() if guest.uuid == guest_uuid]

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Remove a guest that belongs to another host from this host by cutting its power.

        The guest's volumes and records are kept. A missing guest is no error.

        Raises:
            DriverError: it may still run here.
        """
        del guest_uuid, fence, timeout_s
        raise DriverError("stop", host.name, "its driver cannot end copies of guests", transient=False)

    @abstractmethod
    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest on this host, or None if the guest is not there.

        After None, no call with a lower fence can start the guest here. The guest may start on another host.

        Raises:
            DriverError: it cannot be seen now; or it is on another host.
        """

    @abstractmethod
    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """Delete the guest and these volumes. If ``host`` is None, they are deleted wherever they are.

        Raises:
            DriverError: something may be left.
        """

    @abstractmethod
    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume that no VM uses from a pool. A missing volume is no error.

        Raises:
            DriverError: it may be left; a guest that was not stopped since may still use it.
        """

    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Move a running guest from ``source`` to ``destination`` without interruption.

        Nothing is done if the guest runs there already. A call with the hosts exchanged undoes a migration that may
        have got to any point. Requires Ability.LIVE_MIGRATION.

        Raises:
            DriverError: the migration failed. The guest still runs on one of the hosts, or on neither; then nothing
                is moved, and the error is not transient.
        """
        del source, guest, fence, timeout_s
        raise _unable("migrate", destination.name, Ability.LIVE_MIGRATION)

    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Change the CPU and memory of a guest that runs on ``host`` to those of ``guest``, while it runs.

        Nothing is done if it has them already. Requires Ability.LIVE_SCALING.

        Raises:
            DriverError: it has these or its old sizes; or it does not run there (transient False).
        """
        del guest, fence, timeout_s
        raise _unable("scale", host.name, Ability.LIVE_SCALING)

    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Change the volumes and NICs of a guest that runs on ``host`` to exactly those of ``guest``.

        Missing volumes are created, attached volumes that are too small are enlarged, and detached volumes are kept
        in their pools. Nothing is done if the guest has these devices already. A call with the previous devices
        undoes a change that may have got to any point. The drive is not changed. Requires Ability.HOT_PLUG_VOLUMES
        or Ability.HOT_PLUG_NICS.

        Raises:
            DriverError: it has these, those it had before or some of both, and volumes may have been made; or it
                does not run there (transient False).
        """
        del guest, fence, timeout_s
        raise _unable("devices", host.name, Ability.HOT_PLUG_VOLUMES)

    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Insert the ISO of ``guest`` into the drive of a guest that runs on ``host``, or eject the ISO.

        A call with the previous content undoes a change that may have got to any point. A guest without a drive
        counts as a guest with an empty drive. Requires Ability.ISOS.

        Raises:
            DriverError: the drive has this or what it had before; or there is no drive, or the guest does not run
                there (transient False).
        """
        del guest, fence, timeout_s
        raise _unable("devices", host.name, Ability.ISOS)

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Apply the security group rules (``Records.security_rules``) to guests that run on ``host``.

        Starts and migrations apply the rules themselves; this method is for rules that change while guests run.
        Existing connections that are not allowed any more are cut. Guests that do not run there are omitted from
        the result. Requires Ability.SECURITY_GROUPS.

        Returns:
            The guests that have their rules now; others of them were started without, or do not run there.

        Raises:
            DriverError: some may have their rules of before; it was tried for all.
        """
        del guest_uuids, timeout_s
        raise _unable("filter", host.name, Ability.SECURITY_GROUPS)

    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Resize a volume of a guest to the size of ``volume``.

        The call may be repeated; a missing volume is skipped.

        If the volume grows, its guest, which runs on ``host``, sees the new size immediately. If it shrinks, the
        guest does not run (``host`` is None), and the data beyond the new size is lost. Requires
        Ability.RESIZE_VOLUMES or Ability.SHRINK_VOLUMES.

        Raises:
            DriverError: it has this size or the one before, which ``size_of`` tells; or the guest does not run
                where it must, or runs where it must not (transient False).
        """
        del guest_uuid, volume, fence, timeout_s
        raise _unable("resize", ANY_HOST if host is None else host.name, Ability.RESIZE_VOLUMES)

    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """Return the real size in bytes of a volume of a guest, or None if the volume does not exist.

        Afterwards, no ``ensure_resized`` with a lower fence can change the size. Requires Ability.RESIZE_VOLUMES.

        Raises:
            DriverError: it cannot be seen now.
        """
        del guest_uuid, volume, fence, timeout_s
        raise _unable("look", ANY_HOST, Ability.RESIZE_VOLUMES)

    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Take a snapshot of a guest that runs on ``host``, or of a stopped guest if ``host`` is None.

        Nothing is done if the snapshot exists. While a guest has snapshots, its volumes, NICs and sizes are not
        changed; it starts, stops and migrates like any other guest. Requires Ability.SNAPSHOTS for a stopped guest,
        Ability.MEMORY_SNAPSHOTS or Ability.LIVE_SNAPSHOTS for a running guest with or without its memory, and
        Ability.VOLUME_SNAPSHOTS for one volume.

        Raises:
            DriverError: there may be parts of it, which ``ensure_snapshot_absent`` removes; or the guest does not
                run where it must, or runs where it must not (transient False).
        """
        del guest, snapshot, fence, timeout_s
        raise _unable("snapshot", ANY_HOST if host is None else host.name, Ability.SNAPSHOTS)

    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Revert a guest, or one volume of it, to a snapshot. Later changes are lost; snapshots are kept.

        If the snapshot has memory, the guest runs on ``host`` and continues from that moment. Otherwise ``host`` is
        None, and the guest does not run. Requires Ability.SNAPSHOTS, or Ability.VOLUME_SNAPSHOTS for one volume.

        Raises:
            DriverError: its volumes are what they were in the snapshot, before the call, or some of both, and one
                that ran may run no more; or there is no such snapshot (transient False).
        """
        del guest, snapshot, fence, timeout_s
        raise _unable("revert", ANY_HOST if host is None else host.name, Ability.SNAPSHOTS)

    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Delete a snapshot of a guest that runs on ``host``, or of a stopped guest if ``host`` is None.

        A missing snapshot is no error. The guest and its other snapshots are not changed. Requires
        Ability.SNAPSHOTS, or Ability.VOLUME_SNAPSHOTS for one volume.

        Raises:
            DriverError: parts of it may be left.
        """
        del guest, snapshot, fence, timeout_s
        raise _unable("delete_snapshot", ANY_HOST if host is None else host.name, Ability.SNAPSHOTS)

    def ensure_template_made(
        self, guest: GuestSpec, volume: VolumeSpec, template_uuid: UUID, *, fence: int, timeout_s: float
    ) -> None:
        """Copy a volume of a stopped guest into a template in the same pool, unless the template exists.

        Afterwards ``ensure_template`` and ``ensure_running`` accept the template like any other. The volume is not
        changed. Requires Ability.VOLUME_TEMPLATES.

        Raises:
            DriverError: parts of the template may be left, which the next call replaces; or the guest runs, or it
                has no such volume (transient False).
        """
        del guest, volume, template_uuid, fence, timeout_s
        raise _unable("template", ANY_HOST, Ability.VOLUME_TEMPLATES)

    def ensure_overcommit(
        self, host_uuids: Sequence[UUID], cpu_overcommit: Decimal, memory_overcommit: Decimal, *, timeout_s: float
    ) -> None:
        """Set the over-commit ratios of these hosts' CPU and memory. Running guests are not affected.

        Unknown hosts are skipped. Hypervisors without such a limit do nothing.

        Raises:
            DriverError: some may still promise what they did.
        """
        del host_uuids, cpu_overcommit, memory_overcommit, timeout_s

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool | None:
        """Return whether a host itself answers, or None if its hypervisor cannot find out.

        The default implementation queries the host for a guest that does not exist. A driver of a cluster that
        answers for its members overrides this method, because the cluster's answer does not depend on the member.
        """
        try:
            self.power_of(host, NOBODY, fence=0, timeout_s=timeout_s)
        except DriverError:
            return False
        return True

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str | None:
        """Return a text that changes whenever guests of ``host`` write to volumes.

        Returns None if no host of this hypervisor can read such a text, now or later: silence then counts as
        inactivity.

        ``host`` does not answer, so ``other``, which has the same shared pools, reads the volumes. Each volume is
        given by the uuids of its pool and of itself. Equal texts of two calls mean that nothing was written in
        between.

        Raises:
            DriverError: the text could not be read this time. The host is not fenced for this.
        """
        del host, other, volumes, timeout_s
        return None

    def ensure_fenced(self, host: HostAddress, *, timeout_s: float) -> None:
        """Stop everything on a host, even if it does not answer, and prevent starts until it is admitted again.

        The volumes of its guests in shared pools are kept. Requires Ability.HOST_FENCING.

        Raises:
            DriverError: guests may still run there.
        """
        del timeout_s
        raise _unable("fence", host.name, Ability.HOST_FENCING)

    def declare_off(self, host: HostAddress, *, timeout_s: float) -> None:
        """Tell the hypervisor that a host was switched off, if its guests can start elsewhere only afterwards.

        This is called once the management controller of the host has reported Off, and may be repeated. Most
        hypervisors need not know: the default implementation does nothing.

        Raises:
            DriverError: the hypervisor may still count the host as running.
        """
        del host, timeout_s

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """Stop every guest of this service on a host except ``kept``. The volumes of the guests are kept.

        This is called for a host that was declared off, before it accepts guests again. Its guests may run on other
        hosts by now, and nothing starts on the host during the call. The call may be repeated.

        Raises:
            DriverError: the host cannot be asked, or a guest may still run there.
        """
        for guest_uuid in {guest.uuid for guest in self._guests_there(host, timeout_s)} - set(kept):
            fence = self._records.fences.highest(guest_uuid)
            self.ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def _guests_there(self, host: HostAddress, timeout_s: float) -> Sequence[Guest]:
        """Return the guests that are on one host, including those that belong to other hosts."""
        if not (self.is_watched and self.guests_may_end):
            return [guest for guest in self.list_guests() if guest.host_uuid == host.uuid]
        (found,) = self.look_at_hosts([host], timeout_s=timeout_s)
        if isinstance(found, DriverError):
            raise found
        return found

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int:
        """Return the size of the primary storage behind a url such as ``nfs://server/path``, in bytes.

        Raises:
            DriverError: it cannot be seen.
        """
        del url, timeout_s
        raise DriverError("connect", ANY_HOST, "its driver does not see the size of pools", transient=False)

    @property
    def program(self) -> Path | None:
        """Return the program that runs custom actions, or None for a driver without them."""
        return None

    def run_custom_action(
        self, host: HostAddress | None, guest_uuid: UUID, action: CustomAction, *, fence: int, timeout_s: float
    ) -> str:
        """Run a custom action on a guest once, and return the output of the action.

        Requires Ability.CUSTOM_ACTIONS.

        ``host`` is the host that has the guest, or None if the guest does not run.

        Raises:
            DriverError: it failed, or took too long (``unanswered``).
        """
        del guest_uuid, action, fence, timeout_s
        raise _unable("custom_action", ANY_HOST if host is None else host.name, Ability.CUSTOM_ACTIONS)

    def open_console(
        self, host: HostAddress, guest_uuid: UUID, kind: ConsoleKind, *, timeout_s: float
    ) -> socket.socket:
        """Connect to the console of a guest that runs on ``host``. The caller closes the socket.

        SERIAL: the socket transfers the guest's output and input. VNC: the socket speaks the protocol of RFC 6143
        after the security handshake, which the driver has done, so the client's ClientInit is next. Requires
        Ability.VNC_CONSOLE or Ability.SERIAL_CONSOLE.

        Raises:
            DriverError: the guest does not run there, has no such console, or it cannot be reached.
        """
        del guest_uuid, timeout_s
        raise _unable("console", host.name, CONSOLES[kind])

    def look_at_storage(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[StorageUnit] | DriverError]:
        """Return the storage units of each host, or an error, in order.

        HOSTS_AT_ONCE hosts are queried at a time.
        """
        return call_each(hosts, lambda host: self.units_of_host(host, timeout_s=timeout_s))

    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        """Return the storage units of a host without changing anything. Ability.STORAGE_UNITS.

        Raises:
            DriverError: it does not answer.
        """
        del timeout_s
        raise _unable("look", host.name, Ability.STORAGE_UNITS)

    def set_allocatable(self, host: HostAddress, unit: StorageUnit, *, allocatable: bool, timeout_s: float) -> None:
        """Allow or forbid new data on a storage unit that is no pool. Existing data is kept.

        Raises:
            DriverError: it is as it was; or the hypervisor does not stop units of this type (transient False).
        """
        del allocatable, timeout_s
        reason = f"its hypervisor cannot stop allocation on units of type {unit.unit_type}"
        raise DriverError("storage", host.name, reason, transient=False)

    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        """Repair a storage unit without its lost parts. A unit without damage is not changed.

        The caller has ensured that all data of VMs has copies elsewhere. The driver ensures this for guests that
        only the hypervisor knows. Requires Ability.STORAGE_REPAIR.

        Raises:
            DriverError: it is as it was, such as where data of other guests is nowhere else.
        """
        del unit, timeout_s
        raise _unable("storage", host.name, Ability.STORAGE_REPAIR)

    def states_of_files(
        self, host: HostAddress, paths: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, FileState]:
        """Return the checksum and mode of these files on a host, by path. Missing files are omitted.

        Requires Ability.HOST_FILES.

        Raises:
            DriverError: the host does not answer, or one cannot be read.
        """
        del paths, timeout_s
        raise _unable("files", host.name, Ability.HOST_FILES)

    def put_file(self, host: HostAddress, file: HostFile, *, timeout_s: float) -> None:
        """Write a file to a host, replacing any file with the same path. Requires Ability.HOST_FILES.

        Raises:
            DriverError: it may have the file, the one before, or none.
        """
        del file, timeout_s
        raise _unable("files", host.name, Ability.HOST_FILES)

    @abstractmethod
    def list_guests(self) -> Iterator[Guest]:
        """Return every guest there is, in no order: the truth that the audit compares rows with."""

    @abstractmethod
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """Return every volume: (uuid, pool uuid, size in bytes)."""

    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        """List every guest that can be read now, and add those that cannot to ``unseen`` with the reason.

        A key of ``unseen`` is the uuid of a host, whose guests may be missing from the list, or of a single guest.
        Drivers that query hosts one by one override this method, because here one silent host hides all hosts.
        """
        try:
            yield from self.list_guests()
        except DriverError as error:
            unseen.update((host.uuid, str(error)) for host in self._records.directory.hosts())

    def list_seen_volumes(self, unseen: dict[UUID, str]) -> Iterator[tuple[UUID, UUID, int]]:
        """List every volume that can be seen now, and add the pools to ``unseen`` that may have others.

        A key of ``unseen`` is the uuid of a pool, and the value is the reason.
        """
        try:
            yield from self.list_volumes()
        except DriverError as error:
            unseen.update((pool.uuid, str(error)) for pool in self._records.directory.pools())

    def details_of_guests(self, guests: Sequence[Guest]) -> Sequence[GuestDetails]:
        """Return the details with which these guests, as ``list_guests`` reported them, were started.

        Guests that are gone or incompletely known are omitted. The details are read only from the hypervisor,
        because the database may have less. Requires Ability.GUEST_DETAILS.

        Raises:
            DriverError: a host does not answer.
        """
        del guests
        raise _unable("look", ANY_HOST, Ability.GUEST_DETAILS)

    def close(self) -> None:  # noqa: B027 - a driver that holds nothing has nothing to give back
        """Close all connections. The driver is not used afterwards."""


def call_each(hosts: Sequence[H], call: Callable[[H], T]) -> list[T | DriverError]:
    """Return the result of a call for each of these hosts, HOSTS_AT_ONCE at a time, in their order.

    A failure does not stop the others.
    """

    def result(host: H) -> T | DriverError:
        try:
            return call(host)
        except DriverError as error:
            return error

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        return list(threads.map(result, hosts))


def _unable(step: str, host: str, ability: Ability) -> DriverError:
    return DriverError(step, host, f"its driver has no {ability}", transient=False)
