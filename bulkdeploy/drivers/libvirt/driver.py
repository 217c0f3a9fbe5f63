"""KVM hosts with libvirt, nothing else on them (one file: one class, a method for each call of drivers).

Persistent definitions are the lock (docs/adr/0024-fences-for-drivers.md): a start raises the fence, defines, looks
at the fence again and creates; a removal raises the fence, undefines, and only then ends the guest.
"""

import ipaddress
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import urldefrag, urlsplit
from uuid import UUID

from bulkdeploy.domain.security_group_rules import Rule
from bulkdeploy.drivers.abilities import Ability
from bulkdeploy.drivers.driver import (
    ANY_HOST,
    HOSTS_AT_ONCE,
    ConsoleKind,
    DriverError,
    Guest,
    GuestDetails,
    GuestSpec,
    HypervisorDriver,
    NicSpec,
    PowerState,
    SnapshotSpec,
    StaleFence,
    VolumeSpec,
)
from bulkdeploy.drivers.host_files import FileState, HostFile
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.libvirt import snapshots
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, Links, in_time
from bulkdeploy.drivers.libvirt.console import open_screen, open_serial
from bulkdeploy.drivers.libvirt.domain import (
    NAMESPACE,
    Disk,
    Domain,
    Interface,
    Screen,
    SeenDomain,
    cpu_shares,
    read_domain,
    target_name,
    write_disk,
    write_domain,
    write_drive,
    write_interface,
    write_memory,
    write_metadata,
)
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.events import GuestEvents
from bulkdeploy.drivers.libvirt.files import read_states, write_file
from bulkdeploy.drivers.libvirt.filters import (
    GUARD,
    filter_name,
    is_guarded,
    write_filter,
)
from bulkdeploy.drivers.libvirt.hardware import Hardware, require_same_cpu
from bulkdeploy.drivers.libvirt.host_filters import define_filter, find_filter, remove_filter
from bulkdeploy.drivers.libvirt.hosts import host_model, read_url, require_uefi
from bulkdeploy.drivers.libvirt.images import ensure_copy
from bulkdeploy.drivers.libvirt.leases import ensure_lease
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.seed import make_seed
from bulkdeploy.drivers.libvirt.storage import (
    FORMATS,
    Backing,
    LibvirtPool,
    copy_name,
    nvram_name,
    pool_xml,
    seed_name,
    template_of_copy,
    volume_name,
)
from bulkdeploy.drivers.libvirt.storage_units import units_of
from bulkdeploy.drivers.records import FencedGuest, Overtaken, Pool
from bulkdeploy.drivers.storage_units import StorageUnit
from bulkdeploy.drivers.turns import Turns
from bulkdeploy.drivers.vnc import new_password

T = TypeVar("T")

LISTING_S = 60.0
"""How long one host may take to list its guests, or a pool its volumes."""

LOOKS_S = 0.1
UNDEFINE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
)
MOVE = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
)
SNAPSHOTS, NVRAM = "snapshots", "nvram"
"""Keys of what is kept of a guest (``Fences.keep``): its snapshots, and that it has variables of firmware."""

UNFILTERED = ("user", "openvswitch")


class LibvirtDriver(HypervisorDriver):
    """The driver. What must be remembered stands in the service's records; here are connections only."""

    options_model = LibvirtOptions
    abilities = frozenset(
        {
            Ability.DATA_VOLUMES,
            Ability.LIVE_MIGRATION,
            Ability.LIVE_SCALING,
            Ability.HOT_PLUG_VOLUMES,
            Ability.HOT_PLUG_NICS,
            Ability.ISOS,
            Ability.UEFI,
            Ability.RESIZE_VOLUMES,
            Ability.SHRINK_VOLUMES,
            Ability.GUEST_PASSWORDS,
            Ability.VNC_CONSOLE,
            Ability.SERIAL_CONSOLE,
            Ability.SECURITY_GROUPS,
            Ability.GUEST_DETAILS,
            Ability.SNAPSHOTS,
            Ability.MEMORY_SNAPSHOTS,
            Ability.LIVE_SNAPSHOTS,
            Ability.VOLUME_SNAPSHOTS,
            Ability.STORAGE_UNITS,
            Ability.HOST_FILES,
        }
    )
    is_watched = True

    def __init__(self, options: LibvirtOptions) -> None:
        self._options = options
        self._links = Links(options.connections_per_host, options.keepalive_seconds)
        self._events = GuestEvents(self._links)
        self._hardware = Hardware(options)
        self._turns = Turns()
        self._pools: dict[UUID, Pool] = {}
        self._copies: dict[tuple[UUID, UUID], Backing] = {}

    @classmethod
    def from_options(cls, options: LibvirtOptions) -> Self:
        """See HypervisorDriver."""
        return cls(options)

    def close(self) -> None:
        """See HypervisorDriver."""
        self._events.close()
        self._links.close()

    # Hosts

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """See HypervisorDriver. The url is libvirt's; what stands behind a ``#`` names the host."""
        read_url(host.access.url)
        address = HostAddress(host.uuid, host.access.url, "", host.hypervisor, host.access.url)
        deadline = Deadline(timeout_s)
        work = partial(
            host_model, access=host.access, options=self._options, cluster_hardware=host.cluster_hardware
        )
        return self._links.run("connect", address, deadline, work)

    def guests_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[Guest]:
        """See HypervisorDriver."""
        return self._links.run("look", host, Deadline(timeout_s), _list_guests)

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """See HypervisorDriver."""
        return self._events.ended(hosts)

    # Templates

    def ensure_template(self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float) -> None:
        """See HypervisorDriver."""
        if self._find_copy(template_uuid, pool_uuid) is not None:
            return
        image = self._records.directory.template(template_uuid)
        if image is None:
            raise DriverError("template", host.name, f"there is no template {template_uuid}", transient=False)

        def ensure(call: HostCall) -> None:
            ensure_copy(call, self._pool(call, pool_uuid), image, self._records.copies)

        self._links.run("template", host, Deadline(timeout_s), ensure)

    # Guests

    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver."""
        self._of_guest("boot", host, guest.uuid, timeout_s, lambda call: self._start(call, guest, fence))

    def _start(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        fenced = self._claim(call, "boot", guest, [volume.uuid for volume in guest.volumes], fence)
        domain = _find_domain(call, guest.uuid)
        if domain is not None and domain.isActive():
            return
        if guest.uefi is not None:
            with call.failing("boot"):
                require_uefi(call, self._options)
            if NVRAM not in fenced.details:
                self._keep(call, "boot", guest.uuid, {**fenced.details, NVRAM: True}, fence)
        with call.failing("volume"):
            disks = [Disk(volume.uuid, self._ensure_volume(call, volume)) for volume in guest.volumes]
            seed, iso = self._write_seed(call, guest), self._iso_path(call, guest)
        with call.failing("filter"):
            is_filtered = self._ensure_filter(call, guest)
        self._ensure_leases(call, guest)
        defined = write_domain(self._domain(call, guest, fence, disks, seed, iso, is_filtered=is_filtered))
        call.go_on("boot")
        domain = call.connection.defineXML(defined)
        try:
            self._require_highest(call, "boot", guest.uuid, fence)
        except StaleFence:
            _undefine(domain)
            raise
        call.go_on("boot")
        try:
            domain.create()
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_OPERATION_INVALID):  # it runs already
                raise

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver. Power button first, then the plug, unless it is forced."""

        def stop(call: HostCall) -> None:
            self._fenced_here(call, "stop", guest_uuid, fence)
            self._end(call, guest_uuid, fence, patience_s=0.0 if forced else self._options.shutdown_seconds)
            self._records.fences.release(guest_uuid, fence)

        self._of_guest("stop", host, guest_uuid, timeout_s, stop)

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. Where the guest belongs, and what it holds, stays as it is."""

        def end(call: HostCall) -> None:
            if call.host.uuid in self._raise_fence("stop", call.host.name, guest_uuid, fence).host_uuids:
                raise DriverError("stop", call.host.name, "the guest belongs to this host", transient=False)
            self._end(call, guest_uuid, fence, patience_s=0.0)

        self._of_guest("stop", host, guest_uuid, timeout_s, end)

    def _end(self, call: HostCall, guest_uuid: UUID, fence: int, *, patience_s: float) -> None:
        """Let the guest neither run nor be defined here."""
        domain = _find_domain(call, guest_uuid)
        if domain is None:
            self._remove_filter(call, guest_uuid)
            return
        if patience_s and domain.isActive():
            _press_power_button(domain, min(patience_s, call.deadline.left_s() / 2))
        call.go_on("stop")
        self._require_highest(call, "stop", guest_uuid, fence)
        _undefine(domain)
        with suppress_gone():
            domain.destroy()
        self._remove_filter(call, guest_uuid)

    def _require_highest(self, call: HostCall, step: str, guest_uuid: UUID, fence: int) -> None:
        if not self._records.fences.is_highest(guest_uuid, fence):
            raise StaleFence(step, call.host.name, f"fence {fence} was overtaken", transient=False)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """See HypervisorDriver."""

        def look(call: HostCall) -> PowerState | None:
            fenced = self._fenced_here(call, "look", guest_uuid, fence)
            domain = _find_domain(call, guest_uuid)
            if domain is None:
                if fenced.host_uuids == {host.uuid}:  # it does not move either
                    self._records.fences.release(guest_uuid, fence)
                return None
            return PowerState.RUNNING if domain.isActive() else PowerState.STOPPED

        return self._of_guest("look", host, guest_uuid, timeout_s, look)

    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """See HypervisorDriver."""
        deadline = Deadline(timeout_s)
        named = ANY_HOST if host is None else host.name

        def remove() -> None:
            with self._turns.of(guest_uuid, "delete", named, timeout_s=deadline.left_s()):
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
        fences, named = self._records.fences, ANY_HOST if host is None else host.name
        fenced = self._raise_fence("delete", named, guest_uuid, fence)
        if host is not None and fenced.host_uuids - {host.uuid}:
            raise _elsewhere("delete", host)
        hosts = [] if host is None else [host]
        if host is None and fenced.host_uuids:
            hosts = [one for one in self._records.directory.hosts() if one.uuid in fenced.host_uuids]
        for one in hosts:
            self._links.call(
                "delete", one, deadline, lambda call: self._end(call, guest_uuid, fence, patience_s=0.0)
            )
        fences.release(guest_uuid, fence)
        names = [seed_name(guest_uuid), *map(volume_name, volume_uuids)]
        if NVRAM in fenced.details:
            names.append(nvram_name(guest_uuid))
        with fences.volumes_in_use(volume_uuids) as used:
            if used:  # by another guest, or by this one, which was started since
                raise DriverError("delete", named, "a guest uses a volume of it", transient=True)
            for pool in self._records.directory.pools_of_volumes(volume_uuids):
                self._remove_files(pool, host, names, deadline)
        if fenced.details and volume_uuids:  # it went with the files
            with _overtaken_at("delete", named):
                fences.keep(guest_uuid, {}, fence)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """See HypervisorDriver."""
        deadline = Deadline(timeout_s)

        def remove() -> None:
            with self._records.fences.volumes_in_use([volume_uuid]) as used:
                if used:
                    reason = f"guest {used[volume_uuid]} uses volume {volume_uuid}"
                    raise DriverError("delete", ANY_HOST, reason, transient=True)
                self._remove_files(self._known_pool(pool_uuid), None, [volume_name(volume_uuid)], deadline)

        in_time("delete", ANY_HOST, deadline, remove)

    def _remove_files(self, pool: Pool, host: HostAddress | None, names: Sequence[str], deadline: Deadline) -> None:
        """Remove files from a pool, through ``host`` or, where that does not reach it, through any that does."""

        def remove(call: HostCall) -> None:
            found = self._pool(call, pool.uuid)
            for name in names:
                found.remove(name)

        if host is not None and pool.host_uuid in (None, host.uuid):
            self._links.call("delete", host, deadline, remove)
        else:
            self._at_any_host("delete", pool.uuid, deadline, remove)

    # Changes of running guests

    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver. Memory goes from host to host; volumes stay on pools that both reach."""
        deadline = Deadline(timeout_s)

        def migrate() -> None:
            with ExitStack() as stack:
                turn = self._turns.of(guest.uuid, "migrate", destination.name, timeout_s=deadline.left_s())
                stack.enter_context(turn)
                calls = {
                    one.uuid: stack.enter_context(self._links.link(one).borrow(one, deadline))
                    for one in sorted((source, destination), key=lambda host: host.uuid)
                }
                stack.enter_context(calls[destination.uuid].failing("migrate"))
                self._migrate(calls[source.uuid], calls[destination.uuid], guest, fence)

        in_time("migrate", destination.name, deadline, migrate)

    def _migrate(self, source: HostCall, destination: HostCall, guest: GuestSpec, fence: int) -> None:
        fences = self._records.fences
        fenced = self._raise_fence("migrate", destination.host.name, guest.uuid, fence)
        if not fenced.host_uuids <= {source.host.uuid, destination.host.uuid}:
            raise _elsewhere("migrate", destination.host)
        leaving = _find_domain(source, guest.uuid)
        if leaving is None or not leaving.isActive():
            arrived = _find_domain(destination, guest.uuid)
            if arrived is None or not arrived.isActive():
                raise DriverError("migrate", destination.host.name, "the guest does not run", transient=False)
        else:
            require_same_cpu(destination, self._options, leaving)
            for pool_uuid in {volume.pool_uuid for volume in guest.volumes}:
                self._pool(destination, pool_uuid)
            with _overtaken_at("migrate", destination.host.name):
                fences.move(guest.uuid, source.host.uuid, destination.host.uuid, fence)
            self._copy_filter(source, destination, guest.uuid)
            self._ensure_leases(destination, guest)
            destination.go_on("migrate")
            snapshots.forget(leaving)
            address = destination.host.ip_address
            uri = f"tcp://[{address}]" if ":" in address else f"tcp://{address}"
            flags = MOVE | (libvirt.VIR_MIGRATE_UNSAFE if self._options.unsafe_migration else 0)
            leaving.migrate3(destination.connection, {libvirt.VIR_MIGRATE_PARAM_URI: uri}, flags)
        _remove_remains(source, guest.uuid)
        self._remove_filter(source, guest.uuid)
        with _overtaken_at("migrate", destination.host.name):
            fences.move(guest.uuid, destination.host.uuid, None, fence)

    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. vCPUs and memory are plugged in, as far as the guest was started for."""
        self._of_guest("scale", host, guest.uuid, timeout_s, lambda call: self._scale(call, guest, fence))

    def _scale(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        self._fenced_here(call, "scale", guest.uuid, fence)
        domain, seen = _running(call, "scale", guest.uuid)
        for what, wanted, has, most in (
            ("vCPUs", guest.cpu_number, seen.cpu_number, seen.most_cpus),
            ("MiB of memory", guest.memory_mib, seen.memory_mib, seen.most_memory_mib),
        ):
            if not has <= wanted <= most:
                reason = (
                    f"a running guest that has {has} {what} can have {has} to {most}, not {wanted}: stop it first"
                )
                raise DriverError("scale", call.host.name, reason, transient=False)
        flags = _affected(domain)
        if guest.memory_mib > seen.memory_mib:
            call.go_on("scale")
            domain.attachDeviceFlags(write_memory(guest.memory_mib - seen.memory_mib), flags)
        if guest.cpu_number > seen.cpu_number:
            call.go_on("scale")
            domain.setVcpusFlags(guest.cpu_number, flags)
        if not _is_session(call.host):
            domain.setSchedulerParametersFlags(
                {"cpu_shares": cpu_shares(guest.cpu_number, guest.cpu_mhz)}, libvirt.VIR_DOMAIN_AFFECT_LIVE
            )
        of_ours = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        metadata = write_metadata(fence, guest.cpu_mhz, seen.template_uuid, seen.nics)
        domain.setMetadata(of_ours, metadata, "bulkdeploy", NAMESPACE, flags)

    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. A volume or nic goes when the guest lets it go; else the call fails."""
        self._of_guest(
            "devices", host, guest.uuid, timeout_s, lambda call: self._change_devices(call, guest, fence)
        )

    def _change_devices(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        self._fenced_here(call, "devices", guest.uuid, fence)
        domain, seen = _running(call, "devices", guest.uuid)
        wanted = {volume.uuid for volume in guest.volumes}
        self._claim(call, "devices", guest, wanted | seen.disks.keys(), fence)
        flags = _affected(domain)
        kept = wanted | {nic.uuid for nic in guest.nics}
        for device in seen.devices.keys() - kept:
            _detach(call, domain, device, seen.devices[device], flags)
        taken = set(seen.targets)
        for volume in guest.volumes:
            if volume.uuid not in seen.disks:
                target = next(name for name in map(target_name, range(1000)) if name not in taken)
                taken.add(target)
                with call.failing("devices"):
                    disk = Disk(volume.uuid, self._ensure_volume(call, volume))
                    _attach(call, domain, write_disk(disk, target), flags)
        is_filtered = self._can_filter and find_filter(call, guest.uuid) is not None
        self._ensure_leases(call, guest)
        for nic in guest.nics:
            if nic.uuid not in {seen_nic.uuid for seen_nic in seen.nics}:
                named = filter_name(guest.uuid) if is_filtered else None
                _attach(call, domain, write_interface(self._interface(nic, named)), flags)
        self._claim(call, "devices", guest, wanted, fence)

    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """See HypervisorDriver. An ISO goes when the guest lets it go; else the call fails."""
        self._of_guest("devices", host, guest.uuid, timeout_s, lambda call: self._change_iso(call, guest, fence))

    def _change_iso(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        self._fenced_here(call, "devices", guest.uuid, fence)
        domain, seen = _running(call, "devices", guest.uuid)
        path = self._iso_path(call, guest)
        if path == seen.iso_path:
            return
        if seen.drive is None:
            reason = "the guest was started without a drive: stop and start it"
            raise DriverError("devices", call.host.name, reason, transient=False)
        call.go_on("devices")
        domain.updateDeviceFlags(write_drive(seen.drive, path), _affected(domain))

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """See HypervisorDriver. Where the option ``network`` has no filters nothing happens."""
        if not self._can_filter:
            return guest_uuids

        def filter_guests(call: HostCall) -> list[UUID]:
            rules = self._records.security_rules.of(guest_uuids)
            filtered, errors = [], []
            for guest_uuid in guest_uuids:
                try:
                    if self._filter_again(call, guest_uuid, rules.get(guest_uuid, frozenset())):
                        filtered.append(guest_uuid)
                except DriverError as error:
                    errors.append(error)
            if errors:
                raise errors[0]
            return filtered

        return self._links.run("filter", host, Deadline(timeout_s), filter_guests)

    def _filter_again(self, call: HostCall, guest_uuid: UUID, rules: Collection[Rule]) -> bool:
        """Give a guest that has a filter these rules; False: it has none, and gets one only when it is started."""
        left_s = call.deadline.left_s()
        with self._turns.of(guest_uuid, "filter", call.host.name, timeout_s=left_s), call.failing("filter"):
            found = find_filter(call, guest_uuid)
            if found is None:
                return False
            define_filter(call, write_filter(guest_uuid, rules, guarded=is_guarded(found.XMLDesc())))
            return True

    @property
    def _can_filter(self) -> bool:
        """Libvirt's filters are for bridges."""
        return self._options.network not in UNFILTERED

    def _ensure_filter(self, call: HostCall, guest: GuestSpec) -> bool:
        """Before a start: whether the guest is in security groups, and so has a filter."""
        if not self._can_filter:
            return False
        rules = self._records.security_rules.of([guest.uuid]).get(guest.uuid)
        if rules is None:
            return False
        guarded = all(self._guarded_address(nic) is not None for nic in guest.nics)
        define_filter(call, write_filter(guest.uuid, rules, guarded=guarded))
        return True

    def _copy_filter(self, source: HostCall, destination: HostCall, guest_uuid: UUID) -> None:
        found = find_filter(source, guest_uuid) if self._can_filter else None
        if found is not None:
            define_filter(destination, found.XMLDesc())

    def _remove_filter(self, call: HostCall, guest_uuid: UUID) -> None:
        if self._can_filter:
            remove_filter(call, guest_uuid)

    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver."""

        def resize(call: HostCall) -> None:
            self._fenced_here(call, "resize", guest_uuid, fence)
            domain, seen = _running(call, "resize", guest_uuid)
            target = seen.disks.get(volume.uuid)
            if target is None:
                raise DriverError(
                    "resize", call.host.name, f"the guest has no volume {volume.uuid}", transient=False
                )
            size = domain.blockInfo(target)[0]
            if size > volume.size_bytes:
                raise DriverError("resize", call.host.name, "a running guest's volume only grows", transient=False)
            if size < volume.size_bytes:
                call.go_on("resize")
                domain.blockResize(target, volume.size_bytes, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)

        if host is not None:
            self._of_guest("resize", host, guest_uuid, timeout_s, resize)
            return
        if self._raise_fence("resize", ANY_HOST, guest_uuid, fence).host_uuids:
            raise DriverError("resize", ANY_HOST, "the guest is on a host", transient=False)
        deadline, pool = Deadline(timeout_s), volume.pool_uuid

        def resize_file() -> None:
            with self._records.fences.volumes_in_use([volume.uuid]) as used:
                if used:
                    raise DriverError("resize", ANY_HOST, "a guest uses the volume", transient=True)
                self._at_any_host("resize", pool, deadline, lambda call: self._pool(call, pool).resize(volume))

        in_time("resize", ANY_HOST, deadline, resize_file)

    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """See HypervisorDriver."""
        self._raise_fence("look", ANY_HOST, guest_uuid, fence)
        deadline, pool = Deadline(timeout_s), volume.pool_uuid

        def look(call: HostCall) -> int | None:
            return self._pool(call, pool).size_of(volume.uuid)

        return in_time("look", ANY_HOST, deadline, lambda: self._at_any_host("look", pool, deadline, look))

    # Snapshots

    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver. With memory, a guest that runs stands still until that is written."""

        def take(domain: Any, kept: Mapping[str, str | None]) -> Mapping[str, str | None]:
            definition = None
            if str(snapshot.uuid) in kept:
                return kept
            if host is None:
                snapshots.take(domain, snapshot.uuid)
            elif snapshot.with_memory:
                definition = snapshots.take_with_memory(domain, snapshot.uuid)
            else:
                volumes = [volume.uuid for volume in snapshot.volumes_of(guest)]
                snapshots.take_of_running(domain, snapshot.uuid, volumes)
            return {**kept, str(snapshot.uuid): definition}

        self._of_snapshot("snapshot", host, guest, snapshot, fence, timeout_s, take)

    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver. A guest that runs gets another process: consoles must be opened anew."""
        name = str(snapshot.uuid)
        named = ANY_HOST if host is None else host.name

        def revert(domain: Any, kept: Mapping[str, str | None]) -> Mapping[str, str | None]:
            definition = kept.get(name)
            if name not in kept or (definition is None) is not (host is None):
                reason = f"the guest has no snapshot {name} to go back to in its state"
                raise DriverError("revert", named, reason, transient=False)
            if definition is None:
                snapshots.revert(domain, snapshot.uuid)
            else:
                snapshots.revert_with_memory(domain, definition)
            return kept

        self._of_snapshot("revert", host, guest, snapshot, fence, timeout_s, revert)

    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """See HypervisorDriver."""
        name = str(snapshot.uuid)

        def remove(domain: Any, kept: Mapping[str, str | None]) -> Mapping[str, str | None]:
            if host is not None and not snapshot.with_memory:
                snapshots.remove_of_running(domain, snapshot.uuid)
            else:
                snapshots.remove(domain, snapshot.uuid, kept.get(name) if host is not None else None)
            return {other: definition for other, definition in kept.items() if other != name}

        self._of_snapshot("delete_snapshot", host, guest, snapshot, fence, timeout_s, remove)

    def _of_snapshot(
        self,
        step: str,
        host: HostAddress | None,
        guest: GuestSpec,
        snapshot: SnapshotSpec,
        fence: int,
        timeout_s: float,
        change: "SnapshotChange",
    ) -> None:
        """Change the snapshots of a guest that runs on ``host`` (None: does not run), and remember what is kept."""
        if host is None:
            self._of_stopped(step, guest, snapshot.volumes_of(guest), fence, timeout_s, change)
            return

        def work(call: HostCall) -> None:
            fenced = self._fenced_here(call, step, guest.uuid, fence)
            domain, _ = _running(call, step, guest.uuid)
            self._change_snapshots(call, step, guest, fence, fenced, domain, change)

        self._of_guest(step, host, guest.uuid, timeout_s, work)

    def _of_stopped(
        self,
        step: str,
        guest: GuestSpec,
        volumes: Sequence[VolumeSpec],
        fence: int,
        timeout_s: float,
        change: "SnapshotChange",
    ) -> None:
        """The same in these volumes of a guest that does not run, and that is not started meanwhile."""
        fenced = self._raise_fence(step, ANY_HOST, guest.uuid, fence)
        if fenced.host_uuids:
            raise DriverError(step, ANY_HOST, "the guest is on a host", transient=False)
        deadline, pools = Deadline(timeout_s), {volume.pool_uuid: None for volume in volumes}

        def work(call: HostCall) -> None:
            disks = [
                Disk(one.uuid, f"{self._pool(call, one.pool_uuid).path}/{volume_name(one.uuid)}") for one in volumes
            ]
            with (
                _settled_here(step, call.host),
                call.failing(step),
                snapshots.shut_off(call, guest.uuid, disks, self._options) as domain,
            ):
                self._change_snapshots(call, step, guest, fence, fenced, domain, change)

        def alone() -> None:
            uuids = [volume.uuid for volume in volumes]
            with (
                self._turns.of(guest.uuid, step, ANY_HOST, timeout_s=deadline.left_s()),
                self._records.fences.volumes_in_use(uuids) as used,
            ):
                if used:
                    raise DriverError(step, ANY_HOST, "a guest uses a volume of it", transient=True)
                first, *others = pools
                self._at_any_host(step, first, deadline, work, *others)

        in_time(step, ANY_HOST, deadline, alone)

    def _change_snapshots(
        self,
        call: HostCall,
        step: str,
        guest: GuestSpec,
        fence: int,
        fenced: FencedGuest,
        domain: Any,
        change: "SnapshotChange",
    ) -> None:
        kept = fenced.details.get(SNAPSHOTS, {})
        call.go_on(step)
        self._require_highest(call, step, guest.uuid, fence)
        changed = change(domain, kept)
        if changed != kept:
            self._keep(call, step, guest.uuid, {**fenced.details, SNAPSHOTS: changed}, fence)

    # Consoles

    def open_console(
        self, host: HostAddress, guest_uuid: UUID, kind: ConsoleKind, *, timeout_s: float
    ) -> socket.socket:
        """See HypervisorDriver. A serial console has a connection to the host of its own."""

        def screen(call: HostCall) -> socket.socket:
            return open_screen(call, _running(call, "console", guest_uuid)[0])

        if kind is ConsoleKind.VNC:
            return self._links.run("console", host, Deadline(timeout_s), screen)

        def serial() -> socket.socket:
            with self._links.link(host).open_alone(host, Deadline(timeout_s)) as call, call.failing("console"):
                return open_serial(call.connection, _running(call, "console", guest_uuid)[0])

        return in_time("console", host.name, Deadline(timeout_s), serial)

    # Pools

    def pool_size_bytes(self, url: str, *, timeout_s: float) -> int:
        """See HypervisorDriver. No host is named, so the size must be given."""
        del timeout_s
        reason = f"say how large {url} is (capacitybytes): no host that reaches it is known yet"
        raise DriverError("connect", ANY_HOST, reason, transient=False)

    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        """See HypervisorDriver."""
        known = self._records.directory.pools_of_host(host.uuid)
        pools = [pool for pool in known if _is_usable(pool, self._options)]
        work = partial(units_of, pools=pools, options=self._options)
        return self._links.run("look", host, Deadline(timeout_s), work)

    # Files on hosts

    def states_of_files(
        self, host: HostAddress, paths: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, FileState]:
        """See HypervisorDriver."""
        return self._links.run("files", host, Deadline(timeout_s), partial(read_states, paths=paths))

    def put_file(self, host: HostAddress, file: HostFile, *, timeout_s: float) -> None:
        """See HypervisorDriver."""
        self._links.run("files", host, Deadline(timeout_s), partial(write_file, file=file))

    # Lists

    def list_guests(self) -> Iterator[Guest]:
        """See HypervisorDriver. Other people's domains are left out."""

        def listed(host: HostAddress) -> list[Guest]:
            return self._links.run("list", host, Deadline(LISTING_S), _list_guests)

        yield from _each(self._records.directory.hosts(), listed)

    def details_of_guests(self, guests: Sequence[Guest]) -> Sequence[GuestDetails]:
        """See HypervisorDriver. Of a nic that was plugged into a running guest, the network is not known."""
        wanted: dict[UUID, set[UUID]] = {}
        for guest in guests:
            wanted.setdefault(guest.host_uuid, set()).add(guest.uuid)

        def details(host: HostAddress) -> list[GuestDetails]:
            work = partial(_details, uuids=wanted[host.uuid])
            return self._links.run("look", host, Deadline(LISTING_S), work)

        return list(_each([host for host in self._records.directory.hosts() if host.uuid in wanted], details))

    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """See HypervisorDriver."""

        def listed(pool: Pool) -> list[tuple[UUID, UUID, int]]:
            def volumes(call: HostCall) -> list[tuple[UUID, UUID, int]]:
                return [(uuid, pool.uuid, size) for uuid, size in self._pool(call, pool.uuid).volumes()]

            deadline = Deadline(LISTING_S)
            return in_time(
                "list", ANY_HOST, deadline, lambda: self._at_any_host("list", pool.uuid, deadline, volumes)
            )

        yield from _each(
            [pool for pool in self._records.directory.pools() if _is_usable(pool, self._options)], listed
        )

    # What these share

    def _of_guest(
        self, step: str, host: HostAddress, guest_uuid: UUID, timeout_s: float, work: Callable[[HostCall], T]
    ) -> T:
        """Work on one guest at one host; calls for one guest come one after the other, late ones included."""
        deadline = Deadline(timeout_s)

        def alone(call: HostCall) -> T:
            with self._turns.of(guest_uuid, step, host.name, timeout_s=deadline.left_s()):
                return work(call)

        return self._links.run(step, host, deadline, alone)

    def _raise_fence(self, step: str, host: str, guest_uuid: UUID, fence: int) -> FencedGuest:
        with _overtaken_at(step, host):
            return self._records.fences.raise_fence(guest_uuid, fence)

    def _fenced_here(self, call: HostCall, step: str, guest_uuid: UUID, fence: int) -> FencedGuest:
        """Raise the guest's fence; a guest that is on another host is not this one's."""
        fenced = self._raise_fence(step, call.host.name, guest_uuid, fence)
        if fenced.host_uuid is not None and call.host.uuid not in fenced.host_uuids:
            raise _elsewhere(step, call.host)
        return fenced

    def _claim(
        self, call: HostCall, step: str, guest: GuestSpec, volume_uuids: Sequence[UUID] | set[UUID], fence: int
    ) -> FencedGuest:
        with _overtaken_at(step, call.host.name):
            fenced, taken = self._records.fences.claim(guest.uuid, call.host.uuid, list(volume_uuids), fence)
        if fenced.host_uuids - {call.host.uuid}:
            raise _elsewhere(step, call.host)
        if taken:
            reason = f"other guests use volumes {', '.join(map(str, sorted(taken)))}"
            raise DriverError(step, call.host.name, reason, transient=False)
        return fenced

    def _keep(self, call: HostCall, step: str, guest_uuid: UUID, details: Mapping[str, Any], fence: int) -> None:
        with _overtaken_at(step, call.host.name):
            self._records.fences.keep(guest_uuid, details, fence)

    def _known_pool(self, pool_uuid: UUID) -> Pool:
        if pool_uuid not in self._pools:
            self._pools |= {pool.uuid: pool for pool in self._records.directory.pools()}
        if pool_uuid not in self._pools:
            raise DriverError("volume", ANY_HOST, f"no host reaches pool {pool_uuid}", transient=False)
        return self._pools[pool_uuid]

    def _pool(self, call: HostCall, pool_uuid: UUID) -> LibvirtPool:
        return LibvirtPool(call, self._known_pool(pool_uuid), self._options)

    def _at_any_host(
        self, step: str, pool_uuid: UUID, deadline: Deadline, work: Callable[[HostCall], T], *others: UUID
    ) -> T:
        """Work at the first host that answers of those that reach a pool, and these others."""
        failed: DriverError | None = None
        reach = [{host.uuid for host in self._records.directory.hosts_of_pool(other)} for other in others]
        for host in self._records.directory.hosts_of_pool(pool_uuid):
            if not all(host.uuid in reaching for reaching in reach):
                continue
            try:
                return self._links.call(step, host, deadline, work)
            except DriverError as error:
                if error.step != "connect" and not error.unanswered:
                    raise
                failed = error
        if failed is not None:
            raise failed
        raise DriverError(step, ANY_HOST, f"no host reaches pool {pool_uuid}", transient=True)

    def _ensure_volume(self, call: HostCall, volume: VolumeSpec) -> str:
        pool = self._pool(call, volume.pool_uuid)
        return pool.ensure(volume, self._backing(call, pool, volume))

    def _backing(self, call: HostCall, pool: LibvirtPool, volume: VolumeSpec) -> Backing | None:
        if volume.template_uuid is None:
            return None
        copy = self._find_copy(volume.template_uuid, volume.pool_uuid)
        if copy is None:
            reason = f"pool {pool.pool.name} does not have template {volume.template_uuid}"
            raise DriverError("volume", call.host.name, reason, transient=True)
        return copy

    def _find_copy(self, template_uuid: UUID, pool_uuid: UUID) -> Backing | None:
        """A pool's copy of a template; one that is there once stays, and is not looked for again."""
        found = self._copies.get((template_uuid, pool_uuid))
        if found is not None:
            return found
        attempt = self._records.copies.find(template_uuid, pool_uuid)
        image = None if attempt is None else self._records.directory.template(template_uuid)
        if attempt is None or image is None:
            return None
        found = Backing(copy_name(image.uuid, attempt), FORMATS[image.image_format.upper()])
        return self._copies.setdefault((template_uuid, pool_uuid), found)

    def _iso_path(self, call: HostCall, guest: GuestSpec) -> str | None:
        """The ISO that is to be in a guest's drive, in the pool of its root volume."""
        if guest.iso_uuid is None:
            return None
        pool = self._pool(call, guest.volumes[0].pool_uuid)
        copy = self._find_copy(guest.iso_uuid, pool.pool.uuid)
        if copy is None:
            reason = f"pool {pool.pool.name} does not have ISO {guest.iso_uuid}"
            raise DriverError("volume", call.host.name, reason, transient=True)
        return f"{pool.path}/{copy.name}"

    def _nvram_path(self, call: HostCall, guest: GuestSpec) -> str | None:
        """Beside its root volume, so that it is wherever that is."""
        if not guest.volumes:
            return None
        return f"{self._pool(call, guest.volumes[0].pool_uuid).path}/{nvram_name(guest.uuid)}"

    def _write_seed(self, call: HostCall, guest: GuestSpec) -> str | None:
        if not self._options.seed or not guest.volumes:
            return None
        return self._pool(call, guest.volumes[0].pool_uuid).write(seed_name(guest.uuid), make_seed(guest))

    def _domain(
        self,
        call: HostCall,
        guest: GuestSpec,
        fence: int,
        disks: Sequence[Disk],
        seed_path: str | None,
        iso_path: str | None,
        *,
        is_filtered: bool,
    ) -> Domain:
        options, log = self._options, self._options.console_log
        hardware = self._hardware.of(call, self._records.directory)
        return Domain(
            uuid=guest.uuid,
            name=guest.name,
            fence=fence,
            kind=options.virtualization,
            machine=hardware.machine,
            growth=options.growth,
            cpu=hardware.cpu,
            cpu_number=guest.cpu_number,
            cpu_mhz=guest.cpu_mhz,
            memory_mib=guest.memory_mib,
            shares=None if _is_session(call.host) else cpu_shares(guest.cpu_number, guest.cpu_mhz),
            disks=disks,
            interfaces=[
                self._interface(nic, filter_name(guest.uuid) if is_filtered else None) for nic in guest.nics
            ],
            seed_path=seed_path,
            iso_path=iso_path,
            uefi=guest.uefi,
            nvram_path=None if guest.uefi is None else self._nvram_path(call, guest),
            screen=Screen(options.vnc_address, new_password()) if options.vnc_address else None,
            console_log=None if log is None else log.format(name=guest.name, uuid=guest.uuid),
            template_uuid=guest.volumes[0].template_uuid if guest.volumes else None,
        )

    def _interface(self, nic: NicSpec, named: str | None) -> Interface:
        """A nic with the filter that is ``named``, or with no more than a guard against spoofing."""
        options, kind = self._options, self._options.network
        label = nic.label or options.default_label
        source = options.bridge.format(label=label, vlan=nic.vlan or "")
        address = self._guarded_address(nic)
        return Interface(
            nic_uuid=nic.uuid,
            mac_address=nic.mac_address,
            kind={"openvswitch": "bridge", "libvirt": "network"}.get(kind, kind),
            source=None if kind == "user" else source,
            vlan=nic.vlan if kind == "openvswitch" else None,
            mtu=None if kind == "user" else nic.mtu,
            address=address,
            filter_name=named or (None if address is None else GUARD),
            network_uuid=nic.network_uuid,
            ip_address=nic.ip_address,
        )

    def _ensure_leases(self, call: HostCall, guest: GuestSpec) -> None:
        """DHCP of libvirt's networks gives a guest's nics the addresses that they have."""
        with call.failing("network"):
            for nic in guest.nics:
                ensure_lease(call.connection, self._interface(nic, None))

    def _guarded_address(self, nic: NicSpec) -> str | None:
        """The only address that a nic may send with; None: any."""
        is_guarded = self._can_filter and self._options.anti_spoofing and _is_ipv4(nic.ip_address)
        return nic.ip_address if is_guarded else None


SnapshotChange = Callable[[Any, Mapping[str, str | None]], Mapping[str, str | None]]
"""Changes snapshots of a domain; what is kept of them, by their uuids: before, and from now on.

That is the definition that the guest ran with; None: it did not run.
"""


@contextmanager
def _settled_here(step: str, host: HostAddress) -> Iterator[None]:
    """What a host may have begun is asked for at no other host in the same call: both would write into one file."""
    try:
        yield
    except DriverError as error:
        if not error.unanswered:
            raise
        raise DriverError(step, host.name, error.reason, transient=True) from error


def _is_ipv4(address: str | None) -> bool:
    return address is not None and ipaddress.ip_address(address).version == 4


def _is_usable(pool: Pool, options: LibvirtOptions) -> bool:
    """Whether hosts can have such a pool: others hold nothing of ours."""
    try:
        pool_xml(pool, options, ANY_HOST)
    except DriverError:
        return False
    return True


def _elsewhere(step: str, host: HostAddress) -> DriverError:
    return DriverError(step, host.name, "the guest is on another host", transient=False)


@contextmanager
def _overtaken_at(step: str, host: str) -> Iterator[None]:
    try:
        yield
    except Overtaken as error:
        raise StaleFence(step, host, str(error), transient=False) from error


@contextmanager
def suppress_gone() -> Iterator[None]:
    """What is to be gone may be gone already."""
    try:
        yield
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
            raise


def _find_domain(call: HostCall, guest_uuid: UUID) -> Any | None:
    try:
        return call.connection.lookupByUUID(guest_uuid.bytes)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_DOMAIN):
            raise
        return None


def _running(call: HostCall, step: str, guest_uuid: UUID) -> tuple[Any, SeenDomain]:
    """A guest that runs here, and what it has."""
    domain = _find_domain(call, guest_uuid)
    seen = read_domain(domain.XMLDesc()) if domain is not None and domain.isActive() else None
    if seen is None:
        raise DriverError(step, call.host.name, "the guest does not run here", transient=False)
    return domain, seen


def _undefine(domain: Any) -> None:
    """Undefine a guest. The variables of its firmware stay, as its volumes do."""
    with suppress_gone():
        if domain.isPersistent():
            domain.undefineFlags(UNDEFINE)


def _remove_remains(call: HostCall, guest_uuid: UUID) -> None:
    """Remove what a move that was cut left of a guest that runs elsewhere: its definition, or it, paused."""
    domain = _find_domain(call, guest_uuid)
    if domain is not None:
        _undefine(domain)
        with suppress_gone():
            domain.destroy()


def _press_power_button(domain: Any, patience_s: float) -> None:
    """Ask the guest to switch itself off, and wait until it has, or patience ends."""
    ends = time.monotonic() + patience_s
    with suppress(libvirt.libvirtError):  # one that is hung, paused or gone is switched off next
        domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
        while domain.isActive() and time.monotonic() < ends:
            time.sleep(LOOKS_S)


def _affected(domain: Any) -> int:
    """Flags of a change of a guest that runs: it itself, and its definition."""
    live, config = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
    return int(live | config if domain.isPersistent() else live)


def _is_session(host: HostAddress) -> bool:
    """Whether a host's daemon is an ordinary user's, who has no control groups."""
    return urlsplit(urldefrag(host.url or "").url).path == "/session"


def _attach(call: HostCall, domain: Any, device: str, flags: int) -> None:
    call.go_on("devices")
    domain.attachDeviceFlags(device, flags)


def _detach(call: HostCall, domain: Any, uuid: UUID, device: str, flags: int) -> None:
    """Take a device from a guest; wait until it has let it go."""
    call.go_on("devices")
    try:
        domain.detachDeviceFlags(device, flags)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_DEVICE_MISSING, libvirt.VIR_ERR_OPERATION_FAILED):
            raise
    while uuid in _devices(domain):
        if call.deadline.left_s() < LOOKS_S:
            reason = f"the guest does not let go of device {uuid}"
            raise DriverError("devices", call.host.name, reason, transient=True)
        time.sleep(LOOKS_S)


def _devices(domain: Any) -> dict[UUID, str]:
    seen = read_domain(domain.XMLDesc())
    return {} if seen is None else seen.devices


def _list_guests(call: HostCall) -> list[Guest]:
    guests = []
    for domain in call.connection.listAllDomains():
        with suppress_gone():
            power = PowerState.RUNNING if domain.isActive() else PowerState.STOPPED
            seen = read_domain(domain.XMLDesc())
            if seen is not None:
                guests.append(_guest(call, seen, power))
    return guests


def _details(call: HostCall, uuids: Collection[UUID]) -> list[GuestDetails]:
    found = []
    for uuid in uuids:
        domain = _find_domain(call, uuid)
        if domain is None:
            continue
        with suppress_gone():
            seen = read_domain(domain.XMLDesc())
            if seen is not None:
                found.append(GuestDetails(seen.uuid, seen.name, seen.template_uuid, tuple(seen.disks), seen.nics))
    return found


def _guest(call: HostCall, seen: SeenDomain, power: PowerState) -> Guest:
    return Guest(
        seen.uuid,
        call.host.uuid,
        power,
        seen.cpu_number,
        seen.cpu_mhz,
        seen.memory_mib,
        frozenset(seen.disks),
        frozenset(nic.uuid for nic in seen.nics),
        None if seen.iso_path is None else template_of_copy(seen.iso_path),
    )


K = TypeVar("K")


def _each(subjects: Sequence[K], listed: Callable[[K], list[T]]) -> Iterator[T]:
    """What all subjects list, many at a time; one that can not be read ends it."""
    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        for found in threads.map(listed, subjects):
            yield from found


DRIVER = LibvirtDriver
