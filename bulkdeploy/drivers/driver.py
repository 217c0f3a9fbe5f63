"""The protocol of hypervisor drivers: idempotent calls, and queries (one file: one protocol, whole).

Every call is keyed by the VM's uuid and may be repeated: after a crash it is unknown whether the
first one arrived. ``fence`` is the job's lease number; a hypervisor that can check it refuses a
call with a lower fence than it has seen for that VM (a paused process that woke up too late).
docs/tutorials/drivers.md walks through an example.
"""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar
from uuid import UUID

from bulkdeploy.domain.virtual_machines.device_parameters import Device
from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.domain.virtual_machines.usage import HostUsage
from bulkdeploy.drivers.abilities import Ability
from bulkdeploy.drivers.host_files import FileState, HostFile
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.options import DriverOptions
from bulkdeploy.drivers.records import Records
from bulkdeploy.drivers.storage_units import StorageUnit

H = TypeVar("H")
T = TypeVar("T")

ANY_HOST = "any host"
"""Named in errors of calls that no single host is asked."""

NOBODY = UUID(int=0)
"""The uuid of no guest."""

HOSTS_AT_ONCE = 16
"""Hosts that ``admit_hosts`` and ``look_at_hosts`` reach at the same time."""


class PowerState(StrEnum):
    """The power state of a guest, as its hypervisor reports it."""

    RUNNING = "Running"
    STOPPED = "Stopped"


class ConsoleKind(StrEnum):
    """The kind of a guest's console."""

    VNC = "vnc"
    SERIAL = "serial"


CONSOLES = MappingProxyType({ConsoleKind.VNC: Ability.VNC_CONSOLE, ConsoleKind.SERIAL: Ability.SERIAL_CONSOLE})
"""What a driver declares that opens consoles of a kind."""


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume to make: size in bytes, the pool's uuid, and the template it starts from (root only).

    ``parameters``: those of ``HypervisorDriver.device_parameters`` that its offering or its VM says.
    ``was_made``: a guest had the volume before. A call that does not find it fails (``lost_volume``), because a new
    volume in its place would hide that its data is lost.
    ``is_preallocated``: the driver allocates all of a volume that starts empty at once, if it can.
    """

    uuid: UUID
    name: str
    size_bytes: int
    pool_uuid: UUID
    template_uuid: UUID | None = None
    was_made: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_preallocated: bool = False


@dataclass(frozen=True, slots=True)
class NicSpec:
    """A nic to plug: MAC, address (None: none), network's uuid and VLAN; what a guest is told of its network.

    ``has_requested_ip`` and ``has_requested_mac``: a caller named the address. Other addresses were chosen here; a
    cloud that chooses addresses itself may replace them.
    ``label``: what the network's physical network is called on hosts, such as a bridge's name. ``mtu`` in bytes.
    ``parameters``: as those of a volume.
    """

    uuid: UUID
    mac_address: str
    ip_address: str | None
    network_uuid: UUID
    vlan: str | None
    netmask: str | None = None
    gateway: str | None = None
    dns: tuple[str, ...] = ()
    label: str | None = None
    mtu: int | None = None
    is_default: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    has_requested_ip: bool = False
    has_requested_mac: bool = False


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """A guest as it shall be: CPU in cores and MHz a core, memory in MiB, user data base64.

    ``user_data_details``: values of the variables in its user data, to be served beside it as metadata.
    ``password``: what its image's password agent shall set; only calls that start a guest have it.
    ``host_name``: what it calls itself; None: ``name``.
    ``template_variant``: which variant of its template it is made from; None: the template says nothing of it.
    ``iso_uuid``: the ISO in its drive; None: that is empty. ``uefi``: how UEFI boots it; None: BIOS does.
    ``is_dynamically_scalable``: whether the guest may get more vCPUs and memory while it runs.
    """

    uuid: UUID
    name: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    volumes: tuple[VolumeSpec, ...]
    nics: tuple[NicSpec, ...]
    user_data: str | None = field(default=None, repr=False)
    user_data_details: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    public_keys: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    host_name: str | None = None
    template_variant: str | None = None
    iso_uuid: UUID | None = None
    uefi: BootMode | None = None
    is_dynamically_scalable: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotSpec:
    """A snapshot of a guest: of all its volumes at one moment, and ``with_memory`` of its memory at that moment.

    ``volume_uuid``: of this one of its volumes alone, without memory; None: of all.
    """

    uuid: UUID
    with_memory: bool
    volume_uuid: UUID | None = None

    def volumes_of(self, guest: GuestSpec) -> tuple[VolumeSpec, ...]:
        """Return the volumes that it is of."""
        return tuple(volume for volume in guest.volumes if self.volume_uuid in (None, volume.uuid))


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest as the hypervisor has it; ``nic_uuids`` None: it does not know its nics by their uuids.

    ``iso_uuid``: the ISO in its drive; None: it has none, or the hypervisor does not know. ``has_crashed``: its
    process or its host died without a shutdown or power-off; False also if the hypervisor does not record it.
    """

    uuid: UUID
    host_uuid: UUID
    power: PowerState
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    volume_uuids: frozenset[UUID] = field(default_factory=frozenset)
    nic_uuids: frozenset[UUID] | None = None
    iso_uuid: UUID | None = None
    has_crashed: bool = False


@dataclass(frozen=True, slots=True)
class GuestNic:
    """A nic as a hypervisor has it; ``network_uuid``, ``ip_address`` None: it does not know, or there is none."""

    uuid: UUID
    mac_address: str
    network_uuid: UUID | None
    ip_address: str | None


@dataclass(frozen=True, slots=True)
class GuestDetails:
    """The details with which a guest was started, beyond ``Guest``.

    Volumes and nics in order, the root volume first.

    ``template_uuid``: what its root volume started from; None: the hypervisor does not know.
    """

    uuid: UUID
    name: str
    template_uuid: UUID | None
    volume_uuids: tuple[UUID, ...]
    nics: tuple[GuestNic, ...]


@dataclass(frozen=True, slots=True)
class CustomAction:
    """A run of a custom action: its name, the values of its parameters as JSON, and its details."""

    name: str
    parameters: Mapping[str, Any] = field(repr=False, hash=False)
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


class DriverError(Exception):
    """A call that failed, with what an operator needs to act on it.

    Attributes:
        step: what the hypervisor was doing: ``connect``, ``volume``, ``network``, ``boot``, ``stop``, ``delete``,
            ``migrate``, ``scale``, ``devices``, ``filter``, ``resize``, ``snapshot``, ``revert``, ``console``...
        host: the host's name.
        reason: what the hypervisor said.
        transient: True when the same call may succeed on the same host later. A start that fails, for good or
            not, is tried on other hosts unless it is pinned.
        unanswered: True when the hypervisor may have done it all the same.
        on_any_host: True when every other host would reject the call for the same reason. The VM is not tried on
            other hosts then.
    """

    def __init__(
        self,
        step: str,
        host: str,
        reason: str,
        *,
        transient: bool,
        unanswered: bool = False,
        on_any_host: bool = False,
    ) -> None:
        self.step, self.host, self.reason = step, host, reason
        self.transient, self.unanswered, self.on_any_host = transient, unanswered, on_any_host
        super().__init__(f"{step} failed on host {host}: {reason}")

    @property
    def may_pass(self) -> bool:
        """True when the same call may succeed later, or has done so already."""
        return self.transient or self.unanswered

    def at(self, host: str) -> "DriverError":
        """Return the same error, at another host: of a batch that failed as a whole each call fails at its own."""
        return self._copy(host, self.reason)

    def reported(self, reason: str) -> "DriverError":
        """Return the same error, in other words."""
        return self._copy(self.host, reason)

    def _copy(self, host: str, reason: str) -> "DriverError":
        return type(self)(
            self.step,
            host,
            reason,
            transient=self.transient,
            unanswered=self.unanswered,
            on_any_host=self.on_any_host,
        )


class StaleFence(DriverError):
    """The hypervisor has seen a higher fence for this guest: the caller has lost its lease."""


def lost_volume(step: str, host: str, volume: VolumeSpec) -> DriverError:
    """Return the error of a call that does not find a volume which a guest had before."""
    reason = (
        f"the hypervisor does not have volume {volume.uuid} ({volume.name}) any more, and a start makes no new"
        " volume in its place. restoreVirtualMachine makes a root disk anew from its template; a data volume comes"
        " from a backup, or detachVolume takes it from the VM"
    )
    return DriverError(step, host, reason, transient=False)


def refuse_lost_volumes(step: str, host: str, guest: GuestSpec) -> None:
    """Raise ``lost_volume`` for a guest of which the hypervisor has nothing, unless all its volumes are new."""
    for volume in guest.volumes:
        if volume.was_made:
            raise lost_volume(step, host, volume)


class HostDrained(DriverError):
    """A look at a host that answers, and that its hypervisor keeps for the guests it has: it takes no new ones."""


class HypervisorDriver(ABC):
    """The driver of one hypervisor type; a driver is a subclass. Objects are shared between threads.

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
        """Given what the service remembers for it, once, before the first call."""
        self._records = records

    @abstractmethod
    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Reach a machine, know it by its uuid from now on, and say what it has. A known one is asked anew.

        Raises:
            DriverError: nothing that can hold guests answers there.
        """

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """``admit_host`` for each of these, HOSTS_AT_ONCE at a time; what came of each, in their order.

        Each may take ``timeout_s`` for itself; one that fails stops no other.
        """
        return call_each(hosts, lambda host: self.admit_host(host, timeout_s=timeout_s))

    def guests_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[Guest]:
        """Return the guests of one host, for ``look_at_hosts``, unless that one has a shorter way.

        Raises:
            DriverError: it does not answer; guests may run on it all the same.
        """
        del timeout_s
        raise DriverError("look", host.name, "its driver does not watch hosts", transient=False)

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """``guests_of_host`` for each of these, HOSTS_AT_ONCE at a time; what came of each, in their order.

        An error says that a host does not answer; HostDrained, that it does, and takes no new guests.

        Raises:
            DriverError: no host could be asked, for a reason that is not the hosts'.
        """
        return call_each(hosts, lambda host: self.guests_of_host(host, timeout_s=timeout_s))

    def memory_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> Mapping[UUID, int]:
        """Return the MiB that the service's guests may have now on hosts where this changes by itself.

        As ``HostModel.memory_mib`` says it when a host is added; hosts whose memory stays, or is not known now, are
        left out.

        Raises:
            DriverError: it is not known of any.
        """
        del hosts, timeout_s
        return {}

    def usage_of_host(self, host: HostAddress, *, timeout_s: float) -> HostUsage:
        """Return what a host has used, for ``usage_of_hosts`` unless the driver overrides that.

        Raises:
            DriverError: the host does not answer.
        """
        del timeout_s
        raise DriverError("usage", host.name, "its driver measures no usage", transient=False)

    def usage_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[HostUsage | DriverError]:
        """Return what each of these hosts has used, or the error of a host that does not answer, in their order.

        Raises:
            DriverError: no host could be asked, for a reason that is not the hosts'.
        """
        return call_each(hosts, lambda host: self.usage_of_host(host, timeout_s=timeout_s))

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """Return guests of these hosts that are said to have ended since the last call; answers at once.

        A hint, for who watches hosts often: some may be missing, and some may run. A hypervisor that tells nothing
        by itself has none.
        """
        del hosts
        return frozenset()

    def ensure_template(  # noqa: B027 - others have their templates themselves
        self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float
    ) -> None:
        """Ensure that a pool which ``host`` reaches has a template for volumes, or an ISO for drives.

        Called before each start, and before a running guest gets an ISO.

        It takes as long as fetching an image does, once for each pool; having it is fine.

        Raises:
            DriverError: the pool does not have it.
        """

    @abstractmethod
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Make ``guest`` exist and run on ``host``: volumes, nics, boot. Volumes that are smaller than asked grow.

        Raises:
            DriverError: it does not run; parts of it may exist, ``ensure_absent`` removes them. Also when
                the guest runs on another host: it is never made twice. Also when a volume with ``was_made`` is not
                there: it is never made anew.
        """

    @abstractmethod
    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Make the guest not run; its definition leaves the host, its volumes stay. Absent is fine.

        Raises:
            DriverError: it may still run; ``power_of`` tells.
        """

    def find_guest(self, guest_uuid: UUID) -> Sequence[Guest]:
        """Return all there is of one guest, on whichever hosts. One that runs twice is there twice.

        Raises:
            DriverError: a host could not be asked, so that it may be there as well.
        """
        return [guest for guest in self.list_guests() if guest.uuid == guest_uuid]

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Make a guest that belongs elsewhere not be on this host: its power is cut. What it has stays.

        Absent is fine.

        Raises:
            DriverError: it may still run here.
        """
        del guest_uuid, fence, timeout_s
        raise DriverError("stop", host.name, "its driver can not end copies of guests", transient=False)

    @abstractmethod
    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest of this host.

        None: it is absent, and no call with a lower fence brings it back.

        One that is not there may start on another host.

        Raises:
            DriverError: it can not be seen now; or it is on another host.
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
        """Make neither the guest nor these volumes exist; ``host`` None: wherever they are.

        Raises:
            DriverError: something may be left.
        """

    @abstractmethod
    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Make a volume that no VM has not exist in this pool. Absent is fine.

        Raises:
            DriverError: it may be left; a guest that was not stopped since may still use it.
        """

    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Make a guest that runs on ``source`` run on ``destination``, without a break; there already is fine.

        Called with the hosts exchanged it undoes a move that may have got anywhere.
        Ability.LIVE_MIGRATION.

        Raises:
            DriverError: it runs on one of the two, on whichever it was; or on neither, then it is not moved
                (transient False).
        """
        del source, guest, fence, timeout_s
        raise _unable("migrate", destination.name, Ability.LIVE_MIGRATION)

    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Give a guest that runs on ``host`` the CPU and memory of ``guest``, while it runs; having them is fine.

        Ability.LIVE_SCALING.

        Raises:
            DriverError: it has these or its old sizes; or it does not run there (transient False).
        """
        del guest, fence, timeout_s
        raise _unable("scale", host.name, Ability.LIVE_SCALING)

    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Give a guest that runs on ``host`` the volumes and nics of ``guest``, and no others, while it runs.

        Volumes that do not exist are made, those that it gets and that are smaller than asked grow, and those that
        it loses stay on their pools. Having them is fine. Called
        with those it had before it undoes a change that may have got anywhere.
        Its drive is none of this call's. Ability.HOT_PLUG_VOLUMES, Ability.HOT_PLUG_NICS.

        Raises:
            DriverError: it has these, those it had before or some of both, and volumes may have been made; or it
                does not run there (transient False).
        """
        del guest, fence, timeout_s
        raise _unable("devices", host.name, Ability.HOT_PLUG_VOLUMES)

    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Put the ISO of ``guest`` into the drive of a guest that runs on ``host``, or empty it.

        Called with what the drive had before it undoes a change that may have got anywhere. A guest without a drive
        has an empty one. Ability.ISOS.

        Raises:
            DriverError: the drive has this or what it had before; or there is no drive, or the guest does not run
                there (transient False).
        """
        del guest, fence, timeout_s
        raise _unable("devices", host.name, Ability.ISOS)

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Give guests that run on ``host`` the rules of their security groups (``Records.security_rules``).

        A start, and a migration, does so by itself: this is for rules that change while guests run. Traffic that
        they no longer let through ends. Guests that do not run there are left out. Ability.SECURITY_GROUPS.

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
        """Resize a volume of a guest to that of ``volume``; repeating it is harmless. An absent one stays absent.

        Larger, the guest, which runs on ``host``, sees it at once. Smaller, the guest does not run (``host``
        None), and what lay beyond is lost.
        Ability.RESIZE_VOLUMES, Ability.SHRINK_VOLUMES.

        Raises:
            DriverError: it has this size or the one before, which ``size_of`` tells; or the guest does not run
                where it must, or runs where it must not (transient False).
        """
        del guest_uuid, volume, fence, timeout_s
        raise _unable("resize", ANY_HOST if host is None else host.name, Ability.RESIZE_VOLUMES)

    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """Return the size in bytes that a volume of a guest really has; None: it is not there.

        No ``ensure_resized`` with a lower fence changes it afterwards.
        Ability.RESIZE_VOLUMES.

        Raises:
            DriverError: it can not be seen now.
        """
        del guest_uuid, volume, fence, timeout_s
        raise _unable("look", ANY_HOST, Ability.RESIZE_VOLUMES)

    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Take a snapshot of a guest that runs on ``host``, or, where that is None, of one that does not run.

        Having it is fine: it is of the moment at which one of the calls ended. While a guest has snapshots nobody
        asks for other volumes, nics or sizes of it; it starts, stops and moves as any other.
        Ability.SNAPSHOTS while it does not run; Ability.MEMORY_SNAPSHOTS, Ability.LIVE_SNAPSHOTS while it runs,
        with its memory and without; Ability.VOLUME_SNAPSHOTS of one volume.

        Raises:
            DriverError: there may be parts of it, which ``ensure_snapshot_absent`` removes; or the guest does not
                run where it must, or runs where it must not (transient False).
        """
        del guest, snapshot, fence, timeout_s
        raise _unable("snapshot", ANY_HOST if host is None else host.name, Ability.SNAPSHOTS)

    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Make a guest what it was when a snapshot of it was taken. What it has since is lost; snapshots stay.

        Of one volume: that volume. Others stay as they are.

        With memory the guest runs on ``host`` and goes on from that moment; without, ``host`` is None, and the
        guest does not run. Ability.SNAPSHOTS; of one volume Ability.VOLUME_SNAPSHOTS.

        Raises:
            DriverError: its volumes are what they were in the snapshot, before the call, or some of both, and one
                that ran may run no more; or there is no such snapshot (transient False).
        """
        del guest, snapshot, fence, timeout_s
        raise _unable("revert", ANY_HOST if host is None else host.name, Ability.SNAPSHOTS)

    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Remove a snapshot of a guest that runs on ``host`` (None: does not run). Absent is fine.

        The guest, and its other snapshots, are as before. Ability.SNAPSHOTS; of one volume
        Ability.VOLUME_SNAPSHOTS.

        Raises:
            DriverError: parts of it may be left.
        """
        del guest, snapshot, fence, timeout_s
        raise _unable("delete_snapshot", ANY_HOST if host is None else host.name, Ability.SNAPSHOTS)

    def ensure_template_made(
        self, guest: GuestSpec, volume: VolumeSpec, template_uuid: UUID, *, fence: int, timeout_s: float
    ) -> None:
        """Copy a volume of a guest that does not run into a template, in the volume's pool. Having it is fine.

        Then ``ensure_template`` and ``ensure_running`` take the template as any other. The volume is as before.
        Ability.VOLUME_TEMPLATES.

        Raises:
            DriverError: parts of the template may be left, which the next call replaces; or the guest runs, or it
                has no such volume (transient False).
        """
        del guest, volume, template_uuid, fence, timeout_s
        raise _unable("template", ANY_HOST, Ability.VOLUME_TEMPLATES)

    def ensure_overcommit(
        self, host_uuids: Sequence[UUID], cpu_overcommit: Decimal, memory_overcommit: Decimal, *, timeout_s: float
    ) -> None:
        """Set the over-commit of these hosts' CPU and memory; what runs goes on, even if it is more.

        Hosts that it does not know are left out. A hypervisor without such a bound has nothing to do.

        Raises:
            DriverError: some may still promise what they did.
        """
        del host_uuids, cpu_overcommit, memory_overcommit, timeout_s

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool | None:
        """Return whether a host itself answers, or None if its hypervisor cannot tell.

        The host is asked for a guest that does not exist. A driver of a cluster that answers for its members
        overrides this method: the cluster's answer says nothing about the member.
        """
        try:
            self.power_of(host, NOBODY, fence=0, timeout_s=timeout_s)
        except DriverError:
            return False
        return True

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str | None:
        """Return a text that changes whenever guests of ``host`` write to volumes, or None if that cannot be seen.

        ``host`` does not answer: ``other``, which has the same shared pools, looks at the volumes, each of which is
        named by its pool and its own uuid. Equal texts of two calls mean that nothing was written in between.

        Raises:
            DriverError: ``other`` could not look.
        """
        del host, other, volumes, timeout_s
        return None

    def ensure_fenced(self, host: HostAddress, *, timeout_s: float) -> None:
        """Make nothing run on a host, whether it answers or not, and nothing start there until it is admitted anew.

        What its guests have on shared pools stays. Ability.HOST_FENCING.

        Raises:
            DriverError: guests may still run there.
        """
        del timeout_s
        raise _unable("fence", host.name, Ability.HOST_FENCING)

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """End every guest of ours on a host except ``kept``; the guests' volumes stay.

        Called for a host that was declared off, before it takes guests again. Its guests may run elsewhere
        by now, and nothing starts on the host during the call. The call may be repeated.

        Raises:
            DriverError: the host cannot be asked, or a guest may still run there.
        """
        for guest_uuid in {guest.uuid for guest in self._guests_there(host, timeout_s)} - set(kept):
            fence = self._records.fences.highest(guest_uuid)
            self.ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def _guests_there(self, host: HostAddress, timeout_s: float) -> Sequence[Guest]:
        """Return the guests of one host, whichever host they belong to."""
        if not (self.is_watched and self.guests_may_end):
            return [guest for guest in self.list_guests() if guest.host_uuid == host.uuid]
        (found,) = self.look_at_hosts([host], timeout_s=timeout_s)
        if isinstance(found, DriverError):
            raise found
        return found

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int:
        """Return the size of the primary storage behind a url such as ``nfs://server/path``, in bytes.

        Raises:
            DriverError: it can not be seen.
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
        """Run a custom action on a guest once, and return what the action printed. Ability.CUSTOM_ACTIONS.

        ``host``: the host that has the guest; None: the guest does not run.

        Raises:
            DriverError: it failed, or took too long (``unanswered``).
        """
        del guest_uuid, action, fence, timeout_s
        raise _unable("custom_action", ANY_HOST if host is None else host.name, Ability.CUSTOM_ACTIONS)

    def open_console(
        self, host: HostAddress, guest_uuid: UUID, kind: ConsoleKind, *, timeout_s: float
    ) -> socket.socket:
        """Connect to the console of a guest that runs on ``host``; the caller closes the socket.

        SERIAL: what comes is what the guest writes, and it reads what is sent. VNC: the protocol of RFC 6143 behind
        its security handshake, which the driver has gone through: the client's ClientInit comes next.
        Ability.VNC_CONSOLE, Ability.SERIAL_CONSOLE.

        Raises:
            DriverError: the guest does not run there, has no such console, or it can not be reached.
        """
        del guest_uuid, timeout_s
        raise _unable("console", host.name, CONSOLES[kind])

    def look_at_storage(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[StorageUnit] | DriverError]:
        """``units_of_host`` for each of these, HOSTS_AT_ONCE at a time; what came of each, in their order."""
        return call_each(hosts, lambda host: self.units_of_host(host, timeout_s=timeout_s))

    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        """Return the storage units of a host without changing anything. Ability.STORAGE_UNITS.

        Raises:
            DriverError: it does not answer.
        """
        del timeout_s
        raise _unable("look", host.name, Ability.STORAGE_UNITS)

    def set_allocatable(self, host: HostAddress, unit: StorageUnit, *, allocatable: bool, timeout_s: float) -> None:
        """Let the hypervisor put new data on a unit that is no pool, or not; what is there stays.

        Raises:
            DriverError: it is as it was; or the hypervisor does not stop units of this type (transient False).
        """
        del allocatable, timeout_s
        reason = f"its hypervisor can not stop allocation on units of type {unit.unit_type}"
        raise DriverError("storage", host.name, reason, transient=False)

    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        """Make a unit whole again, without what was lost; one that is whole stays so. Ability.STORAGE_REPAIR.

        Who calls has seen to it that all data of VMs is elsewhere as well; of guests that only the hypervisor knows
        the driver sees to it.

        Raises:
            DriverError: it is as it was, such as where data of other guests is nowhere else.
        """
        del unit, timeout_s
        raise _unable("storage", host.name, Ability.STORAGE_REPAIR)

    def states_of_files(
        self, host: HostAddress, paths: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, FileState]:
        """Checksum and mode of these files on a host, by path; those that are not there are left out.

        Ability.HOST_FILES.

        Raises:
            DriverError: the host does not answer, or one can not be read.
        """
        del paths, timeout_s
        raise _unable("files", host.name, Ability.HOST_FILES)

    def put_file(self, host: HostAddress, file: HostFile, *, timeout_s: float) -> None:
        """Make a host have a file, in place of what is there under its path. Ability.HOST_FILES.

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
        """List every guest that can be seen now, and add to ``unseen`` what cannot, with the reason.

        A key of ``unseen`` is the uuid of a host, whose guests may be missing from the list, or of a single guest.
        Drivers that ask hosts one by one override this: here one silent host hides all hosts.
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

        Those that are gone, or of which not all is known, are left out. Nothing but the hypervisor is asked: the
        database may know less than it does. Ability.GUEST_DETAILS.

        Raises:
            DriverError: a host does not answer.
        """
        del guests
        raise _unable("look", ANY_HOST, Ability.GUEST_DETAILS)

    def close(self) -> None:  # noqa: B027 - a driver that holds nothing has nothing to give back
        """Give back connections; the driver is not used afterwards."""


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
