"""The driver for Ganeti clusters: docs/how-to/ganeti.md (one file: a call is one instance and one fence).

A guest is the instance UUID.bulkdeploy, so that Ganeti itself refuses a second one; tags hold what Ganeti has no
place for. What it cannot compare, fences and the one host that may have a guest, stands in the service's records.
Fences are compared before an instance is asked for, and once it runs: a worker that was overtaken meanwhile removes
what it made. Instances that start together are made by one request. Instances without our tag are never touched.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore
from typing import Any, NoReturn, Self
from urllib.parse import urlsplit
from uuid import UUID

import structlog
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
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.ganeti.creations import Creations, NotSubmitted, active_jobs, names_there
from bulkdeploy.drivers.ganeti.devices import (
    DEVICE_PARAMETERS,
    NoRoute,
    disks_of,
    mib,
    nics_of,
    node_of,
    operating_system,
)
from bulkdeploy.drivers.ganeti.mirrors import Mirrors, lacking
from bulkdeploy.drivers.ganeti.nodes import Nodes
from bulkdeploy.drivers.ganeti.options import GanetiOptions
from bulkdeploy.drivers.ganeti.rapi import Access, JobFailed, Rapi, failure, path_of
from bulkdeploy.drivers.ganeti.storage import MODIFIABLE, NodeStorage
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.iallocator.refusal import Refusal

log = structlog.get_logger(__name__)

SUFFIX = ".bulkdeploy"
TAG = "bulkdeploy:"
LEFT = f"{TAG}left:"
RUNS_NOWHERE = "does not seem to be running at all"
"""Part of Ganeti's error where it was to clean up after a migration of an instance that runs on no node."""

MOST_STEPS = 6
"""From primary and secondary anywhere to a given primary: three, and as many by others meanwhile."""

LOOK_SECONDS = 60.0
"""Patience for listings, which have no timeout of their own."""


@dataclass(frozen=True, slots=True)
class _Instance:
    """An instance of the service in Ganeti."""

    uuid: UUID
    node: str
    secondary: str | None
    runs: bool
    wanted: bool
    is_seen: bool
    vcpus: int
    memory: int
    mhz: int
    volumes: dict[UUID, tuple[UUID, int]]
    disk_names: tuple[str | None, ...]
    disk_sizes: tuple[int, ...]
    left_nodes: frozenset[str]
    """Nodes that the instance left while they were silent: a copy may still run there."""


class GanetiDriver(DataVolumes, LiveMigration, GrowingVolumes, StorageRepair, TemplateVariants, BatchDriver):
    """See the module."""

    options_model = GanetiOptions
    device_parameters = DEVICE_PARAMETERS
    is_watched = True
    gathering_s = 0.5  # of its own CPU Ganeti spends more on each request
    guests_may_end = False  # what ends, Ganeti's own watcher starts again

    def __init__(self, options: GanetiOptions, rapi: Rapi) -> None:
        self._options, self._rapi = options, rapi
        self._slots = BoundedSemaphore(options.jobs_at_once)
        self._storage = NodeStorage(rapi, self._slots, options.disk_template)
        self._mirrors = Mirrors(rapi, options, lambda: self._records)
        self._nodes = Nodes(rapi, options.reserved_memory_mib, our_tag=f"{TAG}uuid:")

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
    def close(self) -> None:
        self._rapi.close()

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Return the node ``ganeti://NODE``. Its memory excludes others' instances and the reserved memory."""
        parts = urlsplit(host.access.url)
        name = parts.hostname or ""
        if parts.scheme != "ganeti" or not name:
            raise DriverError("connect", "any host", "its url must be ganeti://NODE", transient=False)
        node = self._node(name, timeout_s)
        memory = self._nodes.read_memory("connect", timeout_s=timeout_s)
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
        """Return the state of each node: that which operators have set, and whether the node answers the master."""
        return self._nodes.look_at(hosts, timeout_s=timeout_s)

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool:
        """Return whether the node answers the master, which reads the node's memory."""
        return self._nodes.answers(node_of(host), timeout_s=timeout_s)

    @override
    def declare_off(self, host: HostAddress, *, timeout_s: float) -> None:
        self._nodes.set_offline(node_of(host), timeout_s=timeout_s)

    def memory_of_hosts(self, hosts: Sequence[HostAddress], *, timeout_s: float) -> Mapping[UUID, int]:
        """Return each node's memory minus others' instances and the reserve for another node's failure."""
        memory = self._nodes.read_memory("look", timeout_s=timeout_s)
        return {host.uuid: memory[node_of(host)] for host in hosts if node_of(host) in memory}

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """Begin these calls. Missing instances are created by one request; other calls are made one by one."""
        starts = [call for call in calls if isinstance(call, StartCall)]
        made = self._make_many(starts, timeout_s) if len(starts) > 1 else {}
        return [made.get(call.guest_uuid) or partial(self._make_one, call, timeout_s) for call in calls]

    def _make_one(self, call: GuestCall, timeout_s: float) -> None:
        host_call = _Call(self, call.host, call.guest_uuid, call.fence, timeout_s)
        match call:
            case StartCall():
                self._start(host_call, call.host, call.guest)
            case StopCall():
                self._stop(host_call, forced=call.forced, timeout_s=timeout_s)
            case RemoveCall():
                self._remove(host_call, call.volume_uuids)

    def _make_many(self, starts: Sequence[StartCall], timeout_s: float) -> dict[UUID, Answer]:
        """Request the missing instances of these calls, and return an answer for each requested one.

        The request is limited to the free slots in Ganeti's queue. The other calls wait and are made one by one.
        """
        answers: dict[UUID, Answer] = {}
        wanted: list[tuple[_Call, StartCall, dict[str, Any]]] = []
        for start in starts:
            call = _Call(self, start.host, start.guest.uuid, start.fence, timeout_s)
            try:
                call.claim("boot", [volume.uuid for volume in start.guest.volumes])
                wanted.append((call, start, call.definition(start.guest)))
            except DriverError as error:
                answers[call.guest] = partial(_fail, error)
        submitted: list[tuple[_Call, StartCall, dict[str, Any]]] = []
        try:
            there = names_there(self._rapi, [call.name for call, _, _ in wanted], timeout_s=timeout_s)
            new = [one for one in wanted if one[0].name not in there and self._is_new(one[1].guest)]
            submitted += [one for one in new if self._slots.acquire(blocking=False)]
            if submitted:
                answers |= self._submit(submitted, timeout_s)
        except BaseException as error:
            for _ in submitted:
                self._slots.release()
            if not isinstance(error, NotAnswered | JobFailed | DriverError):
                raise
            # Each looks for itself what became of it.
        return answers

    def _submit(
        self, wanted: Sequence[tuple["_Call", StartCall, dict[str, Any]]], timeout_s: float
    ) -> dict[UUID, Answer]:
        """Submit one request for all of these guests for which nodes were found. Each guest has a slot."""
        answers: dict[UUID, Answer] = {}
        with self._mirrors.placed([definition for _, _, definition in wanted], timeout_s=timeout_s) as placed:
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
                self._slots.release()
        return answers

    def _wait_for(self, call: "_Call", start: StartCall, creations: Creations, position: int) -> None:
        """Wait for the end of a start that was requested with others.

        If Ganeti created no job for the start, it is requested again alone.
        """
        try:
            self._wait_for_job(call, creations, position)
        except NotSubmitted:
            self._start(call, start.host, start.guest)
        else:
            call.keep_or_undo()

    def _wait_for_job(self, call: "_Call", creations: Creations, position: int) -> None:
        try:
            number = creations.job_of(position, timeout_s=call.left)
            self._rapi.wait(number, timeout_s=call.left)
        except (NotAnswered, JobFailed) as error:
            call.check_made(failure("volume", call.host_name, error))
        finally:
            self._slots.release()

    def _start(self, call: "_Call", host: HostAddress, guest: GuestSpec) -> None:
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

    def _stop(self, call: "_Call", *, forced: bool, timeout_s: float) -> None:
        """Stop an instance, and record that the guest is on no host. The instance is kept."""
        call.fenced_here("stop")
        found = call.look_at_state("stop")
        if found is not None and (found.runs or found.wanted):
            patience = 0 if forced else int(min(timeout_s / 2, 120))
            call.run("stop", "PUT", "instances", call.name, "shutdown", body={"timeout": patience})
        self._records.fences.release(call.guest, call.fence)

    def _remove(self, call: "_Call", volume_uuids: Sequence[UUID]) -> None:
        """Volumes that are not named stay, with the instance, which does not run."""
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

        An instance that is stopped, and that Ganeti is not to start, counts as absent (None).
        """
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        where = call.fenced_here("look")
        found = call.look_at_state("look")
        if found is None or not (found.runs or found.wanted):
            call.let_go(where)
            return None
        if found.node != node_of(host):
            raise DriverError("look", host.name, f"guest {guest_uuid} is on node {found.node}", transient=False)
        return PowerState.RUNNING if found.runs else PowerState.STOPPED

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Stop an instance if this host is its primary node. An instance has only one primary node."""
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        call.raise_fence_elsewhere("stop")
        found = call.look_at_state("stop")
        if found is not None and found.node == node_of(host) and (found.runs or found.wanted):
            call.run("stop", "PUT", "instances", call.name, "shutdown", body={"timeout": 0})

    def end_leftovers(self, host: HostAddress, kept: Collection[UUID], *, timeout_s: float) -> None:
        """Stop the guests on this node except ``kept``.

        Ganeti lists a guest on its primary node only. Other copies are found by a job.
        """
        node = node_of(host)
        for one in [one for one in self._instances(timeout_s) if one.uuid not in kept]:
            if one.node == node:
                fence = self._records.fences.highest(one.uuid)
                self.ensure_copy_gone(host, one.uuid, fence=fence, timeout_s=timeout_s)
            elif node in one.left_nodes:
                _Call(self, host, one.uuid, 0, timeout_s).end_copy()

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume together with the stopped instance to which it still belongs."""
        with self._records.fences.volumes_in_use([volume_uuid]) as used:
            for one in self._instances(timeout_s):
                if one.volumes.get(volume_uuid, (None,))[0] == pool_uuid:
                    if used or one.runs or one.wanted:
                        raise DriverError("delete", ANY_HOST, f"guest {one.uuid} has the volume", transient=True)
                    _Call(self, None, one.uuid, 0, timeout_s).drop(one, volume_uuid)

    @override
    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = _Call(self, destination, guest.uuid, fence, timeout_s)
        fences = self._records.fences
        where = call.raise_fence("migrate")
        if where.host_uuids - {source.uuid, destination.uuid}:
            raise DriverError("migrate", destination.name, "the guest is on another host", transient=False)
        found = call.look_at_state("migrate")
        if found is None or not found.runs:
            raise DriverError("migrate", destination.name, "the guest does not run", transient=False)
        if found.secondary is not None:
            fences.move(guest.uuid, source.uuid, destination.uuid, fence)
            if not call.bring_mirrored("migrate").runs:
                raise call.error("migrate", "the guest does not run any more")
            call.keep_mirrored()
        elif found.node != node_of(destination):
            fences.move(guest.uuid, source.uuid, destination.uuid, fence)
            body = {"target_node": node_of(destination), "allow_failover": False, "cleanup": False}
            try:
                call.run("migrate", "PUT", "instances", call.name, "migrate", body=body)
            except DriverError:
                found = call.look_at_state("migrate")  # another call may have moved it
                if found is None or not found.runs or found.node != node_of(destination):
                    raise
        fences.move(guest.uuid, destination.uuid, None, fence)

    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        """Grow a disk of an instance. Disks of Ganeti cannot shrink."""
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        call.fenced_here("resize")
        found = call.look_at_state("resize")
        if host is not None and (found is None or not found.runs or found.node != node_of(host)):
            raise call.error("resize", f"guest {guest_uuid} does not run there")
        if found is None or volume.uuid not in found.volumes:
            return
        if found.volumes[volume.uuid][1] > volume.size_bytes:
            raise call.error("resize", "disks of Ganeti do not shrink")
        call.grow([volume], found, step="resize")

    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        """Return the size of a volume after all jobs have ended that may change it."""
        call = _Call(self, None, guest_uuid, fence, timeout_s)
        call.raise_fence("look")
        call.settle("look")
        found = call.look("look")
        if found is None or volume.uuid not in found.volumes:
            return None
        sizes = dict(zip(found.disk_names, found.disk_sizes, strict=False))
        is_grown = sizes.get(str(volume.uuid)) == mib(volume)
        return volume.size_bytes if is_grown else found.volumes[volume.uuid][1]

    def list_guests(self) -> Iterator[Guest]:
        """List the instances that run or that Ganeti is to start."""
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
        unseen.update((uuid, _silence_of(one)) for uuid, one in silent.items())
        yield from (guest for guest in super().list_seen_guests(unseen) if guest.uuid not in silent)

    def _silent_instances(self, unseen: dict[UUID, str]) -> list[_Instance]:
        """Return the instances whose state is unknown.

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

        Ganeti supports this for no other type of storage unit.
        """
        if unit.unit_type not in MODIFIABLE:
            super().set_allocatable(host, unit, allocatable=allocatable, timeout_s=timeout_s)
        self._storage.modify(node_of(host), unit, allocatable=allocatable, timeout_s=timeout_s)

    def repair_unit(self, host: HostAddress, unit: StorageUnit, *, timeout_s: float) -> None:
        """Remove lost disks from a volume group, as ``gnt-node repair-storage`` does."""
        self._storage.repair(node_of(host), unit, timeout_s)

    @property
    def _has_disks(self) -> bool:
        """Return whether instances have disks, which they can lose."""
        return self._options.disk_template != "diskless"

    def _is_new(self, guest: GuestSpec) -> bool:
        """Return whether the guest may be created if it has no instance."""
        return not (self._has_disks and any(volume.was_made for volume in guest.volumes))

    def _check_movable(self, host: HostAddress, found: _Instance) -> None:
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

    def _instances(self, timeout_s: float) -> Iterator[_Instance]:
        return (_read(row) for row in self._rows(timeout_s) if _tagged(row) is not None)


class _Call(FencedCall):
    """A call about one guest and its instance in Ganeti."""

    def __init__(
        self, driver: GanetiDriver, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        super().__init__(driver._records.fences, host, guest_uuid, fence, timeout_s)
        self._driver = driver
        self.name = f"{guest_uuid}{SUFFIX}"

    def look(self, step: str) -> _Instance | None:
        """Return the instance, or None if it does not exist and no earlier job will create it."""
        found = self._get(step)
        if found is None and self.settle(step):
            found = self._get(step)
        return found

    def look_at_state(self, step: str) -> _Instance | None:
        """Return the instance, or None if it does not exist.

        An instance whose state is unknown is a transient error.

        Raises:
            DriverError: the instance's node does not answer Ganeti, so the instance may run or not.
        """
        found = self.look(step)
        if found is not None and not found.is_seen:
            raise self.error(step, _silence_of(found), transient=True)
        return found

    def run(self, step: str, method: str, *path: str, body: object = None, **query: str) -> Any:
        """Submit a job, wait for its end, and return its result, or None if the instance does not exist."""
        with self._driver._slots:
            try:
                return self.wait(step, self.submit(step, method, *path, body=body, **query))
            except _Gone:
                return None  # what is absent neither runs nor exists

    def submit(self, step: str, method: str, *path: str, body: object = None, **query: str) -> int:
        """Return the number of a job that Ganeti was given."""
        query["reason"] = f"{TAG}{self.guest}:{self.fence}"
        try:
            return self._driver._rapi.submit(method, path_of(*path), body, timeout_s=self.left, **query)
        except (NotAnswered, JobFailed) as error:
            raise self._failure(step, error) from error

    def wait(self, step: str, number: int) -> Any:
        """Wait for a job's end, and return the result of its last opcode."""
        try:
            return self._driver._rapi.wait(number, timeout_s=self.left)
        except (NotAnswered, JobFailed) as error:
            raise self._failure(step, error) from error

    def _failure(self, step: str, error: Exception) -> DriverError:
        found = failure(step, self.host_name, error)
        if step in ("stop", "delete") and isinstance(error, JobFailed) and error.code == "unknown_entity":
            return _Gone(step, self.host_name, found.reason, transient=False)
        return found

    def make(self, guest: GuestSpec) -> None:
        """Create and start the instance. An instance that runs by now is no error."""
        wanted = self.definition(guest)
        self.check_fence("volume")
        try:
            with self._driver._slots:
                with self._driver._mirrors.placed([wanted], timeout_s=self.left) as (placed,):
                    if isinstance(placed, DriverError):
                        raise placed
                    number = self.submit("volume", "POST", "instances", body=placed)
                self.wait("volume", number)
        except DriverError as error:
            self.check_made(error)

    def check_made(self, error: DriverError) -> None:
        """Raise ``error`` unless the instance exists on its node nevertheless.

        The response to its creation may have been lost, or the job may still be running.

        Raises:
            DriverError: ``error``, where it is not; or it cannot be started.
        """
        found = self.look("volume")
        if found is None or self.host is None or found.node != node_of(self.host):
            raise error
        if not found.runs:
            self.keep_or_undo()
            self.run("boot", "PUT", "instances", self.name, "startup")

    def keep_or_undo(self) -> None:
        """Keep the created instance, or delete it if a call with a higher fence came meanwhile.

        Raises:
            StaleFence: one has.
        """
        if not self.fences.is_highest(self.guest, self.fence):
            if self._get("delete") is not None:
                self.run("delete", "DELETE", "instances", self.name, shutdown_timeout="0")
            raise self.stale("boot")

    def bring_here(self, found: _Instance) -> None:
        """Move an instance that does not run to the call's node."""
        assert self.host is not None  # noqa: S101 - only starts bring
        if found.runs:
            text = f"guest {self.guest} runs on node {found.node}"
            raise DriverError("boot", self.host_name, text, transient=False)
        if found.secondary is not None:
            self.bring_mirrored("boot")
            return
        self._fail_over("boot", found, target_node=node_of(self.host))

    def end_copy(self) -> None:
        """Stop the copy of an instance on the call's node, which the instance left while that node was silent.

        Ganeti cleans the copy up like the remains of a migration. If the instance runs only on the call's node,
        that node becomes its primary node, and the instance is shut down there.

        Raises:
            DriverError: the copy may still run.
        """
        assert self.host is not None  # noqa: S101 - a copy is on a host
        node = node_of(self.host)
        found = self.look_at_state("stop")
        if found is None or node not in found.left_nodes:
            return
        if found.wanted and not found.runs:
            why = f"instance {self.name} is to run on node {found.node}, and does not run there yet"
            raise self.error("stop", why, transient=True)
        body: dict[str, object] = {"cleanup": True, "allow_failover": False}
        if found.secondary is None:
            body["target_node"] = node
        elif found.secondary != node:  # Ganeti looks on the secondary only
            log.warning("copy_not_looked_for", instance=self.name, node=node)
        try:
            self.run("stop", "PUT", "instances", self.name, "migrate", body=body)
        except DriverError as error:
            if RUNS_NOWHERE not in error.reason:
                raise
        found = self.look_at_state("stop")
        if found is not None and found.node == node and found.runs:
            self.run("stop", "PUT", "instances", self.name, "shutdown", body={"timeout": 0})
        self.run("stop", "DELETE", "instances", self.name, "tags", tag=_left_tag(node))

    def bring_mirrored(self, step: str) -> _Instance:
        """Move an instance with a secondary to the call's node, which becomes its secondary first if necessary.

        Each step depends only on the current place of the instance, so that a later call continues where an earlier
        one has died. If its primary node is offline, the instance starts on its secondary and moves from there.

        Raises:
            DriverError: it is not here.
        """
        assert self.host is not None  # noqa: S101 - only starts and migrations bring
        target = node_of(self.host)
        found = self._settled(step)
        for _ in range(MOST_STEPS):
            if found.node == target:
                return found
            self.check_fence(step)
            try:
                if found.secondary == target or self._is_offline(step, found.node):
                    self._exchange(step, found)
                else:
                    self._mirror_on(step, target)
            except DriverError:
                before, found = found, self._settled(step)
                if (found.node, found.secondary) == (before.node, before.secondary):
                    raise
            else:
                found = self._settled(step)
        raise self.error(step, f"instance {self.name} is on node {found.node}, and others move it", transient=True)

    def keep_mirrored(self) -> None:
        """Verify that the secondary may remain on its node, or request another one from Ganeti.

        That job is not awaited: the guest runs while its disks are copied. If no node can become the secondary, the
        secondary remains, and a warning is logged.
        """
        try:
            with self._driver._mirrors.plan("volume", timeout_s=self.left) as plan:
                found = plan.new_secondary(self.name)
                if isinstance(found, str):
                    self.submit("volume", *self._replacing, body=_replacing(found))
            why = found.reason if isinstance(found, Refusal) else None
        except DriverError as error:
            why = error.reason
        if why is not None:
            log.warning("secondary_stays", instance=self.name, why=why)

    def _mirror_on(self, step: str, node: str) -> None:
        with self._driver._slots:
            with self._driver._mirrors.plan(step, timeout_s=self.left) as plan:
                refusal = plan.moves_to(self.name, node)
                if refusal is not None:
                    raise lacking(step, self.host_name, refusal)
                number = self.submit(step, *self._replacing, body=_replacing(node))
            self.wait(step, number)

    @property
    def _replacing(self) -> tuple[str, ...]:
        return "POST", "instances", self.name, "replace-disks"

    def _exchange(self, step: str, found: _Instance) -> None:
        """Exchange the primary and the secondary node of an instance. A running instance is migrated live."""
        if found.runs:
            body = {"allow_failover": False, "cleanup": False}
            self.run(step, "PUT", "instances", self.name, "migrate", body=body)
        else:
            self._fail_over(step, found)

    def _fail_over(self, step: str, found: _Instance, **target: str) -> None:
        """Start an instance on another node. A silent node must have been marked as offline in Ganeti.

        A tag stores the name of a silent node, where a copy may still run, until ``end_copy`` has checked that
        node.
        """
        if not found.is_seen:
            if not self._is_offline(step, found.node):
                remedy = f"once it is off, gnt-node modify --offline=yes {found.node} frees its instances"
                raise self.error(step, f"{_silence_of(found)}; {remedy}", transient=True)
            self.run(step, "PUT", "instances", self.name, "tags", tag=_left_tag(found.node))
        body = {"ignore_consistency": False, **target}
        self.run(step, "PUT", "instances", self.name, "failover", body=body)

    def _is_offline(self, step: str, node: str) -> bool:
        try:
            return self._driver._nodes.is_offline(node, timeout_s=self.left)
        except (NotAnswered, JobFailed) as error:
            raise failure(step, self.host_name, error) from error

    def _settled(self, step: str) -> _Instance:
        """Return the instance once no job is under way that moves it."""
        self.settle(step)
        found = self._get(step)
        if found is None:
            raise self.error(step, "the instance is gone")
        return found

    def grow(self, volumes: Sequence[VolumeSpec], found: _Instance, *, step: str) -> None:
        """Enlarge disks that are smaller than requested to an absolute size, so that the call may be repeated."""
        sizes = dict(zip(found.disk_names, enumerate(found.disk_sizes), strict=False))
        for volume in volumes:
            at, size = sizes.get(str(volume.uuid), (0, None))
            if size is not None and size < mib(volume):
                body = {"amount": mib(volume), "absolute": True, "wait_for_sync": True}
                self.run(step, "POST", "instances", self.name, "disk", str(at), "grow", body=body)
            if found.volumes[volume.uuid][1] < volume.size_bytes:
                old = _volume_tag(volume.uuid, *found.volumes[volume.uuid])
                self.run(step, "PUT", "instances", self.name, "tags", tag=_tag_of(volume))
                self.run(step, "DELETE", "instances", self.name, "tags", tag=old)

    def drop(self, found: _Instance, volume_uuid: UUID) -> None:
        """Delete a disk of a stopped instance. The instance is deleted with its last disk."""
        if len(found.volumes) == 1:
            self.run("delete", "DELETE", "instances", self.name, shutdown_timeout="0")
            return
        if str(volume_uuid) in found.disk_names:
            body = {"disks": [["remove", str(volume_uuid), {}]]}
            self.run("delete", "PUT", "instances", self.name, "modify", body=body)
        tag = _volume_tag(volume_uuid, *found.volumes[volume_uuid])
        self.run("delete", "DELETE", "instances", self.name, "tags", tag=tag)

    def _get(self, step: str) -> _Instance | None:
        try:
            row = self._driver._rapi.send("GET", path_of("instances", self.name), timeout_s=self.left)
        except (NotAnswered, JobFailed) as error:
            raise failure(step, self.host_name, error) from error
        return None if row is None else _read(row)

    def settle(self, step: str) -> bool:
        """Wait for jobs that may still create or change the instance, and return whether there were any."""
        rapi = self._driver._rapi
        waited = False
        for _ in range(2):  # a job that makes many, then the one that it submits
            try:
                mine = [number for number, text in active_jobs(rapi, timeout_s=self.left) if self.name in text]
            except (NotAnswered, JobFailed) as error:
                raise failure(step, self.host_name, error) from error
            self._wait_all(step, mine)
            waited = waited or bool(mine)
        return waited

    def _wait_all(self, step: str, numbers: Sequence[int]) -> None:
        rapi = self._driver._rapi
        for number in numbers:
            try:
                rapi.wait(number, timeout_s=self.left)
            except JobFailed:
                continue
            except NotAnswered as error:
                raise failure(step, self.host_name, error) from error

    def definition(self, guest: GuestSpec) -> dict[str, Any]:
        """Return the definition of the instance for Ganeti's creation request, which also starts it.

        Raises:
            DriverError: options lack its operating system; or a nic is to be routed and has no address.
        """
        assert self.host is not None  # noqa: S101 - only starts make
        node = node_of(self.host)
        options = self._driver._options
        try:
            nics = nics_of(guest, options)
        except NoRoute as error:
            raise self.error("network", str(error)) from error
        return {
            "__version__": 1,
            "mode": "create",
            "instance_name": self.name,
            "pnode": node,
            "hypervisor": options.hypervisor,
            "disk_template": options.disk_template,
            "disks": disks_of(guest, options),
            "nics": nics,
            "os_type": operating_system(self._operating_system(guest), guest.template_variant),
            "beparams": {"vcpus": guest.cpu_number, "minmem": guest.memory_mib, "maxmem": guest.memory_mib},
            "start": True,
            "ip_check": False,
            "name_check": False,
            "conflicts_check": False,
            "tags": [
                f"{TAG}uuid:{guest.uuid}",
                f"{TAG}fence:{self.fence}",
                f"{TAG}name:{guest.name}",
                f"{TAG}mhz:{guest.cpu_mhz}",
                *(_tag_of(volume) for volume in guest.volumes),
            ],
        }

    def _operating_system(self, guest: GuestSpec) -> str:
        wanted = self._driver._options.operating_systems
        template = next((volume.template_uuid for volume in guest.volumes if volume.template_uuid), None)
        image = None if template is None else self._driver._records.directory.template(template)
        named = None if image is None else image.named_in(wanted)
        if named is not None:
            return named
        if "default" not in wanted:
            name = "without a template" if image is None else f"of template {image.name}"
            text = f"option operating_systems must name the OS of guests {name}, or a default"
            raise DriverError("volume", self.host_name, text, transient=False)
        return wanted["default"]


class _Gone(DriverError):
    """The instance that is to be stopped or removed is not there."""


def _fail(error: DriverError) -> NoReturn:
    raise error


def _replacing(node: str) -> dict[str, Any]:
    return {"mode": "replace_new_secondary", "remote_node": node}


def _silence_of(one: _Instance) -> str:
    return f"node {one.node} does not tell Ganeti whether instance {one.uuid}{SUFFIX} runs"


def _left_tag(node: str) -> str:
    return f"{LEFT}{node}"


def _tag_of(volume: VolumeSpec) -> str:
    return _volume_tag(volume.uuid, volume.pool_uuid, volume.size_bytes)


def _volume_tag(uuid: UUID, pool_uuid: UUID, size_bytes: int) -> str:
    return f"{TAG}volume:{uuid}:{pool_uuid}:{size_bytes}"


def _tagged(row: dict[str, Any]) -> UUID | None:
    """Return the uuid of an instance's guest, or None if the instance is not the service's."""
    for tag in row["tags"]:
        if tag.startswith(f"{TAG}uuid:"):
            return UUID(tag.removeprefix(f"{TAG}uuid:"))
    return None


def _read(row: dict[str, Any]) -> _Instance:
    uuid = _tagged(row)
    if uuid is None:
        raise DriverError("look", row["pnode"], f"instance {row['name']} is not of bulkdeploy", transient=False)
    facts = dict(tag.removeprefix(TAG).split(":", 1) for tag in row["tags"] if tag.startswith(TAG))
    volumes: dict[UUID, tuple[UUID, int]] = {}
    for tag in row["tags"]:
        if tag.startswith(f"{TAG}volume:"):
            volume, pool, size = tag.removeprefix(f"{TAG}volume:").split(":")
            volumes[UUID(volume)] = (UUID(pool), max(int(size), volumes.get(UUID(volume), (UUID(pool), 0))[1]))
    return _Instance(
        uuid=uuid,
        node=row["pnode"],
        secondary=next(iter(row["snodes"]), None),
        runs=bool(row["oper_state"]),
        is_seen=row["oper_state"] is not None,
        wanted=row["admin_state"] == "up",
        vcpus=int(row["beparams"]["vcpus"]),
        memory=int(row["beparams"]["maxmem"]),
        mhz=int(facts.get("mhz", 0)),
        volumes=volumes,
        disk_names=tuple(row["disk.names"]),
        disk_sizes=tuple(row["disk.sizes"]),
        left_nodes=frozenset(tag.removeprefix(LEFT) for tag in row["tags"] if tag.startswith(LEFT)),
    )


DRIVER = GanetiDriver
