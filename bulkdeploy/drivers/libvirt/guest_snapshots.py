"""Snapshots of running and stopped guests, and the records of these snapshots.

Snapshots of running guests are taken by QEMU, in files and in Ceph images. For a stopped guest, the module
``snapshots`` takes snapshots in files, and the pool takes snapshots of images.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.abilities.snapshots import SnapshotSpec
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt import snapshots
from bulkdeploy.drivers.libvirt.calls import GuestCalls, running_guest
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, in_time
from bulkdeploy.drivers.libvirt.domain import Disk
from bulkdeploy.drivers.libvirt.storage.pools import is_ceph
from bulkdeploy.drivers.libvirt.storage.rbd_pools import RbdPool
from bulkdeploy.drivers.records import FencedGuest

SNAPSHOTS = "snapshots"
"""The key of a guest's stored details for its snapshots (``Fences.keep``)."""


SnapshotChange = Callable[[Any, Mapping[str, str | None]], Mapping[str, str | None]]
"""Changes the snapshots of a running domain or of StoppedVolumes.

The function receives the recorded snapshots and returns those to record. The records map the uuid of a snapshot to
the definition with which the guest ran, or to None if the guest did not run.
"""


class StoppedVolumes:
    """The volumes of a stopped guest: a domain with the volumes in files, if any, and images in Ceph pools."""

    def __init__(self, domain: Any | None, images: Sequence[tuple[RbdPool, UUID]]) -> None:
        self._domain, self._images = domain, images

    def take(self, snapshot_uuid: UUID) -> None:
        """Take a snapshot of all volumes. Remains of an interrupted call are deleted first."""
        if self._domain is not None:
            snapshots.take(self._domain, snapshot_uuid)
        for pool, volume_uuid in self._images:
            pool.take_snapshot(volume_uuid, snapshot_uuid)

    def revert(self, snapshot_uuid: UUID) -> None:
        """Revert all volumes to a snapshot."""
        if self._domain is not None:
            snapshots.revert(self._domain, snapshot_uuid)
        for pool, volume_uuid in self._images:
            pool.revert_to_snapshot(volume_uuid, snapshot_uuid)

    def remove(self, snapshot_uuid: UUID) -> None:
        """Delete a snapshot of all volumes. A missing snapshot is no error."""
        if self._domain is not None:
            snapshots.remove(self._domain, snapshot_uuid, None)
        for pool, volume_uuid in self._images:
            pool.remove_snapshot(volume_uuid, snapshot_uuid)


class GuestSnapshots:
    """Takes, deletes and reverts to snapshots of guests."""

    def __init__(self, calls: GuestCalls) -> None:
        self._calls = calls

    def ensure(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Take a snapshot.

        If it includes memory, a running guest is paused until the memory is written.

        Raises:
            DriverError: the snapshot failed, or it includes memory and a volume is in a Ceph pool.
        """
        if snapshot.with_memory:
            self._require_files(guest)

        def take(domain: Any, kept: Mapping[str, str | None]) -> Mapping[str, str | None]:
            definition = None
            if str(snapshot.uuid) in kept:
                return kept
            if host is None:
                domain.take(snapshot.uuid)
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
        """Revert a guest to a snapshot. A running guest gets a new QEMU process, so open consoles are closed."""
        name = str(snapshot.uuid)
        named = ANY_HOST if host is None else host.name

        def revert(domain: Any, kept: Mapping[str, str | None]) -> Mapping[str, str | None]:
            definition = kept.get(name)
            if name not in kept or (definition is None) is not (host is None):
                reason = f"the guest has no snapshot {name} that fits its power state"
                raise DriverError("revert", named, reason, transient=False)
            if definition is None:
                domain.revert(snapshot.uuid)
            else:
                snapshots.revert_with_memory(domain, definition)
            return kept

        self._of_snapshot("revert", host, guest, snapshot, fence, timeout_s, revert)

    def ensure_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Delete a snapshot of a guest."""
        name = str(snapshot.uuid)

        def remove(domain: Any, kept: Mapping[str, str | None]) -> Mapping[str, str | None]:
            if host is None:
                domain.remove(snapshot.uuid)
            elif snapshot.with_memory:
                snapshots.remove(domain, snapshot.uuid, kept.get(name))
            else:
                snapshots.remove_of_running(domain, snapshot.uuid)
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
        change: SnapshotChange,
    ) -> None:
        """Apply a change to the snapshots of a guest, and record the snapshots that exist afterwards.

        ``host`` is the host on which the guest runs, or None if the guest does not run.
        """
        if host is None:
            self._of_stopped(step, guest, snapshot.volumes_of(guest), fence, timeout_s, change)
            return

        def work(call: HostCall) -> None:
            fenced = self._calls.fenced(call.host, guest.uuid, fence).fenced_here(step)
            domain, _ = running_guest(call, step, guest.uuid)
            self._change_snapshots(call, step, guest, fence, fenced, domain, change)

        self._calls.of_guest(step, host, guest.uuid, timeout_s, work)

    def _of_stopped(
        self,
        step: str,
        guest: GuestSpec,
        volumes: Sequence[VolumeSpec],
        fence: int,
        timeout_s: float,
        change: SnapshotChange,
    ) -> None:
        """Apply a change to the snapshots of a stopped guest.

        The guest cannot be started meanwhile.

        Raises:
            DriverError: the guest is on a host, or another guest uses one of its volumes.
        """
        fenced = self._calls.fenced(None, guest.uuid, fence).raise_fence(step)
        if fenced.host_uuids:
            raise DriverError(step, ANY_HOST, "the guest is on a host", transient=False)
        deadline, pools = Deadline(timeout_s), {volume.pool_uuid: None for volume in volumes}

        def work(call: HostCall) -> None:
            with ExitStack() as stack:
                stack.enter_context(_settled_here(step, call.host))
                stack.enter_context(call.failing(step))
                stopped = self._stopped_volumes(call, stack, guest, volumes)
                self._change_snapshots(call, step, guest, fence, fenced, stopped, change)

        def alone() -> None:
            uuids = [volume.uuid for volume in volumes]
            with (
                self._calls.turns.of(guest.uuid, step, ANY_HOST, timeout_s=deadline.left_s()),
                self._calls.records.fences.volumes_in_use(uuids) as used,
            ):
                if used:
                    raise DriverError(step, ANY_HOST, "another guest uses one of its volumes", transient=True)
                first, *others = pools
                self._calls.at_any_host(step, first, deadline, work, *others)

        in_time(step, ANY_HOST, deadline, alone)

    def _stopped_volumes(
        self, call: HostCall, stack: ExitStack, guest: GuestSpec, volumes: Sequence[VolumeSpec]
    ) -> StoppedVolumes:
        """Return the volumes of a stopped guest.

        The domain with the volumes in files exists until ``stack`` closes.
        """
        disks: list[Disk] = []
        images: list[tuple[RbdPool, UUID]] = []
        for one in volumes:
            pool = self._calls.pool(call, one.pool_uuid)
            if isinstance(pool, RbdPool):
                images.append((pool, one.uuid))
            else:
                disks.append(Disk(one.uuid, pool.source(pool.volume_name(one.uuid))))
        domain = None
        if disks:
            domain = stack.enter_context(snapshots.shut_off(call, guest.uuid, disks, self._calls.options))
        return StoppedVolumes(domain, images)

    def _require_files(self, guest: GuestSpec) -> None:
        for volume in guest.volumes:
            pool = self._calls.known_pool(volume.pool_uuid)
            if is_ceph(pool):
                reason = f"snapshots of volumes in Ceph pool {pool.name} cannot include memory: take one without it"
                raise DriverError("snapshot", ANY_HOST, reason, transient=False)

    def _change_snapshots(
        self,
        call: HostCall,
        step: str,
        guest: GuestSpec,
        fence: int,
        fenced: FencedGuest,
        domain: Any,
        change: SnapshotChange,
    ) -> None:
        kept = fenced.details.get(SNAPSHOTS, {})
        call.go_on(step)
        own = self._calls.fenced(call.host, guest.uuid, fence)
        own.check_fence(step)
        changed = change(domain, kept)
        if changed != kept:
            own.store_details(step, {**fenced.details, SNAPSHOTS: changed})


@contextmanager
def _settled_here(step: str, host: HostAddress) -> Iterator[None]:
    """Convert unanswered errors to transient ones within the context.

    ``at_any_host`` then does not try further hosts, because two hosts would write into one file.
    """
    try:
        yield
    except DriverError as error:
        if not error.unanswered:
            raise
        raise DriverError(step, host.name, error.reason, transient=True) from error
