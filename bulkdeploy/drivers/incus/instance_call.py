"""A driver call for one guest and its instance in Incus: requests, the gate and volumes (one file: one class)."""

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from typing_extensions import override

from bulkdeploy.drivers.errors import ANY_HOST, DriverError, lost_volume
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.incus.cluster import IncusCluster
from bulkdeploy.drivers.incus.console import CONSOLE, open_serial
from bulkdeploy.drivers.incus.instance import (
    CONTAINER,
    GATE,
    KEY,
    LAST_POWER,
    PROTECTION,
    ROOT,
    VIRTUAL_MACHINE,
    Instance,
    Volume,
    gated,
    instance_name,
    new_instance,
    new_volume,
    opened,
    read_instance,
    read_location,
    read_volume,
)
from bulkdeploy.drivers.incus.rest import CHANGED, NOT_FOUND, Answer, Refused, failure, path_of
from bulkdeploy.drivers.incus.root_volumes import KINDS, read_orphans

AGAIN_S = 0.1
"""The pause before a changing object is read again, in seconds."""

MACHINES = "KVM"
"""The hypervisor type of hosts whose guests are virtual machines. Guests of other hosts are containers."""

ALREADY = ("already exists", "UNIQUE constraint failed")
PASSING = ("Instance is busy running", f'Failed to start device "{GATE}"')
"""Parts of Incus's errors while an instance changes its state.

The second is the error if the gate is added to an instance that is just stopping.
"""

NO_VOLUME = "Failed getting instance pool"
"""A part of Incus's error for an instance without a root volume, if Incus died while it created the instance."""


class IncusCall(FencedCall):
    """A driver call for one guest and its instance. ``named`` is the host's name in errors if there is no host."""

    def __init__(
        self,
        cluster: IncusCluster,
        host: HostAddress | None,
        guest_uuid: UUID,
        fence: int,
        timeout_s: float,
        *,
        named: str = ANY_HOST,
    ) -> None:
        super().__init__(cluster.records.fences, host, guest_uuid, fence, timeout_s)
        self._cluster, self._named = cluster, named
        self.path = path_of("instances", instance_name(guest_uuid))
        self.state = f"{self.path}/state"

    @property
    @override
    def host_name(self) -> str:
        return self._named if self.host is None else self.host.name

    # Requests

    def send(self, step: str, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Send a request that does not start an operation, and return the response.

        Raises:
            DriverError: Incus rejected the request or did not answer.
        """
        try:
            return self._cluster.incus.send(method, path, body, timeout_s=self.left, **more)
        except (Refused, NotAnswered) as error:
            raise failure(step, self.host_name, error) from error

    def find(self, step: str, path: str) -> Answer | None:
        """Return the response for a path, or None if the object does not exist.

        Raises:
            DriverError: Incus rejected the request or did not answer.
        """
        try:
            return self._cluster.incus.send("GET", path, timeout_s=self.left)
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

        If the error contains one of the texts in ``tolerate``, the error is ignored and the result is empty.

        Raises:
            DriverError: the operation failed, or Incus did not answer.
        """
        try:
            with self._cluster.slots:
                return self._cluster.incus.run(method, path, body, timeout_s=self.left, **more)
        except Refused as error:
            if any(text in error.text for text in tolerate):
                return {}
            raise failure(step, self.host_name, error) from error
        except NotAnswered as error:
            raise failure(step, self.host_name, error) from error

    def settle(self, step: str) -> None:
        """Wait until no operation on the instance is running, such as one whose response was lost."""
        try:
            self._cluster.incus.wait_for_operations(self.path, timeout_s=self.left)
        except (Refused, NotAnswered) as error:
            raise failure(step, self.host_name, error) from error

    def require_members(self, step: str, names: Collection[str | None]) -> None:
        """Raise an error unless all these members are online.

        None stands for a server that is not clustered.

        The cluster omits the volumes of a silent member, and does not know the states of its instances. A list
        without these objects would report them as lost.

        Raises:
            DriverError: a member is not online.
        """
        for member, reason in self.silent_members(step, names).items():
            raise DriverError(step, member, reason, transient=True)

    def silent_members(self, step: str, names: Collection[str | None]) -> dict[str, str]:
        """Return those of these members that are not online, with the reason why lists omit their objects."""
        if not set(names) - {None}:
            return {}
        members = self.send(step, "GET", path_of("cluster", "members"), recursion=1).value or ()
        return {
            name: f"member {name} is {member['status']}: its instances and volumes are unknown"
            for member in members
            if (name := member["server_name"]) in names and member["status"] != "Online"
        }

    def server(self) -> dict[str, Any]:
        """Return the server's description of itself.

        Raises:
            DriverError: the server does not answer, or does not trust the client certificate.
        """
        found = self.send("connect", "GET", path_of()).value
        self._cluster.is_clustered = bool(found["environment"]["server_clustered"])
        if found["auth"] != "trusted":
            reason = "the cluster does not trust the client certificate: incus config trust add-certificate"
            raise DriverError("connect", self.host_name, reason, transient=False)
        return dict(found)

    def target(self, member: str) -> str | None:
        """Return the name by which a request addresses a member, or None if the server is not clustered."""
        if self._cluster.is_clustered is None:
            self.server()
        return member if self._cluster.is_clustered else None

    def here(self) -> str | None:
        """Return the name by which a request addresses the call's host, or None if the server is not clustered."""
        assert self.host is not None  # noqa: S101 - asked only for a host
        return self.target(member_of(self.host))

    # The instance

    def look(self, step: str) -> Instance | None:
        """Return the instance, or None if it does not exist.

        Raises:
            DriverError: the instance does not belong to the service, its state is unknown, or a call with a higher
                fence has changed it.
        """
        answer = self.find(step, self.path)
        found = None if answer is None else read_ours(step, self.host_name, answer.value, answer.etag or "")
        if answer is not None and found is None:
            text = f"instance {instance_name(self.guest)} does not belong to bulkdeploy"
            raise DriverError(step, self.host_name, text, transient=False)
        if found is not None and not found.is_seen:
            text = f"Incus does not know whether the guest runs: its state is {found.status!r}"
            raise DriverError(step, self.host_name, text, transient=True)
        if found is not None and found.fence > self.fence:
            raise self.stale(step)
        return found

    def check_member(self, step: str, found: Instance) -> None:
        """Raise a DriverError if the instance is on another member than the call's host."""
        if self.host is not None and found.member != self.here():
            text = f"guest {self.guest} is on member {found.member}"
            raise DriverError(step, self.host_name, text, transient=False)

    def running(self, step: str) -> Instance:
        """Return the instance.

        Raises:
            DriverError: the instance does not run on the call's host.
        """
        found = self.look(step)
        if found is None or not found.runs:
            raise DriverError(step, self.host_name, "the guest does not run there", transient=False)
        self.check_member(step, found)
        return found

    def open_serial(self) -> socket.socket:
        """Connect to the serial console of the guest.

        Raises:
            DriverError: the guest does not run on the call's host, or Incus did not answer.
        """
        answer = self.find("console", self.path)
        found = None if answer is None else read_ours("console", self.host_name, answer.value)
        if found is None or not found.runs:
            raise self.error("console", "the guest does not run there")
        self.check_member("console", found)
        begun = self.send("console", "POST", f"{self.path}/console", CONSOLE)
        try:
            return open_serial(self._cluster.incus.access, begun.value, timeout_s=self.left)
        except NotAnswered as error:
            raise failure("console", self.host_name, error) from error

    def change(self, step: str, found: Instance, definition: Mapping[str, Any]) -> bool:
        """Replace the definition of the instance if the instance is unchanged since ``found`` was read.

        Returns False if another call has changed the instance or is changing it. The caller then reads it again.
        """
        try:
            with self._cluster.slots:
                self._cluster.incus.run("PUT", self.path, definition, timeout_s=self.left, if_match=found.etag)
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
        """Delete an instance that has no root volume, and return True.

        Return False for any other instance.

        Incus cannot start such an instance, and returns an error for every change although it stores parts of it.
        An instance that has run before is deleted only in the step ``delete``.
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
        """Change the instance, which must run on the call's host.

        ``definition`` returns the new definition. It is called again if another call has changed the instance
        meanwhile.
        """
        found = self.running(step)
        while not self.change(step, found, definition(found)):
            found = self.running(step)

    def make(self, guest: GuestSpec) -> Instance:
        """Create the instance with a gate, and return it.

        An instance that already exists is returned unchanged.

        Raises:
            DriverError: the instance was not created.
        """
        root = guest.volumes[0] if guest.volumes else None
        pool = None if root is None else self._cluster.pool(root.pool_uuid)
        assert self.host is not None  # noqa: S101 - only starts make
        kind = VIRTUAL_MACHINE if self.host.hypervisor == MACHINES else CONTAINER
        source = self._cluster.source_of(guest)
        body = new_instance(guest, kind, source, pool, self.fence, self._cluster.options)
        self.run("volume", "POST", path_of("instances"), body, target=self.here(), tolerate=ALREADY)
        found = self.look("volume")
        if found is None:
            reason = "the instance was not created"
            if pool is not None and (self.guest, self.here()) in self.orphans("volume", pool):
                reason += (
                    f": its member has a root volume {instance_name(self.guest)} in pool {pool} without an instance"
                )
            raise DriverError("volume", self.host_name, reason, transient=True)
        return found

    def undo(self, found: Instance) -> None:
        """Delete the instance that an overtaken start has created, unless a later call has changed it."""
        if found.fence == self.fence and found.is_gated:
            self.run("delete", "DELETE", self.path, tolerate=("not found", "running", "protected"))

    def bring_here(self, found: Instance) -> Instance:
        """Move a stopped instance to the call's member, and return it. Incus also moves its root disk."""
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
        """Remove the gate from the instance under the call's fence, so that it can be started.

        A running instance on the call's member is not changed.

        Raises:
            DriverError: the instance was removed or is on another member, or its user data is not text.
        """
        while True:
            found = self.look("boot")
            if found is None:
                raise DriverError("boot", self.host_name, "the instance was removed", transient=True)
            if found.runs:
                self.check_member("boot", found)
                return
            try:
                definition = opened(found, guest, volumes, self.fence, self._cluster.options)
            except UnicodeDecodeError as error:
                reason = "the user data of the guest must be text, because Incus accepts no other data"
                raise DriverError("boot", self.host_name, reason, transient=False) from error
            if self.change("boot", found, definition):
                return

    def close(self, step: str, *, patience_s: float) -> Instance | None:
        """Stop and gate the instance under the call's fence, and return it, or None if it does not exist.

        ``patience_s`` is the time for a shutdown before the instance is stopped by force, in seconds.

        Raises:
            DriverError: the instance did not stop in time.
        """
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
        """Yield the service's data volumes in a pool of Incus."""
        for row in self._volume_rows(step, pool):
            if (volume := read_volume(row, pool)) is not None:
                yield volume

    def _volume_rows(self, step: str, pool: str, kind: str = "custom") -> list[dict[str, Any]]:
        where = path_of("storage-pools", pool, "volumes", kind)
        return list(self.send(step, "GET", where, recursion=1).value or ())

    def orphans(self, step: str, pool: str) -> list[tuple[UUID, str | None]]:
        """Return the root volumes without an instance in a pool of Incus, as ``read_orphans`` does."""
        volumes = [row for kind in KINDS for row in self._volume_rows(step, pool, kind)]
        return list(read_orphans(volumes, self.send(step, "GET", path_of("instances"), recursion=1).value or ()))

    def find_volume(self, step: str, volume: VolumeSpec) -> Volume | None:
        """Return a data volume as Incus reports it, or None if it does not exist."""
        pool = self._cluster.pool(volume.pool_uuid)
        return next((one for one in self.volumes(step, pool) if one.uuid == volume.uuid), None)

    def ensure_volume(self, volume: VolumeSpec, kind: str, *, step: str = "volume") -> Volume:
        """Return a data volume that the call's member can access and that has at least the requested size.

        The volume is created, moved or enlarged if necessary.

        Raises:
            DriverError: the volume existed before and is lost, or it was not moved in time.
        """
        pool = self._cluster.pool(volume.pool_uuid)
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
                config = {"config": new["config"]}  # a move does not copy the keys
                self.run(step, "PATCH", f"{where}/{volume.uuid}", config, target=places[0])
            elif len(there) == 1:
                moved = {"name": str(volume.uuid), "pool": pool, "migration": True}
                source = {"source": {"location": places[0]}}
                self.run(
                    step, "POST", f"{where}/{volume.uuid}", moved | source, target=self.here(), tolerate=ALREADY
                )
            if self.is_over:
                reason = (
                    f"volume {volume.uuid} is on {places}: it is still being moved, or its move was interrupted"
                )
                raise DriverError(step, self.host_name, reason, transient=True)
            time.sleep(AGAIN_S if there else 0)
        if found.size_bytes < volume.size_bytes:
            self.resize(found, volume.size_bytes, step=step)
        return found

    def places(self, step: str, guest: GuestSpec) -> list[tuple[str, str | None]]:
        """Return the API paths and members of the guest's data volumes and, as the last pair, of its instance.

        The instance contains the guest's root volume.
        """
        found = [self.find_volume(step, volume) for volume in guest.volumes[1:]]
        volumes = [(_path_of_volume(volume), volume.member) for volume in found if volume is not None]
        return [*volumes, (self.path, None)]

    def has_snapshot(self, step: str, uuid: UUID) -> bool:
        """Return whether the instance has this snapshot. If it does, the snapshot is complete."""
        return self.find(step, f"{self.path}/snapshots/{uuid}") is not None

    def remove_snapshot(self, step: str, where: str, member: str | None, uuid: UUID) -> None:
        """Delete a snapshot of an instance or a volume. A missing snapshot is no error."""
        self.run(step, "DELETE", f"{where}/snapshots/{uuid}", target=member, tolerate=("not found",))

    def resize(self, volume: Volume, size_bytes: int, *, step: str = "resize") -> None:
        """Change the size of a data volume to ``size_bytes``."""
        self.run(
            step, "PATCH", _path_of_volume(volume), {"config": {"size": f"{size_bytes}B"}}, target=volume.member
        )

    def resize_root(self, found: Instance, volume: VolumeSpec) -> None:
        """Change the size of the root disk to that of ``volume``.

        Raises:
            DriverError: the disk of a running guest would shrink.
        """
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


def read_ours(step: str, host_name: str, row: Mapping[str, Any], etag: str = "") -> Instance | None:
    """Return the instance of a row, or None if the row is not an instance of this service.

    Raises:
        DriverError: the instance was changed by hand and cannot be read. The error is permanent.
    """
    try:
        return read_instance(row, etag)
    except (KeyError, ValueError) as error:
        text = f"instance {row.get('name')} was changed by hand and cannot be read: {error!r}"
        raise DriverError(step, host_name, text, transient=False) from error


def _path_of_volume(volume: Volume) -> str:
    return path_of("storage-pools", volume.incus_pool, "volumes", "custom", str(volume.uuid))


def member_of(host: HostAddress) -> str:
    """Return the name of the member that a host is, in the case of its url, because names differ by case."""
    return (urlsplit(host.url).netloc if host.url else None) or host.name
