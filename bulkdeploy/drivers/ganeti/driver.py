"""The driver for Ganeti clusters: docs/how-to/ganeti.md (one file: one class, a method for each call of drivers).

A guest is the instance UUID.bulkdeploy, so that Ganeti itself rejects a second instance of the guest. Tags store
what Ganeti has no field for. The service's records contain the fences and the only host that may have a guest. A
fence is compared before an instance is requested and after the instance runs: a worker that lost its lease
meanwhile deletes the instance that it created. Instances that start together are created by one request. Instances
without the service's tag are never changed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, Self
from urllib.parse import urlsplit
from uuid import UUID

from typing_extensions import override

from bulkdeploy.domain.units import MIB
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes
from bulkdeploy.drivers.abilities.starts import TemplateVariants
from bulkdeploy.drivers.abilities.storage_units import StorageRepair, StorageUnit
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.batches import Answer, BatchDriver, GuestCall, RemoveCall, StartCall, StopCall
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, refuse_lost_volumes
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.ganeti.cluster import GanetiCluster
from bulkdeploy.drivers.ganeti.creations import Creations, NotSubmitted, names_there
from bulkdeploy.drivers.ganeti.devices import (
    DEVICE_PARAMETERS,
    mib,
    node_of,
)
from bulkdeploy.drivers.ganeti.instance_call import GanetiCall
from bulkdeploy.drivers.ganeti.instances import SUFFIX, TAG, GanetiInstance, guest_of, read_instance, silence_of
from bulkdeploy.drivers.ganeti.options import GanetiOptions
from bulkdeploy.drivers.ganeti.rapi import Access, JobFailed, Rapi, failure, path_of
from bulkdeploy.drivers.ganeti.storage import MODIFIABLE, NodeStorage
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.records import Records

LOOK_SECONDS = 60.0
"""The time limit of requests for listings, whose callers set no time limit, in seconds."""


class GanetiDriver(DataVolumes, LiveMigration, GrowingVolumes, StorageRepair, TemplateVariants, BatchDriver):
    """The driver for one Ganeti cluster. Threads share the object."""

    options_model = GanetiOptions
    device_parameters = DEVICE_PARAMETERS
    is_watched = True
    gathering_s = 0.5  # each request costs Ganeti more CPU time than this
    guests_may_end = False  # Ganeti's own watcher restarts guests that end

    def __init__(self, options: GanetiOptions, rapi: Rapi) -> None:
        self._options, self._rapi = options, rapi
        self._cluster = GanetiCluster(options, rapi)
        self._storage = NodeStorage(rapi, self._cluster.slots, options.disk_template)

    @classmethod
    @override
    def from_options(cls, options: GanetiOptions) -> Self:
        access = Access(
            tuple(url.rstrip("/") for url in options.urls),
            options.username,
            options.password.get_secret_value(),
            None if options.ca_file is None else str(options.ca_file),
            options.fingerprint,
        )
        return cls(options, Rapi(access))

    @override
    def use_records(self, records: Records) -> None:
        super().use_records(records)
        self._cluster.records = records

    @override
    def close(self) -> None:
        self._rapi.close()

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Return the hardware of the node with the url ``ganeti://NODE``.

        The memory excludes other services' instances and the reserved memory.

        Raises:
            DriverError: the url is invalid, the node cannot be used, or Ganeti does not answer.
        """
        parts = urlsplit(host.access.url)
        name = parts.hostname or ""
        if parts.scheme != "ganeti" or not name:
            raise DriverError("connect", "any host", "the url must be ganeti://NODE", transient=False)
        node = self._node(name, timeout_s)
        memory = self._cluster.nodes.read_memory("connect", timeout_s=timeout_s)
        return HostModel(
            name=node["name"],
            ip_address=node["pip"],
            cpu_sockets=node["csockets"] or 1,
            cpu_cores=node["ctotal"],
            cpu_mhz=self._options.cpu_mhz,
            memory_mib=memory.get(node["name"], 0),
            local_disk_bytes=(node["dtotal"] or 0) * MIB,
        )

    def look_at_hosts(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[Guest] | DriverError]:
        """Return the state of each node as ``HypervisorDriver.look_at_hosts`` does.

        Guests are not listed.

        The state follows from the flags that operators set in Ganeti and from whether the node answers the master.
        """
        return self._cluster.nodes.look_at(hosts, timeout_s=timeout_s)

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool:
        """Return whether the node answers Ganeti's master when the master reads the node's memory."""
        return self._cluster.nodes.answers(node_of(host), timeout_s=timeout_s)

    @override
    def declare_off(self, host: HostAddress, *, timeout_s: float) -> None:
        self._cluster.nodes.set_offline(node_of(host), timeout_s=timeout_s)

    def memory_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> Mapping[UUID, int]:
        """Return each node's memory minus that of other instances and the reserve for another node's failure."""
        memory = self._cluster.nodes.read_memory("look", timeout_s=timeout_s)
        return {host.uuid: memory[node_of(host)] for host in hosts if node_of(host) in memory}

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """Send these calls. Missing instances are created by one request; all other calls are made one by one."""
        starts = [call for call in calls if isinstance(call, StartCall)]
        made = self._make_many(starts, timeout_s) if len(starts) > 1 else {}
        return [made.get(call.guest_uuid) or partial(self._make_one, call, timeout_s) for call in calls]

    def _make_one(self, call: GuestCall, timeout_s: float) -> None:
        host_call = GanetiCall(self._cluster, call.host, call.guest_uuid, call.fence, timeout_s)
        match call:
            case StartCall():
                self._start(host_call, call.host, call.guest)
            case StopCall():
                self._stop(host_call, forced=call.forced, timeout_s=timeout_s)
            case RemoveCall():
                self._remove(host_call, call.volume_uuids)

    def _make_many(self, starts: Sequence[StartCall], timeout_s: float) -> dict[UUID, Answer]:
        """Request the missing instances of these calls with one request, and return an answer for each of them.

        The request contains only as many instances as there are free slots for jobs. Calls without an answer in the
        result are made one by one.
        """
        answers: dict[UUID, Answer] = {}
        wanted: list[tuple[GanetiCall, StartCall, dict[str, Any]]] = []
        for start in starts:
            call = GanetiCall(self._cluster, start.host, start.guest.uuid, start.fence, timeout_s)
            try:
                call.claim("boot", [volume.uuid for volume in start.guest.volumes])
                wanted.append((call, start, call.definition(start.guest)))
            except DriverError as error:
                answers[call.guest] = partial(_fail, error)
        submitted: list[tuple[GanetiCall, StartCall, dict[str, Any]]] = []
        try:
            there = names_there(self._rapi, [call.name for call, _, _ in wanted], timeout_s=timeout_s)
            new = [one for one in wanted if one[0].name not in there and self._is_new(one[1].guest)]
            submitted += [one for one in new if self._cluster.slots.acquire(blocking=False)]
            if submitted:
                answers |= self._submit(submitted, timeout_s)
        except BaseException as error:
            for _ in submitted:
                self._cluster.slots.release()
            if not isinstance(error, NotAnswered | JobFailed | DriverError):
                raise
            # Each call then finds out by itself whether its instance was created.
        return answers

    def _submit(
        self, wanted: Sequence[tuple[GanetiCall, StartCall, dict[str, Any]]], timeout_s: float
    ) -> dict[UUID, Answer]:
        """Submit one request for all of these guests for which secondary nodes were found.

        Each guest has a slot, which is released when its creation ends.
        """
        answers: dict[UUID, Answer] = {}
        with self._cluster.mirrors.placed(
            [definition for _, _, definition in wanted], timeout_s=timeout_s
        ) as placed:
            both = list(zip(wanted, placed, strict=True))
            fitting = [(one, found) for one, found in both if not isinstance(found, DriverError)]
            if fitting:
                definitions = [definition for _, definition in fitting]
                creations = Creations(self._rapi, definitions, f"{TAG}many", timeout_s=timeout_s)
        for position, ((call, start, _), _) in enumerate(fitting):
            answers[call.guest] = partial(self._wait_for, call, start, creations, position)
        for (call, _, _), found in both:
            if isinstance(found, DriverError):
                answers[call.guest] = partial(_fail, found)
                self._cluster.slots.release()
        return answers

    def _wait_for(self, call: GanetiCall, start: StartCall, creations: Creations, position: int) -> None:
        """Wait for the end of a creation that was requested together with others.

        If Ganeti created no job for the instance, it is requested again alone.
        """
        try:
            self._wait_for_job(call, creations, position)
        except NotSubmitted:
            self._start(call, start.host, start.guest)
        else:
            call.keep_or_undo()

    def _wait_for_job(self, call: GanetiCall, creations: Creations, position: int) -> None:
        try:
            number = creations.job_of(position, timeout_s=call.left)
            self._rapi.wait(number, timeout_s=call.left)
        except (NotAnswered, JobFailed) as error:
            call.check_made(failure("volume", call.host_name, error))
        finally:
            self._cluster.slots.release()

    def _start(self, call: GanetiCall, host: HostAddress, guest: GuestSpec) -> None:
        volumes = [volume.uuid for volume in guest.volumes]
        call.claim("boot", volumes)
        found = call.look("boot")
        if found is not None and not found.runs and set(found.volumes) != set(volumes):
            self._check_movable(host, found)
            call.run("volume", "DELETE", "instances", call.name, shutdown_timeout="0")
            call.make(guest)
        elif found is None:
            if self._has_disks:
                refuse_lost_volumes("volume", host.name, guest)
            call.make(guest)
        elif found.node != node_of(host):
            call.bring_here(found)
        call.keep_or_undo()
        if found is not None and not found.runs:
            call.grow(guest.volumes, found, step="volume")
            call.run("boot", "PUT", "instances", call.name, "startup")
        if found is not None and found.secondary is not None:
            call.keep_mirrored()

    def _stop(self, call: GanetiCall, *, forced: bool, timeout_s: float) -> None:
        """Stop the instance of a guest, and record that the guest is on no host. The instance is kept."""
        call.fenced_here("stop")
        found = call.look_at_state("stop")
        if found is not None and (found.runs or found.wanted):
            patience = 0 if forced else int(min(timeout_s / 2, 120))
            call.run("stop", "PUT", "instances", call.name, "shutdown", body={"timeout": patience})
        self._records.fences.release(call.guest, call.fence)

    def _remove(self, call: GanetiCall, volume_uuids: Sequence[UUID]) -> None:
        """Delete the instance of a guest if ``volume_uuids`` contains all its volumes. Otherwise only stop it."""
        call.fenced_here("delete")
        found = call.look_at_state("delete")
        if found is not None:
            if set(found.volumes) <= set(volume_uuids):
                call.run("delete", "DELETE", "instances", call.name, shutdown_timeout="0")
            elif found.runs or found.wanted:
                call.run("delete", "PUT", "instances", call.name, "shutdown", body={"timeout": 0})
        self._records.fences.release(call.guest, call.fence)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of an instance on this node.

        An instance that is stopped, and that Ganeti shall not start, counts as absent (None).
        """
        call = GanetiCall(self._cluster, host, guest_uuid, fence, timeout_s)
        where = call.fenced_here("look")
        found = call.look_at_state("look")
        if found is None or not (found.runs or found.wanted):
            call.record_absence(where)
            return None
        if found.node != node_of(host):
            raise DriverError("look", host.name, f"guest {guest_uuid} is on node {found.node}", transient=False)
        return PowerState.RUNNING if found.runs else PowerState.STOPPED

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Stop an instance if this host is its primary node. Otherwise do nothing."""
        call = GanetiCall(self._cluster, host, guest_uuid, fence, timeout_s)
        call.raise_fence_elsewhere("stop")
        found = call.look_at_state("stop")
        if found is not None and found.node == node_of(host) and (found.runs or found.wanted):
            call.run("stop", "PUT", "instances", call.name, "shutdown", body={"timeout": 0})

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """Stop the guests on this node except ``kept``.

        Ganeti lists a guest only on its primary node. A guest that was started elsewhere while this node was silent
        may still run here, too. Its instance has a tag that names this node.
        """
        node = node_of(host)
        for one in [one for one in self._instances(timeout_s) if one.uuid not in kept]:
            if one.node == node:
                fence = self._records.fences.highest(one.uuid)
                self.ensure_copy_gone(host, one.uuid, fence=fence, timeout_s=timeout_s)
            elif node in one.left_nodes:
                GanetiCall(self._cluster, host, one.uuid, 0, timeout_s).end_copy()

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume that still belongs to a stopped instance.

        Raises:
            DriverError: a guest uses the volume.
        """
        with self._records.fences.volumes_in_use([volume_uuid]) as used:
            for one in self._instances(timeout_s):
                if one.volumes.get(volume_uuid, (None,))[0] == pool_uuid:
                    if used or one.runs or one.wanted:
                        raise DriverError("delete", ANY_HOST, f"guest {one.uuid} has the volume", transient=True)
                    GanetiCall(self._cluster, None, one.uuid, 0, timeout_s).drop(one, volume_uuid)

    @override
    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = GanetiCall(self._cluster, destination, guest.uuid, fence, timeout_s)
        where = call.raise_fence("migrate")
        if where.host_uuids - {source.uuid, destination.uuid}:
            raise call.elsewhere("migrate")
        found = call.look_at_state("migrate")
        if found is None or not found.runs:
            raise DriverError("migrate", destination.name, "the guest does not run", transient=False)
        if found.secondary is not None:
            call.move("migrate", source, destination)
            if not call.bring_mirrored("migrate").runs:
                raise call.error("migrate", "the guest does not run any more")
            call.keep_mirrored()
        elif found.node != node_of(destination):
            call.move("migrate", source, destination)
            body = {"target_node": node_of(destination), "allow_failover": False, "cleanup": False}
            try:
                call.run("migrate", "PUT", "instances", call.name, "migrate", body=body)
            except DriverError:
                found = call.look_at_state("migrate")  # another call may have moved it
                if found is None or not found.runs or found.node != node_of(destination):
                    raise
        call.move("migrate", destination, None)

    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Grow a disk of an instance.

        Disks of Ganeti cannot shrink.

        Raises:
            DriverError: the guest does not run on ``host``, or the disk would shrink.
        """
        call = GanetiCall(self._cluster, host, guest_uuid, fence, timeout_s)
        call.fenced_here("resize")
        found = call.look_at_state("resize")
        if host is not None and (found is None or not found.runs or found.node != node_of(host)):
            raise call.error("resize", f"guest {guest_uuid} does not run there")
        if found is None or volume.uuid not in found.volumes:
            return
        if found.volumes[volume.uuid][1] > volume.size_bytes:
            raise call.error("resize", "disks of Ganeti cannot shrink")
        call.grow([volume], found, step="resize")

    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """Return the size of a volume in bytes after all jobs that may change it have ended.

        Returns None if the volume does not exist.
        """
        call = GanetiCall(self._cluster, None, guest_uuid, fence, timeout_s)
        call.raise_fence("look")
        call.settle("look")
        found = call.look("look")
        if found is None or volume.uuid not in found.volumes:
            return None
        sizes = dict(zip(found.disk_names, found.disk_sizes, strict=False))
        is_grown = sizes.get(str(volume.uuid)) == mib(volume)
        return volume.size_bytes if is_grown else found.volumes[volume.uuid][1]

    def list_guests(self) -> Iterator[Guest]:
        """List the instances that run or that Ganeti is about to start."""
        hosts = {node_of(host): host.uuid for host in self._records.directory.hosts()}
        for one in self._instances(LOOK_SECONDS):
            if (one.runs or one.wanted) and one.node in hosts:
                power = PowerState.RUNNING if one.runs else PowerState.STOPPED
                sizes = (one.vcpus, one.mhz, one.memory)
                yield Guest(one.uuid, hosts[one.node], power, *sizes, frozenset(one.volumes))

    def list_seen_guests(self, unseen: dict[UUID, str]) -> Iterator[Guest]:
        """Yield the guests whose state is known, and add the others to ``unseen`` with the reason.

        Ganeti does not know the state of instances on a node that does not answer.
        """
        silent = {one.uuid: one for one in self._silent_instances(unseen)}
        unseen.update((uuid, silence_of(one)) for uuid, one in silent.items())
        yield from (guest for guest in super().list_seen_guests(unseen) if guest.uuid not in silent)

    def _silent_instances(self, unseen: dict[UUID, str]) -> list[GanetiInstance]:
        """Return the instances whose state Ganeti does not know.

        If Ganeti does not answer, the list is empty and all hosts are added to ``unseen``.
        """
        try:
            return [one for one in self._instances(LOOK_SECONDS) if not one.is_seen]
        except DriverError as error:
            unseen.update((host.uuid, str(error)) for host in self._records.directory.hosts())
            return []

    @override
    def find_guest(self, guest_uuid: UUID) -> Sequence[Guest]:
        unseen: dict[UUID, str] = {}
        found = [guest for guest in self.list_seen_guests(unseen) if guest.uuid == guest_uuid]
        hosts = {host.uuid for host in self._records.directory.hosts()}
        for uuid, reason in unseen.items():
            if uuid == guest_uuid or uuid in hosts:
                raise DriverError("look", ANY_HOST, reason, transient=True)
        return found

    @override
    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        for one in self._instances(LOOK_SECONDS):
            for volume, (pool, size_bytes) in one.volumes.items():
                yield volume, pool, size_bytes

    @override
    def units_of_host(self, host: HostAddress, *, timeout_s: float) -> Sequence[StorageUnit]:
        return self._storage.units_of(node_of(host), self._records.directory.pools_of_host(host.uuid), timeout_s)

    def set_allocatable(self, host: HostAddress, unit: StorageUnit, *, allocatable: bool, timeout_s: float) -> None:
        """Allow or stop allocation on a physical volume of LVM.

        Raises:
            DriverError: the unit is of another type, for which Ganeti does not support this.
        """
        if unit.unit_type not in MODIFIABLE:
            super().set_allocatable(host, unit, allocatable=allocatable, timeout_s=timeout_s)
        self._storage.modify(node_of(host), unit, allocatable=allocatable, timeout_s=timeout_s)

    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        """Remove lost disks from a volume group, as ``gnt-node repair-storage`` does."""
        self._storage.repair(node_of(host), unit, timeout_s)

    @property
    def _has_disks(self) -> bool:
        """True if instances have disks."""
        return self._options.disk_template != "diskless"

    def _is_new(self, guest: GuestSpec) -> bool:
        """Return True if the guest may be created, because none of its volumes existed before."""
        return not (self._has_disks and any(volume.was_made for volume in guest.volumes))

    def _check_movable(self, host: HostAddress, found: GanetiInstance) -> None:
        if found.volumes and self._has_disks:
            text = f"instance {found.uuid}{SUFFIX} has other volumes: {', '.join(map(str, found.volumes))}"
            raise DriverError("volume", host.name, text, transient=False)

    def _node(self, name: str, timeout_s: float) -> dict[str, Any]:
        try:
            node = self._rapi.send("GET", path_of("nodes", name), timeout_s=timeout_s)
            path = path_of("groups", "" if node is None else node["group.uuid"])
            group = None if node is None else self._rapi.send("GET", path, timeout_s=timeout_s)
        except (NotAnswered, JobFailed) as error:
            raise failure("connect", name, error) from error
        if node is None:
            raise DriverError("connect", name, "the cluster has no such node", transient=False)
        wanted = self._options.group
        if wanted is not None and (group is None or wanted not in (group["name"], group["uuid"])):
            raise DriverError("connect", name, f"the node is not in group {wanted}", transient=False)
        if node["offline"] or not node["vm_capable"]:
            raise DriverError("connect", name, "the node is offline or not vm_capable", transient=True)
        return dict(node)

    def _rows(self, timeout_s: float) -> list[dict[str, Any]]:
        try:
            return list(self._rapi.send("GET", path_of("instances"), timeout_s=timeout_s, bulk="1"))
        except (NotAnswered, JobFailed) as error:
            raise failure("list", ANY_HOST, error) from error

    def _instances(self, timeout_s: float) -> Iterator[GanetiInstance]:
        return (read_instance(row) for row in self._rows(timeout_s) if guest_of(row) is not None)


def _fail(error: DriverError) -> NoReturn:
    raise error


DRIVER = GanetiDriver
