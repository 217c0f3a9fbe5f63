"""The driver for Incus clusters: docs/how-to/incus.md (one file: one class, a method for each call of drivers).

A guest is the instance vm-UUID, and a host is a member. The instance itself stores the fence, and is changed by
compare-and-set. An instance that must not run has a gate, a device that prevents Incus from starting it. So Incus
itself is the lock (docs/adr/0047-incus-is-the-lock.md). The service's records contain the fences of guests that
have no instance. Instances and volumes without the service's keys are never changed.
"""

import hashlib
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import UUID

from typing_extensions import override

from bulkdeploy.domain.units import MIB
from bulkdeploy.drivers.abilities.consoles import SerialConsoles
from bulkdeploy.drivers.abilities.devices import HotPlugNics, HotPlugVolumes
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes, ShrinkingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.snapshots import Snapshots, SnapshotSpec
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, refuse_lost_volumes
from bulkdeploy.drivers.exchanges.parallel_calls import call_each
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.images.images import opened_image
from bulkdeploy.drivers.incus.cluster import IncusCluster, image_alias
from bulkdeploy.drivers.incus.events import GuestEvents
from bulkdeploy.drivers.incus.instance import (
    KEY,
    UNSEEN,
    Instance,
    devices_of,
    gated,
    guest_of,
    instance_name,
    limits,
)
from bulkdeploy.drivers.incus.instance_call import ALREADY, MACHINES, IncusCall, member_of, read_ours
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import (
    Access,
    Incus,
    path_of,
)
from bulkdeploy.drivers.records import CopyState, Pool, Records, TemplateImage

LOOK_SECONDS = 60.0
"""The time limit of requests for listings, whose callers set no time limit, in seconds."""

FORMATS = ("TAR",)
"""The format of templates whose url is an image of Incus: metadata and root file system in one archive."""


class IncusDriver(
    DataVolumes,
    LiveScaling,
    HotPlugVolumes,
    HotPlugNics,
    GrowingVolumes,
    SerialConsoles,
    Snapshots,
    ShrinkingVolumes,
    HypervisorDriver,
):
    """The driver for one Incus cluster. Threads share the object."""

    options_model = IncusOptions
    is_watched = True

    def __init__(self, options: IncusOptions, incus: Incus) -> None:
        self._options, self._incus = options, incus
        self._cluster = IncusCluster(options, incus)
        self._events = GuestEvents(incus.access)
        self._turns = Turns()

    @classmethod
    @override
    def from_options(cls, options: IncusOptions) -> Self:
        return cls(options, Incus(access_of(options)))

    @override
    def use_records(self, records: Records) -> None:
        super().use_records(records)
        self._cluster.records = records

    @override
    def close(self) -> None:
        self._events.close()
        self._incus.close()

    # Hosts

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Return the hardware of the member with the url ``incus://MEMBER``.

        Raises:
            DriverError: the url is invalid, the member is not online, or it cannot run guests of the hypervisor
                type.
        """
        parts = urlsplit(host.access.url)
        name = parts.netloc  # a hostname would be in lower case
        if parts.scheme != "incus" or not name:
            raise DriverError("connect", ANY_HOST, "the url must be incus://MEMBER", transient=False)
        call = IncusCall(self._cluster, None, UUID(int=0), 0, timeout_s, named=name)
        address = self._member_address(call, name)
        target = call.target(name)
        runs = str(call.send("connect", "GET", path_of(), target=target).value["environment"].get("driver"))
        if host.hypervisor == MACHINES and "qemu" not in runs:
            lacks = "they need QEMU, /dev/kvm and the module vhost_vsock"
            reason = f"member {name} cannot run virtual machines ({runs}): {lacks}"
            raise DriverError("connect", name, reason, transient=False)
        found = call.send("connect", "GET", path_of("resources"), target=target).value
        cpu, memory = found["cpu"], found["memory"]
        frequencies = ("frequency_turbo", "frequency")  # the second one is the current frequency
        speeds = [one.get(key) or 0 for one in cpu.get("sockets") or () for key in frequencies]
        local = self._options.local_pool
        space = None
        if local is not None:
            where = path_of("storage-pools", local, "resources")
            space = call.send("connect", "GET", where, target=target).value["space"]
        return HostModel(
            name=name,
            ip_address=address,
            cpu_sockets=max(1, len(cpu.get("sockets") or ())),
            cpu_cores=cpu["total"],
            cpu_mhz=max(speeds, default=0) or self._options.cpu_mhz,
            memory_mib=memory["total"] // MIB,
            local_disk_bytes=0 if space is None else space["total"],
            hypervisor_version=call.server()["environment"]["server_version"],
        )

    def _member_address(self, call: IncusCall, name: str) -> str:
        """Return the IP address of a member of the cluster.

        Raises:
            DriverError: the member is not online.
        """
        server = call.server()
        if call.target(name) is None:
            if server["environment"]["server_name"] != name:
                reason = f"the server is called {server['environment']['server_name']}"
                raise DriverError("connect", name, reason, transient=False)
            return next(
                (url.rpartition(":")[0] for url in server["environment"].get("addresses") or ()), "127.0.0.1"
            )
        member = call.send("connect", "GET", path_of("cluster", "members", name)).value
        if member["status"] != "Online":
            reason = f"member {name} is {member['status']}: {member['message']}"
            raise DriverError("connect", name, reason, transient=True)
        return urlsplit(member["url"]).hostname or name

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """Return the guests of each host, or an error, in order.

        One request lists all instances, and one request per member checks whether it answers. An instance whose
        state the member cannot report counts as running, unless it has a gate.
        """
        instances = self._instances("look", timeout_s)
        looks = call_each(hosts, lambda host: self._request_member_state(host, timeout_s))
        found: list[Sequence[Guest] | DriverError] = []
        for host, member in zip(hosts, looks, strict=True):
            if isinstance(member, DriverError):
                found.append(member)
                continue
            mine = [one for one in instances if one.member == member]
            found.append([one.guest(host.uuid) for one in mine if one.runs or not one.is_gated])
        return found

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool:
        """Return whether the member itself answers. Another member may forward the request."""
        (found,) = call_each([host], lambda one: self._request_member_state(one, timeout_s))
        return not isinstance(found, DriverError)

    def _request_member_state(self, host: HostAddress, timeout_s: float) -> str | None:
        """Request the state of a member, and return its name, or None if the server is not clustered.

        Raises:
            DriverError: the member does not answer.
        """
        call = IncusCall(self._cluster, host, UUID(int=0), 0, timeout_s)
        member = call.here()
        where = path_of() if member is None else path_of("cluster", "members", member, "state")
        call.send("look", "GET", where)
        return member

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """Return the guests whose end was reported by events of the cluster since the last call."""
        return self._events.ended() if hosts else frozenset()

    # Templates

    def ensure_template(self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float) -> None:
        """Import an image into Incus, which copies it to the members and pools that need it.

        An image that the options name, or that was imported before, is not imported.
        """
        image = self._records.directory.template(template_uuid)
        if image is None:
            raise DriverError("template", host.name, f"there is no template {template_uuid}", transient=False)
        if image.named_in(self._options.images) is not None:
            return
        call = IncusCall(self._cluster, host, template_uuid, 0, timeout_s)
        alias = path_of("images", "aliases", image_alias(image))
        if call.find("template", alias) is not None:
            return
        with self._turns.of(template_uuid, "template", call.host_name, timeout_s=call.left):
            if call.find("template", alias) is None:
                self._import(call, image, pool_uuid)

    def _import(self, call: IncusCall, image: TemplateImage, pool_uuid: UUID) -> None:
        """Import an image.

        The image counts against the limits of its owner and of the first pool that needs it.

        Raises:
            DriverError: another worker is importing the image, a limit does not allow it, or the import failed.
        """
        copies, made = self._records.copies, False
        copy = copies.begin(image.uuid, pool_uuid, image.checksum)
        if copy.state is CopyState.UNDER_WAY:
            reason = f"template {image.name} is being imported by another worker"
            raise DriverError("template", call.host_name, reason, transient=True)
        try:
            with opened_image(image, call.host_name, FORMATS, self._records.fetcher) as opened:
                refusal = copies.admit(image.uuid, pool_uuid, opened.file_bytes, opened.disk_bytes)
                if refusal is not None:
                    reason = f"template {image.name}: {refusal}"
                    raise DriverError("template", call.host_name, reason, transient=False)
                report = partial(copies.report, image.uuid, pool_uuid, copy.attempt)
                chunks = Hashed(opened.chunks(lambda percent: report(percent) or copy.state is CopyState.READY))
                call.run("template", "POST", path_of("images"), chunks, tolerate=ALREADY)
            body = {"name": image_alias(image), "target": chunks.sha256, "description": image.name}
            call.run("template", "POST", path_of("images", "aliases"), body, tolerate=ALREADY)
            made = True
        finally:
            copies.end(image.uuid, pool_uuid, copy.attempt, made=made)

    # Guests

    @override
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = IncusCall(self._cluster, host, guest.uuid, fence, timeout_s)
        with self._turns.of(guest.uuid, "boot", call.host_name, timeout_s=call.left):
            call.claim("boot", [volume.uuid for volume in guest.volumes])
            found = call.look("boot")
            if found is not None and found.runs:
                call.check_member("boot", found)
                return
            if found is None:
                refuse_lost_volumes("volume", host.name, guest)
                found = call.make(guest)
            elif guest.volumes and (found.root is None or found.root.uuid != guest.volumes[0].uuid):
                text = f"instance {instance_name(guest.uuid)} has another root disk"
                raise DriverError("volume", host.name, text, transient=False)
            if not self._records.fences.is_highest(guest.uuid, fence):
                call.undo(found)
                raise call.stale("boot")
            if found.member != call.here():
                found = call.bring_here(found)
            volumes = [call.ensure_volume(volume, found.kind) for volume in guest.volumes[1:]]
            call.open(guest, volumes)
            call.run("boot", "PUT", call.state, {"action": "start"}, tolerate=("already running",))
            after = call.look("boot")
            if after is None or not after.runs:
                raise DriverError(
                    "boot", host.name, "the instance ended immediately after its start", transient=True
                )

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop an instance and gate it, so that Incus does not start it. The instance is kept."""
        call = IncusCall(self._cluster, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "stop", call.host_name, timeout_s=call.left):
            call.fenced_here("stop")
            call.close("stop", patience_s=0.0 if forced else self._options.shutdown_seconds)
            self._records.fences.release(guest_uuid, fence)

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Stop and gate the instance if it is on this member. An instance on another member is not changed."""
        call = IncusCall(self._cluster, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "stop", call.host_name, timeout_s=call.left):
            call.raise_fence_elsewhere("stop")
            found = call.look("stop")
            if found is not None and found.member == call.here():
                call.close("stop", patience_s=0.0)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest, or None if it does not run.

        An instance that does not run is gated under the call's fence, so that earlier calls cannot start it.
        """
        call = IncusCall(self._cluster, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "look", call.host_name, timeout_s=call.left):
            where = call.fenced_here("look")
            found = call.look("look")
            while found is not None and not found.runs and not (found.is_gated and found.fence >= fence):
                call.change("look", found, gated(found, fence))
                found = call.look("look")
            if found is None or not found.runs:
                call.record_absence(where)
                return None
            call.check_member("look", found)
            return PowerState.RUNNING

    def ensure_absent(
        self,
        host: HostAddress | None,
        guest_uuid: UUID,
        volume_uuids: Sequence[UUID],
        *,
        fence: int,
        timeout_s: float,
    ) -> None:
        """Delete an instance with its root disk, and delete data volumes.

        If the root disk is not in ``volume_uuids``, the instance is stopped and kept.
        """
        call = IncusCall(self._cluster, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "delete", call.host_name, timeout_s=call.left):
            call.fenced_here("delete")
            call.settle("delete")
            found = call.close("delete", patience_s=0.0)
            if found is not None and (found.root is None or found.root.uuid in volume_uuids):
                call.run("delete", "DELETE", call.path, tolerate=("not found",))
            self._records.fences.release(guest_uuid, fence)
            with self._records.fences.volumes_in_use(volume_uuids) as used:
                if used:  # the volumes are used by another guest, or by this guest if it was started since
                    raise DriverError(
                        "delete", call.host_name, "another guest uses one of its volumes", transient=True
                    )
                for pool in {self._cluster.name_of(pool) for pool in self._pools_of(volume_uuids)}:
                    for volume in call.volumes("delete", pool):
                        if volume.uuid in volume_uuids:
                            call.remove_volume(volume)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume.

        If the volume is a root disk, its instance is deleted.

        Raises:
            DriverError: a guest uses the volume.
        """
        call = IncusCall(self._cluster, None, UUID(int=0), 0, timeout_s)
        with self._records.fences.volumes_in_use([volume_uuid]) as used:
            if used:
                reason = f"guest {used[volume_uuid]} uses volume {volume_uuid}"
                raise DriverError("delete", ANY_HOST, reason, transient=True)
            for volume in call.volumes("delete", self._cluster.pool(pool_uuid)):
                if volume.uuid == volume_uuid:
                    call.remove_volume(volume)
                    return
            for one in self._instances("delete", call.left):
                if one.root is not None and one.root.uuid == volume_uuid:
                    call.run(
                        "delete", "DELETE", path_of("instances", instance_name(one.uuid)), tolerate=("not found",)
                    )

    # Changes of running guests

    @override
    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = IncusCall(self._cluster, host, guest.uuid, fence, timeout_s)
        with self._turns.of(guest.uuid, "scale", call.host_name, timeout_s=call.left):
            call.fenced_here("scale")

            def scaled(found: Instance) -> Mapping[str, Any]:
                config = {**found.config, **limits(guest), f"{KEY}fence": str(fence)}
                return {**found.definition, "config": config}

            call.change_running("scale", scaled)

    @override
    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = IncusCall(self._cluster, host, guest.uuid, fence, timeout_s)
        with self._turns.of(guest.uuid, "devices", call.host_name, timeout_s=call.left):
            call.fenced_here("devices")
            found = call.running("devices")
            wanted = {volume.uuid for volume in guest.volumes}
            call.claim("devices", [*wanted | found.data_volumes])
            volumes = [call.ensure_volume(volume, found.kind, step="devices") for volume in guest.volumes[1:]]

            def changed(found: Instance) -> Mapping[str, Any]:
                config = {**found.config, f"{KEY}fence": str(fence)}
                devices = devices_of(found, guest, volumes, self._options)
                return {**found.definition, "config": config, "devices": devices}

            call.change_running("devices", changed)
            call.claim("devices", [*wanted])

    @override
    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = IncusCall(self._cluster, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "resize", call.host_name, timeout_s=call.left):
            where = call.fenced_here("resize")
            if host is None and where.host_uuids:
                raise DriverError("resize", ANY_HOST, "the guest is on a host", transient=False)
            found = call.look("resize") if host is None else call.running("resize")
            if found is not None and found.root is not None and found.root.uuid == volume.uuid:
                call.resize_root(found, volume)
                return
            there = call.find_volume("resize", volume)
            if there is not None and there.size_bytes != volume.size_bytes:
                if host is not None and there.size_bytes > volume.size_bytes:
                    reason = "a volume of a running guest cannot shrink"
                    raise DriverError("resize", host.name, reason, transient=False)
                call.resize(there, volume.size_bytes)

    @override
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        call = IncusCall(self._cluster, None, guest_uuid, fence, timeout_s)
        call.raise_fence("look")
        found = call.look("look")
        if found is not None and found.root is not None and found.root.uuid == volume.uuid:
            return found.root.size_bytes
        there = call.find_volume("look", volume)
        return None if there is None else there.size_bytes

    # Snapshots: the instance's snapshot is taken last and removed first. If it exists, all the others exist.

    @override
    def ensure_snapshot(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        with self._at_rest("snapshot", host, guest, fence, timeout_s) as call:
            if call.has_snapshot("snapshot", snapshot.uuid):
                return
            places = call.places("snapshot", guest)
            if len(places) < max(len(guest.volumes), 1):
                raise call.error("snapshot", "some of its volumes do not exist")
            for where, member in places:
                call.remove_snapshot(
                    "snapshot", where, member, snapshot.uuid
                )  # an interrupted call may have left it
                body = {"name": str(snapshot.uuid)}
                call.run("snapshot", "POST", f"{where}/snapshots", body, target=member)

    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Revert the instance and its volumes to a snapshot, and gate the instance under the call's fence again."""
        with self._at_rest("revert", host, guest, fence, timeout_s) as call:
            if not call.has_snapshot("revert", snapshot.uuid):
                raise call.error("revert", f"the guest has no snapshot {snapshot.uuid}")
            for where, member in call.places("revert", guest):
                call.run("revert", "PUT", where, {"restore": str(snapshot.uuid)}, target=member)
            call.close("revert", patience_s=0.0)

    @override
    def ensure_snapshot_absent(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        with self._at_rest("delete_snapshot", host, guest, fence, timeout_s) as call:
            for where, member in reversed(call.places("delete_snapshot", guest)):
                call.remove_snapshot("delete_snapshot", where, member, snapshot.uuid)

    @contextmanager
    def _at_rest(
        self, step: str, host: HostAddress | None, guest: GuestSpec, fence: int, timeout_s: float
    ) -> Iterator[IncusCall]:
        """Yield a call for a guest that does not run and cannot be started within the context.

        Raises:
            DriverError: the guest is on a host or runs, or another guest uses one of its volumes.
        """
        if host is not None:
            reason = "Incus takes snapshots only of guests that do not run"
            raise DriverError(step, host.name, reason, transient=False)
        call = IncusCall(self._cluster, None, guest.uuid, fence, timeout_s)
        with (
            self._turns.of(guest.uuid, step, call.host_name, timeout_s=call.left),
            self._records.fences.volumes_in_use([volume.uuid for volume in guest.volumes]) as used,
        ):
            if call.fenced_here(step).host_uuids:
                raise call.error(step, "the guest is on a host")
            if used:
                raise call.error(step, "another guest uses one of its volumes", transient=True)
            found = call.look(step)
            if found is not None and found.runs:
                raise call.error(step, "the guest runs")
            call.close(step, patience_s=0.0)
            yield call

    # Consoles

    # There are no VNC consoles, because Incus shows screens by SPICE.

    @override
    def open_serial_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        return IncusCall(self._cluster, host, guest_uuid, 0, timeout_s).open_serial()

    # Lists

    def list_guests(self) -> Iterator[Guest]:
        """List the instances that run or that Incus may start.

        Raises:
            DriverError: a member does not answer, or the state of an instance is unknown.
        """
        call = IncusCall(self._cluster, None, UUID(int=0), 0, LOOK_SECONDS)
        hosts = {call.target(member_of(host)): host.uuid for host in self._records.directory.hosts()}
        call.require_members("list", hosts)
        for one in self._instances("list", LOOK_SECONDS, require_complete=True):
            if one.member in hosts:
                if not one.is_seen:
                    text = f"the state of instance {one.uuid} is unknown"
                    raise DriverError("list", one.member or ANY_HOST, text, transient=True)
                if one.runs or not one.is_gated:
                    yield one.guest(hosts[one.member])

    @override
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        call = IncusCall(self._cluster, None, UUID(int=0), 0, LOOK_SECONDS)
        call.require_members("list", {call.target(member_of(host)) for host in self._records.directory.hosts()})
        yield from self._volumes(call, self._instances("list", LOOK_SECONDS, require_complete=True))

    @override
    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        call = IncusCall(self._cluster, None, UUID(int=0), 0, LOOK_SECONDS)
        addresses = self._records.directory.hosts()
        try:
            hosts = {call.target(member_of(host)): host.uuid for host in addresses}
            silent = call.silent_members("list", hosts)
            unseen.update((hosts[member], reason) for member, reason in silent.items())
            for one in self._instances("list", LOOK_SECONDS, unseen=unseen):
                if one.member not in hosts or one.member in silent:
                    continue
                if not one.is_seen:
                    unseen[one.uuid] = f"Incus does not know its state ({one.status})"
                elif one.runs or not one.is_gated:
                    yield one.guest(hosts[one.member])
        except DriverError as error:
            unseen.update((host.uuid, str(error)) for host in addresses)

    def list_seen_volumes(self, unseen: dict[UUID, str]) -> Iterator[tuple[UUID, UUID, int]]:
        """List the volumes that can be read now.

        If a member does not answer, the reason is added to ``unseen`` for each pool, because any pool may have
        volumes on the member.
        """
        call = IncusCall(self._cluster, None, UUID(int=0), 0, LOOK_SECONDS)
        pools = self._records.directory.pools()
        try:
            silent = call.silent_members(
                "list", {call.target(member_of(host)) for host in self._records.directory.hosts()}
            )
            names = dict[UUID, str]()
            instances = self._instances("list", LOOK_SECONDS, unseen=names)
            for reason in (*silent.values(), *names.values()):
                unseen.update((pool.uuid, reason) for pool in pools)
            yield from self._volumes(call, instances)
        except DriverError as error:
            unseen.update((pool.uuid, str(error)) for pool in pools)

    def _volumes(self, call: IncusCall, instances: Sequence[Instance]) -> Iterator[tuple[UUID, UUID, int]]:
        """Yield the root volumes of these instances, all data volumes, and root volumes without an instance.

        A root volume without an instance is listed with the uuid of the guest after which it is named, and size 0.
        """
        for one in instances:
            if one.root is not None:
                yield one.root.uuid, one.root.pool_uuid, one.root.size_bytes
        pools: dict[str, UUID] = {}
        for pool in self._records.directory.pools():
            pools.setdefault(self._cluster.name_of(pool), pool.uuid)
        for incus_pool, pool_uuid in sorted(pools.items()):
            for volume in call.volumes("list", incus_pool):
                yield volume.uuid, volume.pool_uuid, volume.size_bytes
            for guest_uuid, _ in call.orphans("list", incus_pool):
                yield guest_uuid, pool_uuid, 0

    def _instances(
        self, step: str, timeout_s: float, *, require_complete: bool = False, unseen: dict[UUID, str] | None = None
    ) -> list[Instance]:
        """Return the service's instances.

        For a member that has just fallen silent, Incus reports only the names of instances. Such instances are
        omitted, and their guests are added to ``unseen`` with the reason.

        Raises:
            DriverError: Incus does not answer, or ``require_complete`` is true and an instance would be omitted.
        """
        call = IncusCall(self._cluster, None, UUID(int=0), 0, timeout_s)
        rows = call.send(step, "GET", path_of("instances"), recursion=1).value or ()
        for row in rows if require_complete or unseen is not None else ():
            guest_uuid = guest_of(row["name"]) if row["status"] in UNSEEN else None
            if guest_uuid is not None:
                reason = f"the state of instance {row['name']} is unknown: its member does not answer"
                if unseen is None:
                    raise DriverError(step, row.get("location") or ANY_HOST, reason, transient=True)
                unseen[guest_uuid] = reason
        return [one for row in rows if (one := read_ours(step, call.host_name, row)) is not None]

    def _pools_of(self, volume_uuids: Sequence[UUID]) -> Iterable[Pool]:
        return self._records.directory.pools_of_volumes(volume_uuids) if volume_uuids else ()


class Hashed:
    """An iterator over chunks that calculates their SHA-256, by which Incus identifies an image."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._digest = chunks, hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The SHA-256 of all chunks that were read, in hexadecimal."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._digest.update(chunk)
            yield chunk


def access_of(options: IncusOptions) -> Access:
    """Return the access to the cluster that the options describe."""
    client = None
    if options.certificate is not None and options.key is not None:
        client = (str(options.certificate), str(options.key))
    ca_file = None if options.ca_file is None else str(options.ca_file)
    return Access(options.urls, client, ca_file, options.fingerprint, options.project)


DRIVER = IncusDriver
