"""A driver call for one guest and its instance in Ganeti (one file: one class)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import structlog

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.ganeti.cluster import GanetiCluster
from bulkdeploy.drivers.ganeti.creations import active_jobs
from bulkdeploy.drivers.ganeti.devices import NoRoute, disks_of, mib, nics_of, node_of, operating_system
from bulkdeploy.drivers.ganeti.instances import (
    SUFFIX,
    TAG,
    GanetiInstance,
    left_tag,
    read_instance,
    silence_of,
    tag_of,
    volume_tag,
)
from bulkdeploy.drivers.ganeti.mirrors import lacking
from bulkdeploy.drivers.ganeti.rapi import JobFailed, failure, path_of
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.iallocator.refusal import Refusal

log = structlog.get_logger(__name__)

RUNS_NOWHERE = "does not seem to be running at all"
"""A part of Ganeti's error if the instance whose migration is cleaned up runs on no node."""

MOST_STEPS = 6
"""The number of attempts to move an instance to a given primary node.

Three steps suffice if no other call moves the instance meanwhile.
"""


class GanetiCall(FencedCall):
    """A driver call for one guest and its instance in Ganeti."""

    def __init__(
        self, cluster: GanetiCluster, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        super().__init__(cluster.records.fences, host, guest_uuid, fence, timeout_s)
        self._cluster = cluster
        self.name = f"{guest_uuid}{SUFFIX}"

    def look(self, step: str) -> GanetiInstance | None:
        """Return the instance, or None if it does not exist and no earlier job will create it.

        Raises:
            DriverError: Ganeti does not answer.
        """
        found = self._get(step)
        if found is None and self.settle(step):
            found = self._get(step)
        return found

    def look_at_state(self, step: str) -> GanetiInstance | None:
        """Return the instance, whose state is known, or None if it does not exist.

        Raises:
            DriverError: the instance's node does not answer Ganeti, so that the instance may or may not run.
        """
        found = self.look(step)
        if found is not None and not found.is_seen:
            raise self.error(step, silence_of(found), transient=True)
        return found

    def run(self, step: str, method: str, *path: str, body: object = None, **query: str) -> Any:
        """Submit a job, wait for its end, and return its result.

        Returns None if a job that stops or deletes the instance finds that it does not exist.

        Raises:
            DriverError: the job failed, or Ganeti did not answer.
        """
        with self._cluster.slots:
            try:
                return self.wait(step, self.submit(step, method, *path, body=body, **query))
            except _Gone:
                return None  # an absent instance is already stopped and deleted

    def submit(self, step: str, method: str, *path: str, body: object = None, **query: str) -> int:
        """Submit a job, and return its number.

        Raises:
            DriverError: Ganeti rejected the job or did not answer.
        """
        query["reason"] = f"{TAG}{self.guest}:{self.fence}"
        try:
            return self._cluster.rapi.submit(method, path_of(*path), body, timeout_s=self.left, **query)
        except (NotAnswered, JobFailed) as error:
            raise self._failure(step, error) from error

    def wait(self, step: str, number: int) -> Any:
        """Wait for the end of a job, and return the result of its last opcode.

        Raises:
            DriverError: the job failed or did not end in time.
        """
        try:
            return self._cluster.rapi.wait(number, timeout_s=self.left)
        except (NotAnswered, JobFailed) as error:
            raise self._failure(step, error) from error

    def _failure(self, step: str, error: Exception) -> DriverError:
        found = failure(step, self.host_name, error)
        if step in ("stop", "delete") and isinstance(error, JobFailed) and error.code == "unknown_entity":
            return _Gone(step, self.host_name, found.reason, transient=False)
        return found

    def make(self, guest: GuestSpec) -> None:
        """Create and start the instance. An error is ignored if the instance runs on its node nevertheless."""
        wanted = self.definition(guest)
        self.check_fence("volume")
        try:
            with self._cluster.slots:
                with self._cluster.mirrors.placed([wanted], timeout_s=self.left) as (placed,):
                    if isinstance(placed, DriverError):
                        raise placed
                    number = self.submit("volume", "POST", "instances", body=placed)
                self.wait("volume", number)
        except DriverError as error:
            self.check_made(error)

    def check_made(self, error: DriverError) -> None:
        """Raise ``error`` unless the instance exists on its node nevertheless, and start the instance.

        The response to its creation may have been lost, or the job may still have been running.

        Raises:
            DriverError: ``error``, or the error of the start.
        """
        found = self.look("volume")
        if found is None or self.host is None or found.node != node_of(self.host):
            raise error
        if not found.runs:
            self.keep_or_undo()
            self.run("boot", "PUT", "instances", self.name, "startup")

    def keep_or_undo(self) -> None:
        """Delete the created instance if a call with a higher fence was made meanwhile.

        Raises:
            StaleFence: a call with a higher fence was made.
        """
        if not self.fences.is_highest(self.guest, self.fence):
            if self._get("delete") is not None:
                self.run("delete", "DELETE", "instances", self.name, shutdown_timeout="0")
            raise self.stale("boot")

    def bring_here(self, found: GanetiInstance) -> None:
        """Move an instance that does not run to the call's node.

        Raises:
            DriverError: the instance runs, or cannot be moved.
        """
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
            why = f"instance {self.name} shall run on node {found.node} and does not run there yet"
            raise self.error("stop", why, transient=True)
        body: dict[str, object] = {"cleanup": True, "allow_failover": False}
        if found.secondary is None:
            body["target_node"] = node
        elif found.secondary != node:  # Ganeti checks only the secondary node
            log.warning("copy_not_looked_for", instance=self.name, node=node)
        try:
            self.run("stop", "PUT", "instances", self.name, "migrate", body=body)
        except DriverError as error:
            if RUNS_NOWHERE not in error.reason:
                raise
        found = self.look_at_state("stop")
        if found is not None and found.node == node and found.runs:
            self.run("stop", "PUT", "instances", self.name, "shutdown", body={"timeout": 0})
        self.run("stop", "DELETE", "instances", self.name, "tags", tag=left_tag(node))

    def bring_mirrored(self, step: str) -> GanetiInstance:
        """Move an instance with a secondary to the call's node, which becomes its secondary first if necessary.

        Each step depends only on the current nodes of the instance, so a later call continues where an earlier one
        died. If its primary node is offline, the instance starts on its secondary and moves from there. Returns the
        instance.

        Raises:
            DriverError: the instance is not on the call's node.
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
        raise self.error(
            step, f"instance {self.name} is on node {found.node}, and other calls move it", transient=True
        )

    def keep_mirrored(self) -> None:
        """Verify that the secondary may remain on its node, and otherwise request another secondary from Ganeti.

        The job is not awaited: the guest runs while its disks are copied. If no node can become the secondary, the
        secondary remains, and a warning is logged.
        """
        try:
            with self._cluster.mirrors.plan("volume", timeout_s=self.left) as plan:
                found = plan.new_secondary(self.name)
                if isinstance(found, str):
                    self.submit("volume", *self._replacing, body=_replacing(found))
            why = found.reason if isinstance(found, Refusal) else None
        except DriverError as error:
            why = error.reason
        if why is not None:
            log.warning("secondary_stays", instance=self.name, why=why)

    def _mirror_on(self, step: str, node: str) -> None:
        with self._cluster.slots:
            with self._cluster.mirrors.plan(step, timeout_s=self.left) as plan:
                refusal = plan.moves_to(self.name, node)
                if refusal is not None:
                    raise lacking(step, self.host_name, refusal)
                number = self.submit(step, *self._replacing, body=_replacing(node))
            self.wait(step, number)

    @property
    def _replacing(self) -> tuple[str, ...]:
        return "POST", "instances", self.name, "replace-disks"

    def _exchange(self, step: str, found: GanetiInstance) -> None:
        """Exchange the primary and the secondary node of an instance. A running instance is migrated live."""
        if found.runs:
            body = {"allow_failover": False, "cleanup": False}
            self.run(step, "PUT", "instances", self.name, "migrate", body=body)
        else:
            self._fail_over(step, found)

    def _fail_over(self, step: str, found: GanetiInstance, **target: str) -> None:
        """Start an instance on another node.

        A silent node must have been marked as offline in Ganeti.

        A tag stores the name of the silent node, where a copy may still run, until ``end_copy`` has checked that
        node.
        """
        if not found.is_seen:
            if not self._is_offline(step, found.node):
                remedy = f"switch it off and run gnt-node modify --offline=yes {found.node} to free its instances"
                raise self.error(step, f"{silence_of(found)}; {remedy}", transient=True)
            self.run(step, "PUT", "instances", self.name, "tags", tag=left_tag(found.node))
        body = {"ignore_consistency": False, **target}
        self.run(step, "PUT", "instances", self.name, "failover", body=body)

    def _is_offline(self, step: str, node: str) -> bool:
        try:
            return self._cluster.nodes.is_offline(node, timeout_s=self.left)
        except (NotAnswered, JobFailed) as error:
            raise failure(step, self.host_name, error) from error

    def _settled(self, step: str) -> GanetiInstance:
        """Wait until no job changes the instance, and return the instance.

        Raises:
            DriverError: the instance does not exist.
        """
        self.settle(step)
        found = self._get(step)
        if found is None:
            raise self.error(step, "the instance does not exist any more")
        return found

    def grow(self, volumes: Sequence[VolumeSpec], found: GanetiInstance, *, step: str) -> None:
        """Enlarge the disks of ``found`` that are smaller than their volumes in ``volumes``.

        The requests name absolute sizes, so the call may be repeated.
        """
        sizes = dict(zip(found.disk_names, enumerate(found.disk_sizes), strict=False))
        for volume in volumes:
            at, size = sizes.get(str(volume.uuid), (0, None))
            if size is not None and size < mib(volume):
                body = {"amount": mib(volume), "absolute": True, "wait_for_sync": True}
                self.run(step, "POST", "instances", self.name, "disk", str(at), "grow", body=body)
            if found.volumes[volume.uuid][1] < volume.size_bytes:
                old = volume_tag(volume.uuid, *found.volumes[volume.uuid])
                self.run(step, "PUT", "instances", self.name, "tags", tag=tag_of(volume))
                self.run(step, "DELETE", "instances", self.name, "tags", tag=old)

    def drop(self, found: GanetiInstance, volume_uuid: UUID) -> None:
        """Delete a disk of a stopped instance. The instance is deleted with its last disk."""
        if len(found.volumes) == 1:
            self.run("delete", "DELETE", "instances", self.name, shutdown_timeout="0")
            return
        if str(volume_uuid) in found.disk_names:
            body = {"disks": [["remove", str(volume_uuid), {}]]}
            self.run("delete", "PUT", "instances", self.name, "modify", body=body)
        tag = volume_tag(volume_uuid, *found.volumes[volume_uuid])
        self.run("delete", "DELETE", "instances", self.name, "tags", tag=tag)

    def _get(self, step: str) -> GanetiInstance | None:
        try:
            row = self._cluster.rapi.send("GET", path_of("instances", self.name), timeout_s=self.left)
        except (NotAnswered, JobFailed) as error:
            raise failure(step, self.host_name, error) from error
        return None if row is None else read_instance(row)

    def settle(self, step: str) -> bool:
        """Wait for jobs that may still create or change the instance, and return whether there were any."""
        rapi = self._cluster.rapi
        waited = False
        for _ in range(2):  # first a job that creates many instances, then the job that it submits
            try:
                mine = [number for number, text in active_jobs(rapi, timeout_s=self.left) if self.name in text]
            except (NotAnswered, JobFailed) as error:
                raise failure(step, self.host_name, error) from error
            self._wait_all(step, mine)
            waited = waited or bool(mine)
        return waited

    def _wait_all(self, step: str, numbers: Sequence[int]) -> None:
        rapi = self._cluster.rapi
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
            DriverError: the options name no operating system for the template, or a routed NIC has no address.
        """
        assert self.host is not None  # noqa: S101 - only starts make
        node = node_of(self.host)
        options = self._cluster.options
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
                *(tag_of(volume) for volume in guest.volumes),
            ],
        }

    def _operating_system(self, guest: GuestSpec) -> str:
        wanted = self._cluster.options.operating_systems
        template = next((volume.template_uuid for volume in guest.volumes if volume.template_uuid), None)
        image = None if template is None else self._cluster.records.directory.template(template)
        named = None if image is None else image.named_in(wanted)
        if named is not None:
            return named
        if "default" not in wanted:
            name = "without a template" if image is None else f"of template {image.name}"
            text = f"option operating_systems must contain the OS of guests {name}, or a default"
            raise DriverError("volume", self.host_name, text, transient=False)
        return wanted["default"]


class _Gone(DriverError):
    """Raised if the instance that a call stops or deletes does not exist."""


def _replacing(node: str) -> dict[str, Any]:
    return {"mode": "replace_new_secondary", "remote_node": node}
