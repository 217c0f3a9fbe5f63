"""The driver for an upstream CloudStack: docs/explanation/cloudstack-driver.md (one file: one class).

A guest is a VM in the upstream CloudStack, on the planned host (``hostid``), under an id that the service chooses
(``customid``). CloudStack itself therefore rejects a second VM with this id, and after a lost response the VM is
found by its id before a call is repeated. CloudStack never reuses ids, not even those of removed VMs, so a removed
VM is created again under the id of its next attempt. The service's records contain the fences and the only host
that may have a guest.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Self
from urllib.parse import urlsplit
from uuid import UUID

from typing_extensions import override

from bulkdeploy.cloudstack.client import (
    OF_EACH_OWNER,
    Access,
    CallRefused,
    Client,
    NotAnswered,
    Row,
    rows_in,
)
from bulkdeploy.cloudstack.host_capacity import cores_of, memory_mib_of, overcommit_of
from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.drivers.abilities.devices import HotPlugNics, HotPlugVolumes
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes, ShrinkingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.starts import GuestPasswords
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.cloudstack.calls import (
    Calls,
    failure,
    id_of,
)
from bulkdeploy.drivers.cloudstack.cloudstack_call import (
    ERROR,
    GONE,
    ROOT,
    RUNNING,
    SCHEME,
    STOPPED,
    UNDER_WAY,
    CloudStackCall,
    host_id_of,
    sizes_of,
)
from bulkdeploy.drivers.cloudstack.options import CloudStackOptions
from bulkdeploy.drivers.cloudstack.vm_start import VmStart
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.records import Counterpart, GuestOrder


class CloudStackDriver(
    DataVolumes,
    LiveMigration,
    LiveScaling,
    HotPlugVolumes,
    HotPlugNics,
    GrowingVolumes,
    ShrinkingVolumes,
    GuestPasswords,
    HypervisorDriver,
):
    """The driver for one upstream CloudStack. Threads share the object."""

    options_model = CloudStackOptions

    def __init__(self, options: CloudStackOptions, client: Client) -> None:
        self._calls = Calls(client, options.poll_seconds)
        self._client = client
        self._slots = BoundedSemaphore(options.jobs_at_once)
        self._turns = Turns()

    @classmethod
    @override
    def from_options(cls, options: CloudStackOptions) -> Self:
        access = Access(
            options.url,
            options.apikey.get_secret_value(),
            options.secretkey.get_secret_value(),
            None if options.ca_file is None else str(options.ca_file),
            options.calls_per_second,
        )
        return cls(options, Client(access))

    @override
    def close(self) -> None:
        self._client.close()

    def admit_host(self, host: NewHost, *, timeout_s: float) -> HostModel:
        """Return the hardware of the host with the url ``cloudstack://ID``, where ID is its id in CloudStack.

        Raises:
            DriverError: the url is invalid, CloudStack does not have the host, or CloudStack does not answer.
        """
        parts = urlsplit(host.access.url)
        if parts.scheme != SCHEME or not parts.hostname:
            raise DriverError(
                "connect", ANY_HOST, "the url must be cloudstack://ID with the id of a host", transient=False
            )
        try:
            answer = self._calls.call("listHosts", {"id": parts.hostname, "type": "Routing"}, timeout_s=timeout_s)
        except (CallRefused, NotAnswered) as error:
            raise failure("connect", parts.hostname, error) from error
        row = next(iter(rows_in(answer)), None)
        if row is None:
            raise DriverError("connect", parts.hostname, "CloudStack has no such host", transient=False)
        try:
            found = self._calls.call("listClusters", {"id": row["clusterid"]}, timeout_s=timeout_s)
        except (CallRefused, NotAnswered) as error:
            raise failure("connect", parts.hostname, error) from error
        cpu_factor, memory_factor = overcommit_of(row, rows_in(found))
        return HostModel(
            name=row["name"],
            ip_address=row["ipaddress"],
            cpu_sockets=row.get("cpusockets") or 1,
            cpu_cores=cores_of(row, cpu_factor),
            cpu_mhz=row["cpuspeed"],
            memory_mib=memory_mib_of(row, memory_factor),
            local_disk_bytes=0,
            hypervisor_version=row.get("hypervisorversion"),
        )

    @override
    def ensure_running(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        order = self._order(host, guest.uuid)
        with self._in_turn("boot", host, guest.uuid, fence, timeout_s) as call:
            call.claim("boot", [volume.uuid for volume in guest.volumes])
            with self._slots:
                VmStart(call, guest, order).run()

    def ensure_stopped(
        self, host: HostAddress, guest_uuid: UUID, *, forced: bool, fence: int, timeout_s: float
    ) -> None:
        """Stop the VM in CloudStack, and record that the guest is on no host. The VM is kept in CloudStack."""
        with self._in_turn("stop", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("stop")
            row = call.at_rest("stop")
            if row is not None and row["state"] not in (*GONE, STOPPED, ERROR):
                call.check_place("stop", row)
                call.stop("stop", row, forced=forced)
            self._records.fences.release(guest_uuid, fence)

    def ensure_copy_gone(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> None:
        """Stop a VM that runs on this host. The VM is kept. A VM on another host is not changed."""
        with self._in_turn("stop", host, guest_uuid, fence, timeout_s) as call:
            call.raise_fence_elsewhere("stop")
            row = call.at_rest("stop")
            if row is not None and row["state"] == RUNNING and row["hostid"] == host_id_of(host):
                call.stop("stop", row, forced=True)

    def answers(self, host: HostAddress, *, timeout_s: float) -> bool:
        """Return whether CloudStack reports the host as Up. An error counts as False."""
        named = {"id": host_id_of(host), "type": "Routing"}
        try:
            rows = rows_in(self._calls.call("listHosts", named, timeout_s=timeout_s))
        except (CallRefused, NotAnswered):
            return False
        return any(row["state"] == HostState.UP for row in rows)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a VM on this host. A VM that does not run counts as absent (None)."""
        call = CloudStackCall(self._calls, self._records, host, guest_uuid, fence, timeout_s)
        where = call.fenced_here("look")
        row = call.at_rest("look")
        if row is None or row["state"] in (*GONE, STOPPED, ERROR):
            call.record_absence(where)
            return None
        call.check_place("look", row)
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
        """Destroy a VM and delete these volumes.

        If the VM's root volume is not among ``volume_uuids``, the VM is stopped and kept.
        """
        with self._in_turn("delete", host, guest_uuid, fence, timeout_s) as call:
            call.fenced_here("delete")
            call.remove(frozenset(volume_uuids))
            self._records.fences.release(guest_uuid, fence)

    def ensure_volume_absent(self, pool_uuid: UUID, volume_uuid: UUID, *, timeout_s: float) -> None:
        """Delete a volume from CloudStack. A root volume is deleted with its VM, which must not run."""
        del pool_uuid
        with self._records.fences.volumes_in_use([volume_uuid]) as used:
            if used:
                text = f"guest {used[volume_uuid]} has volume {volume_uuid}"
                raise DriverError("delete", ANY_HOST, text, transient=True)
            guest = self._records.counterparts.guest_of_root(volume_uuid)
            if guest is not None:
                call = CloudStackCall(self._calls, self._records, None, guest, 0, timeout_s)
                row = call.at_rest("delete")
                if row is not None and row["state"] == RUNNING:
                    raise DriverError("delete", ANY_HOST, f"guest {guest} runs with the volume", transient=True)
                call.destroy()
                return
            CloudStackCall(self._calls, self._records, None, volume_uuid, 0, timeout_s).delete_volume(volume_uuid)

    @override
    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = CloudStackCall(self._calls, self._records, destination, guest.uuid, fence, timeout_s)
        where = call.raise_fence("migrate")
        if where.host_uuids - {source.uuid, destination.uuid}:
            raise call.elsewhere("migrate")
        row = call.at_rest("migrate")
        if row is None or row["state"] != RUNNING:
            raise DriverError("migrate", destination.name, "the guest does not run", transient=False)
        if row["hostid"] != host_id_of(destination):
            if row["hostid"] != host_id_of(source):
                raise call.elsewhere("migrate")
            call.move("migrate", source, destination)
            with self._slots:
                call.migrate(row)
        call.move("migrate", destination, None)

    @override
    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = CloudStackCall(self._calls, self._records, host, guest.uuid, fence, timeout_s)
        call.fenced_here("scale")
        call.scale("scale", call.running("scale", "servoff"), guest, self._order(host, guest.uuid))

    @override
    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = CloudStackCall(self._calls, self._records, host, guest.uuid, fence, timeout_s)
        call.fenced_here("devices")
        row = call.running("devices", "nics")
        call.claim("devices", [volume.uuid for volume in guest.volumes])
        call.give_volumes("devices", row, guest, self._order(host, guest.uuid))
        call.give_nics("devices", row, guest.nics)

    @override
    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = CloudStackCall(self._calls, self._records, host, guest_uuid, fence, timeout_s)
        call.fenced_here("resize")
        row = call.at_rest("resize")
        runs = row is not None and row["state"] == RUNNING
        if host is None and runs:
            raise DriverError("resize", ANY_HOST, "the guest runs", transient=False)
        if host is not None:
            row = call.running("resize")
        there = call.volume_row("resize", volume.uuid, row)
        if there is not None:
            if runs and int(there["size"]) > volume.size_bytes:
                raise DriverError(
                    "resize",
                    call.host_name,
                    "a volume can shrink only while the guest is stopped",
                    transient=False,
                )
            call.resize("resize", there, volume.size_bytes)

    @override
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        call = CloudStackCall(self._calls, self._records, None, guest_uuid, fence, timeout_s)
        call.raise_fence("look")
        there = call.volume_row("look", volume.uuid, call.at_rest("look"))
        return None if there is None else int(there["size"])

    def list_guests(self) -> Iterator[Guest]:
        """List the VMs of this service that run, or are about to run, on hosts of this service."""
        hosts = {host_id_of(host): host.uuid for host in self._records.directory.hosts()}
        there = [
            row
            for row in self._all("listVirtualMachines", details="min,servoff")
            if row.get("hostid") in hosts and row["state"] in (RUNNING, *UNDER_WAY)
        ]
        ours = self._ours([row["id"] for row in there], self._records.orders.known_guests)
        volumes: dict[str, set[UUID]] = {}
        for uuid, volume in self._volumes():
            volumes.setdefault(volume.get("virtualmachineid", ""), set()).add(uuid)
        for row in there:
            if row["id"] in ours:
                power = PowerState.STOPPED if row["state"] == "Starting" else PowerState.RUNNING
                yield Guest(
                    ours[row["id"]],
                    hosts[row["hostid"]],
                    power,
                    *sizes_of(row),
                    frozenset(volumes.get(row["id"], ())),
                )

    def list_volumes(self) -> Iterator[tuple[UUID, UUID, int]]:
        """List the volumes in storage pools. Volumes that are in no pool yet use no storage and are omitted."""
        for uuid, row in self._volumes():
            if row.get("storageid"):
                yield uuid, UUID(row["storageid"]), int(row["size"])

    def _volumes(self) -> Iterator[tuple[UUID, Row]]:
        """Yield the rows of this service's volumes with their uuids in the service.

        Root volumes are identified by their VMs, other volumes by the ids that this service chose for them.
        """
        rows = [row for row in self._all("listVolumes") if row.get("state") not in ("Expunged", "Destroy")]
        noted = self._records.counterparts.all()
        by_id = _by_id(noted)
        known = self._records.orders.known_volumes([UUID(row["id"]) for row in rows if row["id"] not in by_id])
        for row in rows:
            guest = by_id.get(row.get("virtualmachineid", ""))
            if row["id"] in by_id:
                yield by_id[row["id"]], row
            elif row["type"] == ROOT and guest is not None and (root := noted[guest].root_uuid) is not None:
                yield root, row
            elif UUID(row["id"]) in known:
                yield UUID(row["id"]), row

    def _ours(self, ids: Sequence[str], known: Callable[[Sequence[UUID]], frozenset[UUID]]) -> Mapping[str, UUID]:
        """Return the uuids of this service's VMs by their ids in CloudStack.

        Args:
            ids: the ids in CloudStack to examine.
            known: returns those uuids that are VMs of this service.
        """
        by_id = _by_id(self._records.counterparts.all())
        others = [UUID(one) for one in ids if one not in by_id]
        return by_id | {str(uuid): uuid for uuid in known(others)}

    def _all(self, command: str, **restricted: str) -> list[Row]:
        """Return all rows of a list command, including rows of projects.

        Raises:
            DriverError: some rows could not be read, so that a missing row would prove nothing.
        """
        rows: list[Row] = []
        for owned in OF_EACH_OWNER:
            try:
                listed = self._client.list_all(command, {**restricted, **owned})
            except (CallRefused, NotAnswered) as error:
                raise failure("list", ANY_HOST, error) from error
            if not listed.is_whole:
                text = f"{command} returned {len(listed.rows)} of {listed.count} rows"
                raise DriverError("list", ANY_HOST, text, transient=True)
            rows += listed.rows
        return list({row["id"]: row for row in rows}.values())

    def _order(self, host: HostAddress, guest_uuid: UUID) -> GuestOrder:
        order = self._records.orders.order(guest_uuid)
        if order is None:
            raise DriverError("boot", host.name, f"there is no VM {guest_uuid}", transient=False)
        return order

    @contextmanager
    def _in_turn(
        self, step: str, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> Iterator[CloudStackCall]:
        """Yield a call that changes the guest, while other calls of this process for the guest wait.

        The guest's records are read after earlier calls have ended.
        """
        end = time.monotonic() + timeout_s
        name = ANY_HOST if host is None else host.name
        with self._turns.of(guest_uuid, step, name, timeout_s=timeout_s):
            yield CloudStackCall(self._calls, self._records, host, guest_uuid, fence, end - time.monotonic())


def _by_id(noted: Mapping[UUID, Counterpart]) -> dict[str, UUID]:
    """Return the uuids of recorded VMs and volumes by the ids of all their attempts.

    The ids of earlier attempts are included because a delayed call may still create a VM under such an id.
    """
    return {id_of(uuid, number): uuid for uuid, one in noted.items() for number in range(1, one.attempt + 1)}


DRIVER = CloudStackDriver
