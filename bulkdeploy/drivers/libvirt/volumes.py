"""Operations on volumes and other files of guests in pools: resize, measure, delete."""

from collections.abc import Sequence
from uuid import UUID

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.calls import GuestCalls, running_guest
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, in_time
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.records import Pool


class Volumes:
    """Resizes, measures and deletes volumes in pools."""

    def __init__(self, calls: GuestCalls) -> None:
        self._calls = calls

    def ensure_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume.

        Raises:
            DriverError: a guest uses the volume. The error is transient.
        """
        deadline = Deadline(timeout_s)

        def remove() -> None:
            with self._calls.records.fences.volumes_in_use([volume_uuid]) as used:
                if used:
                    reason = f"guest {used[volume_uuid]} uses volume {volume_uuid}"
                    raise DriverError("delete", ANY_HOST, reason, transient=True)
                self.remove_files(self._calls.known_pool(pool_uuid), None, (), [volume_uuid], deadline)

        in_time("delete", ANY_HOST, deadline, remove)

    def remove_files(
        self,
        pool: Pool,
        host: HostAddress | None,
        names: Sequence[str],
        volume_uuids: Sequence[UUID],
        deadline: Deadline,
    ) -> None:
        """Delete files and volumes from a pool, through ``host`` if it can access the pool, else another host."""

        def remove(call: HostCall) -> None:
            found = self._calls.pool(call, pool.uuid)
            for name in (*names, *map(found.volume_name, volume_uuids)):
                found.remove(name)

        if host is not None and pool.host_uuid in (None, host.uuid):
            self._calls.links.call("delete", host, deadline, remove)
        else:
            self._calls.at_any_host("delete", pool.uuid, deadline, remove)

    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Resize a volume of a guest that runs on ``host``, or of a stopped guest if ``host`` is None.

        Raises:
            DriverError: the guest does not run where it must or runs although it must not, or a volume of a running
                guest would shrink.
        """

        def resize(call: HostCall) -> None:
            self._calls.fenced(call.host, guest_uuid, fence).fenced_here("resize")
            domain, seen = running_guest(call, "resize", guest_uuid)
            target = seen.disks.get(volume.uuid)
            if target is None:
                raise DriverError(
                    "resize", call.host.name, f"the guest has no volume {volume.uuid}", transient=False
                )
            size = domain.blockInfo(target)[0]
            if size > volume.size_bytes:
                raise DriverError(
                    "resize", call.host.name, "a volume of a running guest cannot shrink", transient=False
                )
            if size < volume.size_bytes:
                call.go_on("resize")
                domain.blockResize(target, volume.size_bytes, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)

        if host is not None:
            self._calls.of_guest("resize", host, guest_uuid, timeout_s, resize)
            return
        if self._calls.fenced(None, guest_uuid, fence).raise_fence("resize").host_uuids:
            raise DriverError("resize", ANY_HOST, "the guest is on a host", transient=False)
        deadline, pool = Deadline(timeout_s), volume.pool_uuid

        def resize_file() -> None:
            with self._calls.records.fences.volumes_in_use([volume.uuid]) as used:
                if used:
                    raise DriverError("resize", ANY_HOST, "a guest uses the volume", transient=True)
                self._calls.at_any_host(
                    "resize", pool, deadline, lambda call: self._calls.pool(call, pool).resize(volume)
                )

        in_time("resize", ANY_HOST, deadline, resize_file)

    def last_writes(self, host: HostAddress, volumes: Sequence[tuple[UUID, UUID]], *, timeout_s: float) -> str:
        """Return the times of the last writes to volumes, as the daemon of ``host`` reads them in shared pools.

        Raises:
            DriverError: the daemon does not answer, or cannot access any of the volumes.
        """
        deadline = Deadline(timeout_s)

        def look(call: HostCall) -> str:
            seen = {pool: self._calls.pool(call, pool) for pool in {pool for pool, _ in volumes}}
            times = [seen[pool].last_write(volume) for pool, volume in volumes]
            if not any(times):
                reason = (
                    f"none of {len(volumes)} volumes is in a shared pool of the host, so no activity can be read"
                )
                raise DriverError("look", host.name, reason, transient=True)
            return " ".join(times)

        return in_time("look", host.name, deadline, lambda: self._calls.links.call("look", host, deadline, look))

    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """Return the size of a volume in bytes, or None if the volume does not exist.

        The call's fence is recorded, so that earlier calls cannot change the size afterwards.
        """
        self._calls.fenced(None, guest_uuid, fence).raise_fence("look")
        deadline, pool = Deadline(timeout_s), volume.pool_uuid

        def look(call: HostCall) -> int | None:
            return self._calls.pool(call, pool).size_of(volume.uuid)

        return in_time("look", ANY_HOST, deadline, lambda: self._calls.at_any_host("look", pool, deadline, look))
