"""The driver for KVM hosts with libvirt and no agent (one file: one class, a method for each call of drivers).

Persistent definitions are the lock (docs/adr/0024-fences-for-drivers.md): a start records the fence, defines the
guest, checks the fence again and creates the guest. A removal records the fence, undefines the guest, and only then
ends it.
"""

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Self, TypeVar
from urllib.parse import urldefrag, urlsplit
from uuid import UUID

from typing_extensions import override

from bulkdeploy.domain.infrastructure.storage_urls import RBD, read_storage_url
from bulkdeploy.domain.virtual_machines.device_parameters import CACHE, RATES, Device
from bulkdeploy.domain.virtual_machines.usage import HostUsage, PoolUsage
from bulkdeploy.drivers.abilities.consoles import SerialConsoles, VncConsoles
from bulkdeploy.drivers.abilities.details import DescribedGuests, GuestDetails
from bulkdeploy.drivers.abilities.devices import HotPlugNics, HotPlugVolumes
from bulkdeploy.drivers.abilities.guest_agents import GuestAgents
from bulkdeploy.drivers.abilities.host_files import FileState, HostFile, HostFiles
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes, ShrinkingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.security_groups import SecurityGroupFilters
from bulkdeploy.drivers.abilities.snapshots import (
    LiveSnapshots,
    MemorySnapshots,
    SnapshotSpec,
    VolumeSnapshots,
)
from bulkdeploy.drivers.abilities.starts import GuestPasswords, UefiFirmware
from bulkdeploy.drivers.abilities.storage_units import StorageUnit, StorageUnits
from bulkdeploy.drivers.abilities.usage import UsageFigures
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.driver import HypervisorDriver, answers_of_ports
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, StaleFence
from bulkdeploy.drivers.exchanges.parallel_calls import HOSTS_AT_ONCE, call_each
from bulkdeploy.drivers.guests import Guest, GuestCheck, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.libvirt import snapshots
from bulkdeploy.drivers.libvirt.calls import (
    GuestCalls,
    affected,
    find_domain,
    is_running,
    running_guest,
    suppress_gone,
    undefine,
)
from bulkdeploy.drivers.libvirt.ceph import CephPool, PoolSizes
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, Links, in_time
from bulkdeploy.drivers.libvirt.console import open_screen, open_serial
from bulkdeploy.drivers.libvirt.devices import Devices
from bulkdeploy.drivers.libvirt.disk_sources import DiskSource, FileSource
from bulkdeploy.drivers.libvirt.domain import (
    NAMESPACE,
    Disk,
    Domain,
    Screen,
    SeenDomain,
    cpu_shares,
    read_domain,
    write_domain,
    write_memory,
    write_metadata,
)
from bulkdeploy.drivers.libvirt.errors import failing_at, is_code, libvirt
from bulkdeploy.drivers.libvirt.events import GuestEvents
from bulkdeploy.drivers.libvirt.guest_snapshots import GuestSnapshots
from bulkdeploy.drivers.libvirt.hardware import Hardware, require_same_cpu
from bulkdeploy.drivers.libvirt.hosts import host_model, require_uefi
from bulkdeploy.drivers.libvirt.networks.filters import (
    filter_name,
)
from bulkdeploy.drivers.libvirt.networks.networks import Networks
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.qemu_monitor import LONGEST_PING_S, ping_agent
from bulkdeploy.drivers.libvirt.seed import make_seed
from bulkdeploy.drivers.libvirt.storage.files import read_states, remove_rotated, write_file
from bulkdeploy.drivers.libvirt.storage.images import ensure_copy
from bulkdeploy.drivers.libvirt.storage.pools import is_ceph, is_usable
from bulkdeploy.drivers.libvirt.storage.storage import (
    nvram_name,
    seed_name,
    target_path,
    template_of_copy,
)
from bulkdeploy.drivers.libvirt.storage.storage_units import units_of
from bulkdeploy.drivers.libvirt.usage import read_usage
from bulkdeploy.drivers.libvirt.volumes import Volumes
from bulkdeploy.drivers.records import FencedGuest, Pool, Records
from bulkdeploy.drivers.vnc import new_password

T = TypeVar("T")

CEPH_UNIT = "ceph"
"""The type of the storage unit for a Ceph pool."""

LISTING_S = 60.0
"""The time limit for listing the guests of one host, or the volumes of one pool, in seconds."""

LOOKS_S = 0.1
MOVE = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
)
NVRAM = "nvram"
"""The key of a guest's stored details which shows that its firmware has variables (``Fences.keep``)."""

LOG_S = 5.0
"""The time for which a removal waits for a host that only has a log of the guest, in seconds."""

CONSOLE_LOGS = "console_logs"
"""The key of a guest's stored details for the logs of its serial console: their paths by host uuid."""


class LibvirtDriver(
    DataVolumes,
    LiveMigration,
    LiveScaling,
    HotPlugVolumes,
    HotPlugNics,
    IsoDrives,
    UefiFirmware,
    GrowingVolumes,
    ShrinkingVolumes,
    GuestPasswords,
    UsageFigures,
    GuestAgents,
    VncConsoles,
    SerialConsoles,
    SecurityGroupFilters,
    DescribedGuests,
    MemorySnapshots,
    LiveSnapshots,
    VolumeSnapshots,
    StorageUnits,
    HostFiles,
    HypervisorDriver,
):
    """The driver for libvirt hosts.

    The object contains only connections; all state is in the service's records.
    """

    options_model = LibvirtOptions
    device_parameters = MappingProxyType({Device.DISK: frozenset({CACHE, *RATES})})
    is_watched = True

    def __init__(self, options: LibvirtOptions) -> None:
        self._options = options
        self._links = Links(options)
        self._events = GuestEvents(self._links)
        self._hardware = Hardware(options)
        self._calls = GuestCalls(options, self._links)
        self._networks = Networks(self._calls)
        self._devices = Devices(self._calls, self._networks)
        self._volumes = Volumes(self._calls)
        self._snapshots = GuestSnapshots(self._calls)
        self._ceph_sizes = PoolSizes()

    @classmethod
    @override
    def from_options(cls, options: LibvirtOptions) -> Self:
        return cls(options)

    @override
    def use_records(self, records: Records) -> None:
        super().use_records(records)
        self._calls.records = records

    @override
    def close(self) -> None:
        self._events.close()
        self._links.close()

    # Hosts

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Connect to a host and return its hardware.

        The text after ``#`` in the libvirt url is the host's name.

        Raises:
            DriverError: the url is not allowed, the host does not answer, or it does not support the CPU of its
                cluster.
        """
        address = HostAddress(host.uuid, host.access.url, "", host.hypervisor, host.access.url)
        deadline = Deadline(timeout_s)
        work = partial(
            host_model, access=host.access, options=self._options, cluster_hardware=host.cluster_hardware
        )
        return self._links.run("connect", address, deadline, work)

    @override
    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        return call_each(hosts, lambda host: self._links.run("look", host, Deadline(timeout_s), _list_guests))

    @override
    def usage_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> list[HostUsage | DriverError]:
        ceph_pools = [pool for pool in self._usable_pools() if is_ceph(pool)]
        sizes = dict(
            zip([pool.uuid for pool in ceph_pools], call_each(ceph_pools, self._ceph_sizes.of), strict=True)
        )
        measured = {uuid: size for uuid, size in sizes.items() if isinstance(size, PoolUsage)}
        return call_each(hosts, lambda host: self._usage_of_host(host, measured, timeout_s))

    def _usage_of_host(self, host: HostAddress, ceph: Mapping[UUID, PoolUsage], timeout_s: float) -> HostUsage:
        pools = [
            pool for pool in self._records.directory.pools_of_host(host.uuid) if is_usable(pool, self._options)
        ]
        # Hosts of other clusters have other pools at the same path, so only pools that this host reaches are read.
        paths = {pool.uuid: target_path(pool, self._options, host.name) for pool in pools if not is_ceph(pool)}
        usage = self._links.run("usage", host, Deadline(timeout_s), partial(read_usage, pools=paths))
        reached = {pool.uuid: ceph[pool.uuid] for pool in pools if pool.uuid in ceph}
        return replace(usage, pools={**usage.pools, **reached})

    @override
    def answers_of_guests(self, checks: Sequence[GuestCheck], *, timeout_s: float) -> Mapping[UUID, bool]:
        by_host: dict[HostAddress, list[UUID]] = {}
        for check in checks:
            if check.check.port is None:
                by_host.setdefault(check.host, []).append(check.guest_uuid)

        def ping(host: HostAddress) -> Mapping[UUID, bool]:
            found: dict[UUID, bool] = {}
            work = partial(_ping_agents, uuids=by_host[host], answers=found)
            try:
                self._links.run("health", host, Deadline(timeout_s), work)
            except DriverError:
                if not found:  # the host does not answer
                    return dict.fromkeys(by_host[host], False)
            return dict(found)

        answers = answers_of_ports(checks, timeout_s=timeout_s)
        for found in call_each(list(by_host), ping):
            if not isinstance(found, DriverError):
                answers |= found
        return answers

    @override
    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        return self._events.ended(hosts)

    # Templates

    @override
    def ensure_template(self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float) -> None:
        if self._calls.find_copy(template_uuid, pool_uuid) is not None:
            return
        image = self._records.directory.template(template_uuid)
        if image is None:
            raise DriverError("template", host.name, f"there is no template {template_uuid}", transient=False)

        def ensure(call: HostCall) -> None:
            ensure_copy(call, self._calls.pool(call, pool_uuid), image, self._records)

        self._links.run("template", host, Deadline(timeout_s), ensure)

    # Guests

    @override
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        self._calls.of_guest("boot", host, guest.uuid, timeout_s, lambda call: self._start(call, guest, fence))

    def _start(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        fenced = self._calls.claim(call, "boot", guest, [volume.uuid for volume in guest.volumes], fence)
        if is_running(call, guest.uuid):
            return
        if guest.uefi is not None:
            with call.failing("boot"):
                require_uefi(call, self._options)
        self._keep_made(call, "boot", guest, fenced, fence)
        with call.failing("volume"):
            runs = partial(is_running, call, guest.uuid)
            disks = [
                self._calls.ensure_volume(call, "boot", guest.uuid, volume, fence, runs) for volume in guest.volumes
            ]
            seed, iso = self._write_seed(call, guest), self._calls.iso(call, guest)
        with call.failing("filter"):
            is_filtered = self._networks.ensure_filter(call, guest)
        self._networks.ensure_leases(call, guest)
        defined = write_domain(self._domain(call, guest, fence, disks, seed, iso, is_filtered=is_filtered))
        call.go_on("boot")
        domain = call.connection.defineXML(defined)
        try:
            self._calls.fenced(call.host, guest.uuid, fence).check_fence("boot")
        except StaleFence:
            undefine(domain)
            raise
        call.go_on("boot")
        try:
            domain.create()
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_OPERATION_INVALID):  # the guest runs already
                raise

    def _keep_made(self, call: HostCall, step: str, guest: GuestSpec, fenced: FencedGuest, fence: int) -> None:
        """Record files of a guest that are not volumes before they are created, so that a later call deletes them.

        The files are the firmware variables and the log of the serial console.
        """
        kept = dict(fenced.details)
        if guest.uefi is not None:
            kept[NVRAM] = True
        log = self._console_log(guest)
        if log is not None:
            kept[CONSOLE_LOGS] = {**kept.get(CONSOLE_LOGS, {}), str(call.host.uuid): log}
        if kept != fenced.details:
            self._calls.fenced(call.host, guest.uuid, fence).store_details(step, kept)

    def _console_log(self, guest: GuestSpec) -> str | None:
        log = self._options.console_log
        return None if log is None else log.format(name=guest.name, uuid=guest.uuid)

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop a guest with its power button.

        If the guest does not stop in time, or with ``forced``, its power is cut.
        """

        def stop(call: HostCall) -> None:
            self._calls.fenced(call.host, guest_uuid, fence).fenced_here("stop")
            self._end(call, guest_uuid, fence, patience_s=0.0 if forced else self._options.shutdown_seconds)
            self._records.fences.release(guest_uuid, fence)

        self._calls.of_guest("stop", host, guest_uuid, timeout_s, stop)

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Remove a copy of a guest from this host. The guest's own host and its claims are not changed."""

        def end(call: HostCall) -> None:
            self._calls.fenced(call.host, guest_uuid, fence).raise_fence_elsewhere("stop")
            self._end(call, guest_uuid, fence, patience_s=0.0)

        self._calls.of_guest("stop", host, guest_uuid, timeout_s, end)

    def _end(self, call: HostCall, guest_uuid: UUID, fence: int, *, patience_s: float) -> None:
        """Stop the guest on this host and delete its definition and its network filter.

        ``patience_s`` is the time for a shutdown before the power is cut, in seconds.
        """
        domain = find_domain(call, guest_uuid)
        if domain is None:
            self._networks.remove_filter(call, guest_uuid)
            return
        if patience_s and domain.isActive():
            _press_power_button(domain, min(patience_s, call.deadline.left_s() / 2))
        call.go_on("stop")
        self._calls.fenced(call.host, guest_uuid, fence).check_fence("stop")
        undefine(domain)
        with suppress_gone():
            domain.destroy()
        self._networks.remove_filter(call, guest_uuid)

    @override
    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        def look(call: HostCall) -> PowerState | None:
            fenced = self._calls.fenced(call.host, guest_uuid, fence).fenced_here("look")
            domain = find_domain(call, guest_uuid)
            if domain is None:
                if fenced.host_uuids == {host.uuid}:  # and the guest is not migrating
                    self._records.fences.release(guest_uuid, fence)
                return None
            return PowerState.RUNNING if domain.isActive() else PowerState.STOPPED

        return self._calls.of_guest("look", host, guest_uuid, timeout_s, look)

    @override
    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        deadline = Deadline(timeout_s)
        named = ANY_HOST if host is None else host.name

        def remove() -> None:
            with self._calls.turns.of(guest_uuid, "delete", named, timeout_s=deadline.left_s()):
                self._remove(host, guest_uuid, volume_uuids, fence, deadline)

        in_time("delete", named, deadline, remove)

    def _remove(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        fence: int,
        deadline: Deadline,
    ) -> None:
        fences, own = self._records.fences, self._calls.fenced(host, guest_uuid, fence)
        fenced = own.fenced_here("delete")
        hosts = [] if host is None else [host]
        if fenced.host_uuids - {
            one.uuid for one in hosts
        }:  # an interrupted migration may have left remains on both hosts
            there = [one for one in self._records.directory.hosts() if one.uuid in fenced.host_uuids]
            hosts += [one for one in there if one not in hosts]
        for one in hosts:
            self._links.call(
                "delete", one, deadline, lambda call: self._end(call, guest_uuid, fence, patience_s=0.0)
            )
        fences.release(guest_uuid, fence)
        names = [seed_name(guest_uuid)]
        if NVRAM in fenced.details:
            names.append(nvram_name(guest_uuid))
        with fences.volumes_in_use(volume_uuids) as used:
            if used:  # by another guest, or by this guest if it was started since
                raise own.error("delete", "another guest uses one of its volumes", transient=True)
            for pool in self._records.directory.pools_of_volumes(volume_uuids):
                self._volumes.remove_files(pool, host, names, volume_uuids, deadline)
        if volume_uuids:
            self._remove_console_logs(fenced, deadline)
        if fenced.details and volume_uuids:  # the files are deleted
            own.store_details("delete", {})

    def _remove_console_logs(self, fenced: FencedGuest, deadline: Deadline) -> None:
        """Delete the logs of a guest's serial console. Hosts that do not answer are skipped."""
        logs = fenced.details.get(CONSOLE_LOGS, {})
        for host in self._records.directory.hosts() if logs else ():
            if (path := logs.get(str(host.uuid))) is not None:
                patience = Deadline(min(LOG_S, deadline.left_s()))
                with suppress(DriverError):
                    self._links.run("delete", host, patience, partial(remove_rotated, path=path))

    # Changes of running guests

    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Migrate a guest live. Its volumes must be in pools that both hosts can access."""
        deadline = Deadline(timeout_s)

        def migrate() -> None:
            with ExitStack() as stack:
                turn = self._calls.turns.of(guest.uuid, "migrate", destination.name, timeout_s=deadline.left_s())
                stack.enter_context(turn)
                calls = {
                    one.uuid: stack.enter_context(self._links.link(one).borrow(one, deadline))
                    for one in sorted((source, destination), key=lambda host: host.uuid)
                }
                stack.enter_context(calls[destination.uuid].failing("migrate"))
                self._migrate(calls[source.uuid], calls[destination.uuid], guest, fence)

        in_time("migrate", destination.name, deadline, migrate)

    def _migrate(self, source: HostCall, destination: HostCall, guest: GuestSpec, fence: int) -> None:
        own = self._calls.fenced(destination.host, guest.uuid, fence)
        fenced = own.raise_fence("migrate")
        if not fenced.host_uuids <= {source.host.uuid, destination.host.uuid}:
            raise own.elsewhere("migrate")
        leaving = find_domain(source, guest.uuid)
        if leaving is None or not leaving.isActive():
            arrived = find_domain(destination, guest.uuid)
            if arrived is None or not arrived.isActive():
                raise DriverError("migrate", destination.host.name, "the guest does not run", transient=False)
        else:
            require_same_cpu(source, destination, self._options, leaving)
            for pool_uuid in {volume.pool_uuid for volume in guest.volumes}:
                self._calls.pool(destination, pool_uuid)
            own.move("migrate", source.host, destination.host)
            self._keep_made(destination, "migrate", guest, fenced, fence)
            self._networks.copy_filter(source, destination, guest.uuid)
            self._networks.ensure_leases(destination, guest)
            destination.go_on("migrate")
            snapshots.forget(leaving)
            address = destination.host.ip_address
            uri = f"tcp://[{address}]" if ":" in address else f"tcp://{address}"
            flags = MOVE | (libvirt.VIR_MIGRATE_UNSAFE if self._options.unsafe_migration else 0)
            leaving.migrate3(destination.connection, {libvirt.VIR_MIGRATE_PARAM_URI: uri}, flags)
        _remove_remains(source, guest.uuid)
        self._networks.remove_filter(source, guest.uuid)
        own.move("migrate", destination.host, None)

    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Add vCPUs and memory to a running guest, up to the limits with which the guest was started.

        Raises:
            DriverError: the new sizes are outside these limits, or the guest does not run on the host.
        """
        self._calls.of_guest("scale", host, guest.uuid, timeout_s, lambda call: self._scale(call, guest, fence))

    def _scale(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        self._calls.fenced(call.host, guest.uuid, fence).fenced_here("scale")
        domain, seen = running_guest(call, "scale", guest.uuid)
        for what, wanted, has, most in (
            ("vCPUs", guest.cpu_number, seen.cpu_number, seen.most_cpus),
            ("MiB of memory", guest.memory_mib, seen.memory_mib, seen.most_memory_mib),
        ):
            if not has <= wanted <= most:
                reason = f"the running guest can have {has} to {most} {what}, not {wanted}: stop it first"
                raise DriverError("scale", call.host.name, reason, transient=False)
        flags = affected(domain)
        if guest.memory_mib > seen.memory_mib:
            call.go_on("scale")
            domain.attachDeviceFlags(write_memory(guest.memory_mib - seen.memory_mib), flags)
        if guest.cpu_number > seen.cpu_number:
            call.go_on("scale")
            domain.setVcpusFlags(guest.cpu_number, flags)
        if not _is_session(call.host):
            _set_shares(domain, cpu_shares(guest.cpu_number, guest.cpu_mhz))
        of_ours = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        metadata = write_metadata(fence, guest.cpu_mhz, seen.template_uuid, seen.nics)
        domain.setMetadata(of_ours, metadata, "bulkdeploy", NAMESPACE, flags)

    # Snapshots

    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Attach and detach volumes and NICs of a running guest.

        Raises:
            DriverError: the guest does not run on the host, or did not release a device in time.
        """
        self._devices.ensure(host, guest, fence=fence, timeout_s=timeout_s)

    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Insert an ISO into the drive of a running guest, or eject the ISO.

        Raises:
            DriverError: the guest does not run on the host, has no drive, or did not release the old ISO in time.
        """
        self._devices.ensure_drive(host, guest, fence=fence, timeout_s=timeout_s)

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Update the network filters of running guests, and return the guests that were updated.

        If the configured network cannot be filtered, nothing is done and all guests are returned.
        """
        return self._networks.ensure_filters(host, guest_uuids, timeout_s=timeout_s)

    # Volumes and snapshots

    @override
    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        self._volumes.ensure_absent(pool_uuid, volume_uuid, timeout_s=timeout_s)

    @override
    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        self._volumes.ensure_resized(host, guest_uuid, volume, fence=fence, timeout_s=timeout_s)

    def activity_mark(
        self, host: HostAddress, other: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float
    ) -> str:
        """Return the times of the last writes to the volumes, which ``other`` reads.

        Raises:
            DriverError: ``other`` does not answer, or cannot access any of the volumes.
        """
        del host
        return self._volumes.last_writes(other, volumes, timeout_s=timeout_s)

    @override
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        return self._volumes.size_of(guest_uuid, volume, fence=fence, timeout_s=timeout_s)

    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Take a snapshot. If it includes memory, a running guest is paused until the memory is written."""
        self._snapshots.ensure(host, guest, snapshot, fence=fence, timeout_s=timeout_s)

    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Revert a guest to a snapshot. A running guest gets a new QEMU process, so open consoles are closed."""
        self._snapshots.ensure_reverted(host, guest, snapshot, fence=fence, timeout_s=timeout_s)

    @override
    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        self._snapshots.ensure_absent(host, guest, snapshot, fence=fence, timeout_s=timeout_s)

    # Consoles

    @override
    def open_vnc_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        def screen(call: HostCall) -> socket.socket:
            return open_screen(call, running_guest(call, "console", guest_uuid)[0])

        return self._links.run("console", host, Deadline(timeout_s), screen)

    def open_serial_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        """Open the serial console of a guest. Each serial console has its own connection to the host."""

        def serial() -> socket.socket:
            with self._links.link(host).open_alone(host, Deadline(timeout_s)) as call, call.failing("console"):
                return open_serial(call.connection, running_guest(call, "console", guest_uuid)[0])

        return in_time("console", host.name, Deadline(timeout_s), serial)

    # Pools

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int:
        """Return the size of a Ceph pool in bytes.

        The URL contains the credentials for the cluster.

        Raises:
            DriverError: the pool is of another type, so that the caller must state its size, or the cluster does
                not answer.
        """
        found = read_storage_url(url)
        if found.pool_type == RBD:
            secret = found.secret
            read_secret = None if secret is None else lambda: secret
            pool = Pool(
                UUID(int=0),
                found.path,
                RBD,
                found.server,
                found.path,
                None,
                user=found.user,
                read_secret=read_secret,
            )
            with failing_at("connect", ANY_HOST):
                return CephPool(pool, lambda: timeout_s).size().total_bytes
        reason = f"capacitybytes is required: no known host can measure {url} yet"
        raise DriverError("connect", ANY_HOST, reason, transient=False)

    @override
    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        known = self._records.directory.pools_of_host(host.uuid)
        pools = [pool for pool in known if is_usable(pool, self._options)]
        files = [pool for pool in pools if not is_ceph(pool)]
        units = self._links.run(
            "look", host, Deadline(timeout_s), partial(units_of, pools=files, options=self._options)
        )
        return [*units, *(self._ceph_unit(pool) for pool in pools if is_ceph(pool))]

    def _ceph_unit(self, pool: Pool) -> StorageUnit:
        size, name = self._ceph_sizes.of(pool), f"{pool.server}{pool.path}"
        if size is None:
            return StorageUnit(CEPH_UNIT, name, 0, 0, 0, is_healthy=False, pool_uuid=pool.uuid)
        free = size.total_bytes - size.used_bytes
        return StorageUnit(CEPH_UNIT, name, size.total_bytes, size.used_bytes, free, pool_uuid=pool.uuid)

    # Files on hosts

    @override
    def states_of_files(
        self, host: HostAddress, paths: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, FileState]:
        return self._links.run("files", host, Deadline(timeout_s), partial(read_states, paths=paths))

    @override
    def put_file(self, host: HostAddress, file: HostFile, *, timeout_s: float) -> None:
        self._links.run("files", host, Deadline(timeout_s), partial(write_file, file=file))

    # Lists

    def list_guests(self) -> Iterator[Guest]:
        """List the guests of this service.

        Domains of others are omitted.

        Raises:
            DriverError: a host does not answer.
        """

        def listed(host: HostAddress) -> list[Guest]:
            return self._links.run("list", host, Deadline(LISTING_S), _list_guests)

        yield from _each(self._records.directory.hosts(), listed)

    @override
    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        hosts = self._records.directory.hosts()
        found = call_each(hosts, lambda host: self._links.run("list", host, Deadline(LISTING_S), _list_guests))
        for host, guests in zip(hosts, found, strict=True):
            if isinstance(guests, DriverError):
                unseen[host.uuid] = str(guests)
            else:
                yield from guests

    def details_of_guests(self, guests: Sequence[Guest]) -> Sequence[GuestDetails]:
        """Return the details of guests.

        The network of a NIC that was attached to a running guest is unknown.

        Raises:
            DriverError: a host does not answer.
        """
        wanted: dict[UUID, set[UUID]] = {}
        for guest in guests:
            wanted.setdefault(guest.host_uuid, set()).add(guest.uuid)

        def details(host: HostAddress) -> list[GuestDetails]:
            work = partial(_details, uuids=wanted[host.uuid])
            return self._links.run("look", host, Deadline(LISTING_S), work)

        return list(_each([host for host in self._records.directory.hosts() if host.uuid in wanted], details))

    @override
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        yield from _each(self._usable_pools(), self._volumes_of_pool)

    @override
    def list_seen_volumes(self, unseen: dict[UUID, str]) -> Iterator[tuple[UUID, UUID, int]]:
        pools = self._usable_pools()
        for pool, volumes in zip(pools, call_each(pools, self._volumes_of_pool), strict=True):
            if isinstance(volumes, DriverError):
                unseen[pool.uuid] = str(volumes)
            else:
                yield from volumes

    def _usable_pools(self) -> list[Pool]:
        return [pool for pool in self._records.directory.pools() if is_usable(pool, self._options)]

    def _volumes_of_pool(self, pool: Pool) -> list[tuple[UUID, UUID, int]]:
        def volumes(call: HostCall) -> list[tuple[UUID, UUID, int]]:
            return [(uuid, pool.uuid, size) for uuid, size in self._calls.pool(call, pool.uuid).volumes()]

        deadline = Deadline(LISTING_S)
        return in_time(
            "list", ANY_HOST, deadline, lambda: self._calls.at_any_host("list", pool.uuid, deadline, volumes)
        )

    # Parts of several calls

    def _nvram_path(self, call: HostCall, guest: GuestSpec) -> str | None:
        """Return the path of the file for the variables of a guest's firmware, or None for a guest without volumes.

        The file is beside the root volume.

        Raises:
            DriverError: the root volume is not in a pool of files.
        """
        if not guest.volumes:
            return None
        source = self._calls.pool(call, guest.volumes[0].pool_uuid).source(nvram_name(guest.uuid))
        if not isinstance(source, FileSource):
            reason = "the root volume of a guest with UEFI firmware must be in a pool of files"
            raise DriverError("boot", call.host.name, reason, transient=False)
        return source.place

    def _write_seed(self, call: HostCall, guest: GuestSpec) -> DiskSource | None:
        if not self._options.seed or not guest.volumes:
            return None
        return self._calls.pool(call, guest.volumes[0].pool_uuid).write(seed_name(guest.uuid), make_seed(guest))

    def _domain(
        self,
        call: HostCall,
        guest: GuestSpec,
        fence: int,
        disks: Sequence[Disk],
        seed: DiskSource | None,
        iso: DiskSource | None,
        *,
        is_filtered: bool,
    ) -> Domain:
        options = self._options
        hardware = self._hardware.of(call, self._records.directory)
        return Domain(
            uuid=guest.uuid,
            name=guest.name,
            fence=fence,
            kind=options.virtualization,
            machine=hardware.machine,
            growth=options.growth if guest.is_dynamically_scalable else 1,
            cpu=hardware.cpu,
            cpu_number=guest.cpu_number,
            cpu_mhz=guest.cpu_mhz,
            memory_mib=guest.memory_mib,
            shares=None if _is_session(call.host) else cpu_shares(guest.cpu_number, guest.cpu_mhz),
            disks=disks,
            interfaces=[
                self._networks.interface(nic, filter_name(guest.uuid) if is_filtered else None)
                for nic in guest.nics
            ],
            seed=seed,
            iso=iso,
            uefi=guest.uefi,
            nvram_path=None if guest.uefi is None else self._nvram_path(call, guest),
            screen=Screen(options.vnc_address, new_password()) if options.vnc_address else None,
            console_log=self._console_log(guest),
            template_uuid=guest.volumes[0].template_uuid if guest.volumes else None,
        )


def _remove_remains(call: HostCall, guest_uuid: UUID) -> None:
    """Delete the remains of a migrated guest from its source host: a definition or a paused copy."""
    domain = find_domain(call, guest_uuid)
    if domain is not None:
        undefine(domain)
        with suppress_gone():
            domain.destroy()


def _set_shares(domain: Any, shares: int) -> None:
    """Set the CPU weight of a running guest. Nothing is done on a host without the control group ``cpu``."""
    try:
        domain.setSchedulerParametersFlags({"cpu_shares": shares}, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_OPERATION_INVALID):
            raise


def _press_power_button(domain: Any, patience_s: float) -> None:
    """Request a shutdown from the guest, and wait until it is off, at most ``patience_s`` seconds."""
    ends = time.monotonic() + patience_s
    with suppress(libvirt.libvirtError):  # a guest that hangs or is paused is switched off afterwards
        domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
        while domain.isActive() and time.monotonic() < ends:
            time.sleep(LOOKS_S)


def _is_session(host: HostAddress) -> bool:
    """Return whether a host's daemon runs for an ordinary user, who has no control groups."""
    return urlsplit(urldefrag(host.url or "").url).path == "/session"


def _list_guests(call: HostCall) -> list[Guest]:
    guests = []
    for domain in call.connection.listAllDomains():
        with suppress_gone():
            power = PowerState.RUNNING if domain.isActive() else PowerState.STOPPED
            seen = read_domain(domain.XMLDesc())
            if seen is not None:
                guests.append(_guest(call, seen, power, has_crashed=_has_crashed(domain)))
    return guests


def _details(call: HostCall, uuids: Collection[UUID]) -> list[GuestDetails]:
    found = []
    for uuid in uuids:
        domain = find_domain(call, uuid)
        if domain is None:
            continue
        with suppress_gone():
            seen = read_domain(domain.XMLDesc())
            if seen is not None:
                found.append(GuestDetails(seen.uuid, seen.name, seen.template_uuid, tuple(seen.disks), seen.nics))
    return found


def _ping_agents(call: HostCall, uuids: Sequence[UUID], answers: dict[UUID, bool]) -> None:
    """Write to ``answers`` for each of these guests whether its agent answers.

    Guests for which no time is left are omitted. A guest's value is False while its agent is queried, so the
    results of other guests remain valid if the call is abandoned at that moment.
    """
    for uuid in uuids:
        if call.deadline.left_s() < LONGEST_PING_S:
            break
        answers[uuid] = False
        domain = find_domain(call, uuid)
        answers[uuid] = domain is not None and ping_agent(domain)


def _has_crashed(domain: libvirt.virDomain) -> bool:
    """Return True if a domain is off because its process, its host or its daemon ended unexpectedly.

    After a reset of the host, the reason is UNKNOWN, because libvirt stores the state of running domains in memory
    only.
    """
    state, reason = domain.state()
    return state == libvirt.VIR_DOMAIN_SHUTOFF and reason in {
        libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN,
        libvirt.VIR_DOMAIN_SHUTOFF_CRASHED,
        libvirt.VIR_DOMAIN_SHUTOFF_FAILED,
        libvirt.VIR_DOMAIN_SHUTOFF_DAEMON,
    }


def _guest(call: HostCall, seen: SeenDomain, power: PowerState, *, has_crashed: bool) -> Guest:
    return Guest(
        seen.uuid,
        call.host.uuid,
        power,
        seen.cpu_number,
        seen.cpu_mhz,
        seen.memory_mib,
        frozenset(seen.disks),
        frozenset(nic.uuid for nic in seen.nics),
        None if seen.iso_place is None else template_of_copy(seen.iso_place),
        has_crashed,
    )


K = TypeVar("K")


def _each(subjects: Sequence[K], listed: Callable[[K], list[T]]) -> Iterator[T]:
    """Call ``listed`` for each subject, several at a time, and yield the items of all lists.

    If a call fails, its error is raised and no further item is yielded.
    """
    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        for found in threads.map(listed, subjects):
            yield from found


DRIVER = LibvirtDriver
