"""The driver for Incus clusters: docs/how-to/incus.md (one file: one class, a method for each call of drivers).

A guest is the instance vm-UUID, a member is a host. What has a fence stands in the instance and is changed by
compare-and-set; an instance that is not to run has a gate, which keeps Incus from starting it. So Incus itself is
the lock (docs/adr/0047-incus-is-the-lock.md); the service's records remember fences of guests that are not there.
Instances and volumes without our keys are never touched.
"""

import hashlib
import re
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore
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
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, lost_volume, refuse_lost_volumes
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.exchanges.parallel_calls import call_each
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.images.images import opened_image
from bulkdeploy.drivers.incus.console import CONSOLE, open_serial
from bulkdeploy.drivers.incus.events import GuestEvents
from bulkdeploy.drivers.incus.instance import (
    CONTAINER,
    GATE,
    KEY,
    LAST_POWER,
    PROTECTION,
    ROOT,
    UNSEEN,
    VIRTUAL_MACHINE,
    Instance,
    Volume,
    devices_of,
    gated,
    guest_of,
    instance_name,
    limits,
    new_instance,
    new_volume,
    opened,
    read_instance,
    read_location,
    read_volume,
)
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import (
    CHANGED,
    NOT_FOUND,
    Access,
    Answer,
    Incus,
    Refused,
    failure,
    path_of,
)
from bulkdeploy.drivers.incus.root_volumes import KINDS, read_orphans
from bulkdeploy.drivers.records import CopyState, Pool, TemplateImage

LOOK_SECONDS = 60.0
"""Patience for listings, which have no timeout of their own."""

AGAIN_S = 0.1
"""Pause before what is under way is looked at again."""

MACHINES = "KVM"
"""Hypervisor of hosts whose guests are virtual machines of Incus's; others' are containers."""

FORMATS = ("TAR",)
"""Format of a template whose url is an image of Incus's: metadata and root file system in one archive."""

FINGERPRINT = re.compile(r"[0-9a-f]{12,64}")
ALREADY = ("already exists", "UNIQUE constraint failed")
PASSING = ("Instance is busy running", f'Failed to start device "{GATE}"')
"""Incus's texts while an instance changes its state, such as where it plugs the gate into one that is stopping."""
NO_VOLUME = "Failed getting instance pool"
"""Incus's text where it made an instance, and then died before it made the instance's root volume."""


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
    """See the module."""

    options_model = IncusOptions
    is_watched = True

    def __init__(self, options: IncusOptions, incus: Incus) -> None:
        self._options, self._incus = options, incus
        self._events = GuestEvents(incus.access)
        self._slots = BoundedSemaphore(options.calls_at_once)
        self._turns = Turns()
        self._pools: dict[UUID, Pool] = {}
        self._is_clustered: bool | None = None

    @classmethod
    @override
    def from_options(cls, options: IncusOptions) -> Self:
        return cls(options, Incus(access_of(options)))

    @override
    def close(self) -> None:
        self._events.close()
        self._incus.close()

    # Hosts

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Return the hardware of the member ``incus://MEMBER``."""
        parts = urlsplit(host.access.url)
        name = parts.netloc  # a hostname would be in lower case
        if parts.scheme != "incus" or not name:
            raise DriverError("connect", ANY_HOST, "its url must be incus://MEMBER", transient=False)
        call = _Call(self, None, UUID(int=0), 0, timeout_s, named=name)
        address = self._member_address(call, name)
        target = call.target(name)
        runs = str(call.send("connect", "GET", path_of(), target=target).value["environment"].get("driver"))
        if host.hypervisor == MACHINES and "qemu" not in runs:
            lacks = "it needs QEMU, /dev/kvm and the module vhost_vsock"
            reason = f"member {name} runs no virtual machines ({runs}): {lacks}"
            raise DriverError("connect", name, reason, transient=False)
        found = call.send("connect", "GET", path_of("resources"), target=target).value
        cpu, memory = found["cpu"], found["memory"]
        frequencies = ("frequency_turbo", "frequency")  # the second is that of the moment
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

    def _member_address(self, call: "_Call", name: str) -> str:
        """Return the address of a member of the cluster. Raise an error if the member is not online."""
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
        """Return the guests of each host, with one list of all instances and one request per member.

        An instance whose state its answering member cannot report (Error) counts as running, unless it is gated.
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
        """Return whether the member itself answers. The request is sent through any member that answers."""
        (found,) = call_each([host], lambda one: self._request_member_state(one, timeout_s))
        return not isinstance(found, DriverError)

    def _request_member_state(self, host: HostAddress, timeout_s: float) -> str | None:
        """Request the state of a member, and return its name, or None if the server is no cluster.

        Raises:
            DriverError: the member does not answer.
        """
        call = _Call(self, host, UUID(int=0), 0, timeout_s)
        member = call.here()
        where = path_of() if member is None else path_of("cluster", "members", member, "state")
        call.send("look", "GET", where)
        return member

    def ended_guests(self, hosts: Sequence[HostAddress]) -> frozenset[UUID]:
        """Return the guests that ended according to the events of the cluster, which cover all members."""
        return self._events.ended() if hosts else frozenset()

    # Templates

    def ensure_template(self, host: HostAddress, pool_uuid: UUID, template_uuid: UUID, *, timeout_s: float) -> None:
        """Import an image into Incus, which copies it to the members and pools that need it."""
        image = self._records.directory.template(template_uuid)
        if image is None:
            raise DriverError("template", host.name, f"there is no template {template_uuid}", transient=False)
        if image.named_in(self._options.images) is not None:
            return
        call = _Call(self, host, template_uuid, 0, timeout_s)
        alias = path_of("images", "aliases", image_alias(image))
        if call.find("template", alias) is not None:
            return
        with self._turns.of(template_uuid, "template", call.host_name, timeout_s=call.left):
            if call.find("template", alias) is None:
                self._import(call, image, pool_uuid)

    def _import(self, call: "_Call", image: TemplateImage, pool_uuid: UUID) -> None:
        """Import an image once. It counts for its owner and for the first pool that needs it."""
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

    def source_of(self, guest: GuestSpec) -> dict[str, Any]:
        """Return the source of an instance's root disk in Incus's form."""
        template = guest.volumes[0].template_uuid if guest.volumes else None
        if template is None:
            return {"type": "none"}
        image = self._records.directory.template(template)
        if image is None:
            raise DriverError("volume", ANY_HOST, f"there is no template {template}", transient=False)
        named = image.named_in(self._options.images)
        alias = named or image_alias(image)
        is_fingerprint = named is not None and FINGERPRINT.fullmatch(alias) is not None
        return {"type": "image", ("fingerprint" if is_fingerprint else "alias"): alias}

    # Guests

    @override
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = _Call(self, host, guest.uuid, fence, timeout_s)
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
                raise DriverError("boot", host.name, "the instance has ended at once", transient=True)

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop an instance and prevent Incus from starting it. The instance is kept."""
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "stop", call.host_name, timeout_s=call.left):
            call.fenced_here("stop")
            call.close("stop", patience_s=0.0 if forced else self._options.shutdown_seconds)
            self._records.fences.release(guest_uuid, fence)

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Stop and gate the instance if it is on this member. An instance on another member is not changed."""
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "stop", call.host_name, timeout_s=call.left):
            call.raise_fence_elsewhere("stop")
            found = call.look("stop")
            if found is not None and found.member == call.here():
                call.close("stop", patience_s=0.0)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a guest. An instance that does not run is gated against late starts."""
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "look", call.host_name, timeout_s=call.left):
            where = call.fenced_here("look")
            found = call.look("look")
            while found is not None and not found.runs and not (found.is_gated and found.fence >= fence):
                call.change("look", found, gated(found, fence))
                found = call.look("look")
            if found is None or not found.runs:
                call.let_go(where)
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

        If the root disk is not among ``volume_uuids``, the instance is stopped and kept.
        """
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        with self._turns.of(guest_uuid, "delete", call.host_name, timeout_s=call.left):
            call.fenced_here("delete")
            call.settle("delete")
            found = call.close("delete", patience_s=0.0)
            if found is not None and (found.root is None or found.root.uuid in volume_uuids):
                call.run("delete", "DELETE", call.path, tolerate=("not found",))
            self._records.fences.release(guest_uuid, fence)
            with self._records.fences.volumes_in_use(volume_uuids) as used:
                if used:  # by another guest, or by this one, which was started since
                    raise DriverError(
                        "delete", call.host_name, "another guest uses one of its volumes", transient=True
                    )
                for pool in {self._incus_pool(pool) for pool in self._pools_of(volume_uuids)}:
                    for volume in call.volumes("delete", pool):
                        if volume.uuid in volume_uuids:
                            call.remove_volume(volume)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume. A root disk is deleted with its instance."""
        call = _Call(self, None, UUID(int=0), 0, timeout_s)
        with self._records.fences.volumes_in_use([volume_uuid]) as used:
            if used:
                reason = f"guest {used[volume_uuid]} uses volume {volume_uuid}"
                raise DriverError("delete", ANY_HOST, reason, transient=True)
            for volume in call.volumes("delete", self._incus_pool(self._pool(pool_uuid))):
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
        call = _Call(self, host, guest.uuid, fence, timeout_s)
        with self._turns.of(guest.uuid, "scale", call.host_name, timeout_s=call.left):
            call.fenced_here("scale")

            def scaled(found: Instance) -> Mapping[str, Any]:
                config = {**found.config, **limits(guest), f"{KEY}fence": str(fence)}
                return {**found.definition, "config": config}

            call.change_running("scale", scaled)

    @override
    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = _Call(self, host, guest.uuid, fence, timeout_s)
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
        call = _Call(self, host, guest_uuid, fence, timeout_s)
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
                    reason = "a running guest's volume only grows"
                    raise DriverError("resize", host.name, reason, transient=False)
                call.resize(there, volume.size_bytes)

    @override
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        call = _Call(self, None, guest_uuid, fence, timeout_s)
        call.raise_fence("look")
        found = call.look("look")
        if found is not None and found.root is not None and found.root.uuid == volume.uuid:
            return found.root.size_bytes
        there = call.find_volume("look", volume)
        return None if there is None else there.size_bytes

    # Snapshots: that of the instance, with the root disk, is taken last and goes first: where it is, all are

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
                call.remove_snapshot("snapshot", where, member, snapshot.uuid)  # of a call that broke off
                body = {"name": str(snapshot.uuid)}
                call.run("snapshot", "POST", f"{where}/snapshots", body, target=member)

    def ensure_reverted(
        self, host: HostAddress | None, guest: GuestSpec, snapshot: SnapshotSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Restore the instance from a snapshot, with its gate, and write the call's fence to it again."""
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
    ) -> "Iterator[_Call]":
        """Return a call about a guest that does not run, and that is not started meanwhile."""
        if host is not None:
            reason = "snapshots in Incus are of guests that do not run"
            raise DriverError(step, host.name, reason, transient=False)
        call = _Call(self, None, guest.uuid, fence, timeout_s)
        with (
            self._turns.of(guest.uuid, step, call.host_name, timeout_s=call.left),
            self._records.fences.volumes_in_use([volume.uuid for volume in guest.volumes]) as used,
        ):
            if call.fenced_here(step).host_uuids:
                raise call.error(step, "the guest is on a host")
            if used:
                raise call.error(step, "another guest uses a volume of it", transient=True)
            found = call.look(step)
            if found is not None and found.runs:
                raise call.error(step, "the guest runs")
            call.close(step, patience_s=0.0)
            yield call

    # Consoles

    # There are no VNC consoles, because Incus shows screens by SPICE.

    @override
    def open_serial_console(self, host: HostAddress, guest_uuid: UUID, *, timeout_s: float) -> socket.socket:
        return _Call(self, host, guest_uuid, 0, timeout_s).open_serial()

    # Lists

    def list_guests(self) -> Iterator[Guest]:
        """List the instances that run or that Incus may start."""
        call = _Call(self, None, UUID(int=0), 0, LOOK_SECONDS)
        hosts = {call.target(member_of(host)): host.uuid for host in self._records.directory.hosts()}
        call.require_members("list", hosts)
        for one in self._instances("list", LOOK_SECONDS, whole=True):
            if one.member in hosts:
                if not one.is_seen:
                    text = f"instance {one.uuid} is not seen"
                    raise DriverError("list", one.member or ANY_HOST, text, transient=True)
                if one.runs or not one.is_gated:
                    yield one.guest(hosts[one.member])

    @override
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        call = _Call(self, None, UUID(int=0), 0, LOOK_SECONDS)
        call.require_members("list", {call.target(member_of(host)) for host in self._records.directory.hosts()})
        yield from self._volumes(call, self._instances("list", LOOK_SECONDS, whole=True))

    @override
    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        call = _Call(self, None, UUID(int=0), 0, LOOK_SECONDS)
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
        volumes there.
        """
        call = _Call(self, None, UUID(int=0), 0, LOOK_SECONDS)
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

    def _volumes(self, call: "_Call", instances: Sequence[Instance]) -> Iterator[tuple[UUID, UUID, int]]:
        """List the root volumes of these instances, all data volumes, and root volumes without an instance.

        A root volume without an instance is listed by the uuid of the guest that it is named after.
        """
        for one in instances:
            if one.root is not None:
                yield one.root.uuid, one.root.pool_uuid, one.root.size_bytes
        pools: dict[str, UUID] = {}
        for pool in self._records.directory.pools():
            pools.setdefault(self._incus_pool(pool), pool.uuid)
        for incus_pool, pool_uuid in sorted(pools.items()):
            for volume in call.volumes("list", incus_pool):
                yield volume.uuid, volume.pool_uuid, volume.size_bytes
            for guest_uuid, _ in call.orphans("list", incus_pool):
                yield guest_uuid, pool_uuid, 0

    def _instances(
        self, step: str, timeout_s: float, *, whole: bool = False, unseen: dict[UUID, str] | None = None
    ) -> list[Instance]:
        """Return our instances. For a member that has just become silent, Incus reports only their names.

        Such instances are omitted, and added to ``unseen`` by their guest.

        Raises:
            DriverError: no answer; or ``whole`` is true and the list would lack such instances.
        """
        call = _Call(self, None, UUID(int=0), 0, timeout_s)
        rows = call.send(step, "GET", path_of("instances"), recursion=1).value or ()
        for row in rows if whole or unseen is not None else ():
            guest_uuid = guest_of(row["name"]) if row["status"] in UNSEEN else None
            if guest_uuid is not None:
                reason = f"instance {row['name']} is not seen: its member does not answer"
                if unseen is None:
                    raise DriverError(step, row.get("location") or ANY_HOST, reason, transient=True)
                unseen[guest_uuid] = reason
        return [one for row in rows if (one := _read(step, call.host_name, row)) is not None]

    # Pools

    def _pool(self, pool_uuid: UUID) -> Pool:
        if pool_uuid not in self._pools:
            self._pools = {pool.uuid: pool for pool in self._records.directory.pools()}
        if pool_uuid not in self._pools:
            raise DriverError("volume", ANY_HOST, f"no host reaches pool {pool_uuid}", transient=False)
        return self._pools[pool_uuid]

    def _pools_of(self, volume_uuids: Sequence[UUID]) -> Iterable[Pool]:
        return self._records.directory.pools_of_volumes(volume_uuids) if volume_uuids else ()

    def _incus_pool(self, pool: Pool) -> str:
        """Return the name in Incus of a pool of the service."""
        named = self._options.storage_pools.get(pool.name)
        if named is None and pool.host_uuid is not None:
            named = self._options.local_pool
        return named or pool.name


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


class _Call(FencedCall):
    """A call about one guest and its instance. ``named`` is the host's name in errors if there is no host."""

    def __init__(
        self,
        driver: IncusDriver,
        host: HostAddress | None,
        guest_uuid: UUID,
        fence: int,
        timeout_s: float,
        *,
        named: str = ANY_HOST,
    ) -> None:
        super().__init__(driver._records.fences, host, guest_uuid, fence, timeout_s)
        self._driver, self._named = driver, named
        self.path = path_of("instances", instance_name(guest_uuid))
        self.state = f"{self.path}/state"

    @property
    @override
    def host_name(self) -> str:
        return self._named if self.host is None else self.host.name

    # Requests

    def send(self, step: str, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Return a request that is answered at once."""
        try:
            return self._driver._incus.send(method, path, body, timeout_s=self.left, **more)
        except (Refused, NotAnswered) as error:
            raise failure(step, self.host_name, error) from error

    def find(self, step: str, path: str) -> Answer | None:
        """Return the answer for a path, or None if it does not exist."""
        try:
            return self._driver._incus.send("GET", path, timeout_s=self.left)
        except Refused as error:
            if error.code == NOT_FOUND:
                return None
            raise failure(step, self.host_name, error) from error
        except NotAnswered as error:
            raise failure(step, self.host_name, error) from error

    def run(
        self, step: str, method: str, path: str, body: Any = None, *, tolerate: Sequence[str] = (), **more: Any
    ) -> dict[str, Any]:
        """Run an operation, wait for its end, and return its result.

        Rejections with one of the texts in ``tolerate`` are ignored.
        """
        try:
            with self._driver._slots:
                return self._driver._incus.run(method, path, body, timeout_s=self.left, **more)
        except Refused as error:
            if any(text in error.text for text in tolerate):
                return {}
            raise failure(step, self.host_name, error) from error
        except NotAnswered as error:
            raise failure(step, self.host_name, error) from error

    def settle(self, step: str) -> None:
        """Wait for operations on the instance whose responses were lost, so that their results are visible."""
        try:
            self._driver._incus.wait_for_operations(self.path, timeout_s=self.left)
        except (Refused, NotAnswered) as error:
            raise failure(step, self.host_name, error) from error

    def require_members(self, step: str, names: Collection[str | None]) -> None:
        """Raise an error unless all these members are online. None stands for a server that is no cluster.

        The cluster omits the volumes of a silent member, and does not know the states of its instances. A list
        without them would report them as lost.

        Raises:
            DriverError: a member is silent, so that a list would not be whole.
        """
        for member, reason in self.silent_members(step, names).items():
            raise DriverError(step, member, reason, transient=True)

    def silent_members(self, step: str, names: Collection[str | None]) -> dict[str, str]:
        """Return those of these members that are not online, with the reason why lists omit their objects."""
        if not set(names) - {None}:
            return {}
        members = self.send(step, "GET", path_of("cluster", "members"), recursion=1).value or ()
        return {
            name: f"member {name} is {member['status']}: what it has is unknown"
            for member in members
            if (name := member["server_name"]) in names and member["status"] != "Online"
        }

    def server(self) -> dict[str, Any]:
        """Return the server's description of itself. Raise an error if it does not trust the client certificate."""
        found = self.send("connect", "GET", path_of()).value
        self._driver._is_clustered = bool(found["environment"]["server_clustered"])
        if found["auth"] != "trusted":
            reason = "the cluster does not trust the client certificate: incus config trust add-certificate"
            raise DriverError("connect", self.host_name, reason, transient=False)
        return dict(found)

    def target(self, member: str) -> str | None:
        """Return the name by which a request addresses a member, or None if the server is no cluster."""
        if self._driver._is_clustered is None:
            self.server()
        return member if self._driver._is_clustered else None

    def here(self) -> str | None:
        """Return the name by which a request addresses the call's host."""
        assert self.host is not None  # noqa: S101 - asked only for a host
        return self.target(member_of(self.host))

    # The instance

    def look(self, step: str) -> Instance | None:
        """Return the instance, or None if it does not exist and is not being created."""
        answer = self.find(step, self.path)
        found = None if answer is None else _read(step, self.host_name, answer.value, answer.etag or "")
        if answer is not None and found is None:
            text = f"instance {instance_name(self.guest)} is not of bulkdeploy"
            raise DriverError(step, self.host_name, text, transient=False)
        if found is not None and not found.is_seen:
            text = f"Incus does not know whether the guest runs: its state is {found.status!r}"
            raise DriverError(step, self.host_name, text, transient=True)
        if found is not None and found.fence > self.fence:
            raise self.stale(step)
        return found

    def check_member(self, step: str, found: Instance) -> None:
        """Refuse an instance that is on another member."""
        if self.host is not None and found.member != self.here():
            text = f"guest {self.guest} is on member {found.member}"
            raise DriverError(step, self.host_name, text, transient=False)

    def running(self, step: str) -> Instance:
        """Return the instance, which runs on the call's host."""
        found = self.look(step)
        if found is None or not found.runs:
            raise DriverError(step, self.host_name, "the guest does not run there", transient=False)
        self.check_member(step, found)
        return found

    def open_serial(self) -> socket.socket:
        """Return the serial console of the guest, which runs on the call's host."""
        answer = self.find("console", self.path)
        found = None if answer is None else _read("console", self.host_name, answer.value)
        if found is None or not found.runs:
            raise self.error("console", "the guest does not run there")
        self.check_member("console", found)
        begun = self.send("console", "POST", f"{self.path}/console", CONSOLE)
        try:
            return open_serial(self._driver._incus.access, begun.value, timeout_s=self.left)
        except NotAnswered as error:
            raise failure("console", self.host_name, error) from error

    def change(self, step: str, found: Instance, definition: Mapping[str, Any]) -> bool:
        """Change the instance if it is unchanged since ``found`` was read.

        Returns False if another call has changed it or is changing it; the caller then reads it again.
        """
        try:
            with self._driver._slots:
                self._driver._incus.run("PUT", self.path, definition, timeout_s=self.left, if_match=found.etag)
        except Refused as error:
            if NO_VOLUME in error.text and self.remove_unfinished(step, found):
                return False
            is_passing = error.code in (CHANGED, NOT_FOUND) or any(text in error.text for text in PASSING)
            if is_passing and not self.is_over:
                time.sleep(AGAIN_S)
                return False
            raise failure(step, self.host_name, error) from error
        except NotAnswered as error:
            raise failure(step, self.host_name, error) from error
        return True

    def remove_unfinished(self, step: str, found: Instance) -> bool:
        """Delete an instance without a root volume and return True. Return False for any other instance.

        Incus starts no such instance, and responds with an error to every change, of which it keeps some. An
        instance that has run before is deleted only in the step ``delete``.
        """
        if found.root is None or (step != "delete" and LAST_POWER in found.config):
            return False
        rows = self._volume_rows(step, found.root.incus_pool, found.kind)
        if any(row["name"] == instance_name(self.guest) for row in rows):
            return False
        unprotected = {"config": {PROTECTION: "false"}}
        self.run(step, "PATCH", self.path, unprotected, tolerate=(NO_VOLUME, "not found"))
        self.run(step, "DELETE", self.path, tolerate=("not found",))
        return True

    def change_running(self, step: str, definition: Callable[[Instance], Mapping[str, Any]]) -> None:
        """Change the instance, which runs on the call's host."""
        found = self.running(step)
        while not self.change(step, found, definition(found)):
            found = self.running(step)

    def make(self, guest: GuestSpec) -> Instance:
        """Create the instance, gated. An instance that exists by now is no error."""
        driver = self._driver
        root = guest.volumes[0] if guest.volumes else None
        pool = None if root is None else driver._incus_pool(driver._pool(root.pool_uuid))
        assert self.host is not None  # noqa: S101 - only starts make
        kind = VIRTUAL_MACHINE if self.host.hypervisor == MACHINES else CONTAINER
        source = driver.source_of(guest)
        body = new_instance(guest, kind, source, pool, self.fence, driver._options)
        self.run("volume", "POST", path_of("instances"), body, target=self.here(), tolerate=ALREADY)
        found = self.look("volume")
        if found is None:
            reason = "the instance was not made"
            if pool is not None and (self.guest, self.here()) in self.orphans("volume", pool):
                reason += f": its member has a root volume {instance_name(self.guest)} in pool {pool} without it"
            raise DriverError("volume", self.host_name, reason, transient=True)
        return found

    def undo(self, found: Instance) -> None:
        """Delete the instance that an overtaken start has created, unless a later call has taken it over."""
        if found.fence == self.fence and found.is_gated:
            self.run("delete", "DELETE", self.path, tolerate=("not found", "running", "protected"))

    def bring_here(self, found: Instance) -> Instance:
        """Move a stopped instance to the call's member. Incus moves its root disk as well."""
        closed = self.close("boot", patience_s=0.0)
        if closed is not None and closed.member != self.here():
            body = {"name": instance_name(self.guest), "migration": True}
            self.run("boot", "POST", self.path, body, target=self.here())
            closed = self.look("boot")
        if closed is None or closed.member != self.here():
            raise DriverError(
                "boot", self.host_name, f"the instance is still on member {found.member}", transient=True
            )
        return closed

    def open(self, guest: GuestSpec, volumes: Sequence[Volume]) -> None:
        """Take the gate away, under the call's fence."""
        while True:
            found = self.look("boot")
            if found is None:
                raise DriverError("boot", self.host_name, "the instance was removed", transient=True)
            if found.runs:
                self.check_member("boot", found)
                return
            try:
                definition = opened(found, guest, volumes, self.fence, self._driver._options)
            except UnicodeDecodeError as error:
                reason = "its user data must be text: Incus takes no other"
                raise DriverError("boot", self.host_name, reason, transient=False) from error
            if self.change("boot", found, definition):
                return

    def close(self, step: str, *, patience_s: float) -> Instance | None:
        """Stop and gate the instance under the call's fence, and return it, or None if it does not exist."""
        is_again = False
        while (found := self.look(step)) is not None:
            if not found.runs and found.is_gated and found.fence >= self.fence:
                return found
            if self.is_over:
                text = f"instance {instance_name(self.guest)} is {found.status}: it did not stop in time"
                raise DriverError(step, self.host_name, text, transient=True)
            seconds = int(min(patience_s, self.left / 2))
            if not found.runs:
                self.change(step, found, gated(found, self.fence))
            elif seconds > 0:
                self.run(step, "PUT", self.state, {"action": "stop", "timeout": seconds}, tolerate=("",))
                patience_s = 0.0
            else:
                time.sleep(AGAIN_S if is_again else 0)
                is_again = True
                stopped = {"action": "stop", "force": True, "timeout": -1}
                self.run(step, "PUT", self.state, stopped, tolerate=("not running", "already stopped", "not found"))
        return None

    # Volumes

    def volumes(self, step: str, pool: str) -> Iterator[Volume]:
        """Our data volumes in a pool of Incus's."""
        for row in self._volume_rows(step, pool):
            if (volume := read_volume(row, pool)) is not None:
                yield volume

    def _volume_rows(self, step: str, pool: str, kind: str = "custom") -> list[dict[str, Any]]:
        where = path_of("storage-pools", pool, "volumes", kind)
        return list(self.send(step, "GET", where, recursion=1).value or ())

    def orphans(self, step: str, pool: str) -> list[tuple[UUID, str | None]]:
        """Return the root volumes of a pool of Incus's that have no instance, as ``read_orphans`` does."""
        volumes = [row for kind in KINDS for row in self._volume_rows(step, pool, kind)]
        return list(read_orphans(volumes, self.send(step, "GET", path_of("instances"), recursion=1).value or ()))

    def find_volume(self, step: str, volume: VolumeSpec) -> Volume | None:
        """Return a data volume as Incus reports it, or None if it does not exist."""
        driver = self._driver
        pool = driver._incus_pool(driver._pool(volume.pool_uuid))
        return next((one for one in self.volumes(step, pool) if one.uuid == volume.uuid), None)

    def ensure_volume(self, volume: VolumeSpec, kind: str, *, step: str = "volume") -> Volume:
        """Return a data volume that the call's member reaches, at least as large as wanted."""
        driver = self._driver
        pool = driver._incus_pool(driver._pool(volume.pool_uuid))
        where = path_of("storage-pools", pool, "volumes", "custom")
        new = new_volume(volume, kind)
        while True:
            there = [row for row in self._volume_rows(step, pool) if row["name"] == str(volume.uuid)]
            places = [read_location(row) for row in there]
            if not there and volume.was_made:
                raise lost_volume(step, self.host_name, volume)
            if not there:
                self.run(step, "POST", where, new, target=self.here(), tolerate=ALREADY)
            elif places in ([None], [self.here()]):
                found = read_volume(there[0], pool)
                if found is not None:
                    break
                config = {"config": new["config"]}  # a move leaves it behind
                self.run(step, "PATCH", f"{where}/{volume.uuid}", config, target=places[0])
            elif len(there) == 1:
                moved = {"name": str(volume.uuid), "pool": pool, "migration": True}
                source = {"source": {"location": places[0]}}
                self.run(
                    step, "POST", f"{where}/{volume.uuid}", moved | source, target=self.here(), tolerate=ALREADY
                )
            if self.is_over:
                reason = f"volume {volume.uuid} is on {places}: it is still being moved, or its move broke off"
                raise DriverError(step, self.host_name, reason, transient=True)
            time.sleep(AGAIN_S if there else 0)
        if found.size_bytes < volume.size_bytes:
            self.resize(found, volume.size_bytes, step=step)
        return found

    def places(self, step: str, guest: GuestSpec) -> list[tuple[str, str | None]]:
        """Return the API paths of the guest's data volumes and of its instance, with their members.

        The instance, which is last, has the guest's root volume.
        """
        found = [self.find_volume(step, volume) for volume in guest.volumes[1:]]
        volumes = [(_path_of_volume(volume), volume.member) for volume in found if volume is not None]
        return [*volumes, (self.path, None)]

    def has_snapshot(self, step: str, uuid: UUID) -> bool:
        """Return whether the instance has this snapshot, which is complete then."""
        return self.find(step, f"{self.path}/snapshots/{uuid}") is not None

    def remove_snapshot(self, step: str, where: str, member: str | None, uuid: UUID) -> None:
        """Remove a snapshot of an instance or a volume."""
        self.run(step, "DELETE", f"{where}/snapshots/{uuid}", target=member, tolerate=("not found",))

    def resize(self, volume: Volume, size_bytes: int, *, step: str = "resize") -> None:
        """Change the size of a data volume."""
        self.run(
            step, "PATCH", _path_of_volume(volume), {"config": {"size": f"{size_bytes}B"}}, target=volume.member
        )

    def resize_root(self, found: Instance, volume: VolumeSpec) -> None:
        """Change the size of a root disk. Raise an error if the disk of a running guest would shrink."""
        while found.root is not None and found.root.size_bytes != volume.size_bytes:
            if found.runs and found.root.size_bytes > volume.size_bytes:
                reason = "a running guest's volume only grows"
                raise DriverError("resize", self.host_name, reason, transient=False)
            disk = {**found.devices[ROOT], "size": f"{volume.size_bytes}B"}
            config = {**found.config, f"{KEY}fence": str(self.fence)}
            devices = {**found.devices, ROOT: disk}
            if self.change("resize", found, {**found.definition, "config": config, "devices": devices}):
                return
            seen = self.look("resize")
            if seen is None:
                return
            found = seen

    def remove_volume(self, volume: Volume) -> None:
        """Delete a data volume. A missing volume is no error."""
        self.run("delete", "DELETE", _path_of_volume(volume), target=volume.member, tolerate=("not found",))


def _read(step: str, host_name: str, row: Mapping[str, Any], etag: str = "") -> Instance | None:
    """Return the instance of a row, or None if the row is not an instance of this service.

    An instance that was changed by hand and cannot be read is a permanent error.
    """
    try:
        return read_instance(row, etag)
    except (KeyError, ValueError) as error:
        text = f"instance {row.get('name')} was changed by hand and cannot be read: {error!r}"
        raise DriverError(step, host_name, text, transient=False) from error


def _path_of_volume(volume: Volume) -> str:
    return path_of("storage-pools", volume.incus_pool, "volumes", "custom", str(volume.uuid))


def member_of(host: HostAddress) -> str:
    """Return the member that a host is; in the case of its url, for names of members differ by case."""
    return (urlsplit(host.url).netloc if host.url else None) or host.name


def image_alias(image: TemplateImage) -> str:
    """Return the alias of an imported image in Incus."""
    return f"bulkdeploy-{image.key}"


def access_of(options: IncusOptions) -> Access:
    """Return the access to the cluster that the options describe."""
    client = None
    if options.certificate is not None and options.key is not None:
        client = (str(options.certificate), str(options.key))
    ca_file = None if options.ca_file is None else str(options.ca_file)
    return Access(options.urls, client, ca_file, options.fingerprint, options.project)


DRIVER = IncusDriver
