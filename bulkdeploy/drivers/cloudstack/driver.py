"""The driver for an upstream CloudStack: docs/explanation/cloudstack-driver.md (one file: a call is one VM).

A guest is a VM there, on the host that was planned (``hostid``), under an id that we choose (``customid``), so that
CloudStack itself refuses a second one; after a lost answer it is found by that id before anything is repeated. Ids
are given once for ever, of removed VMs, too: what was removed comes back under its next attempt's id. Fences and
the one host that may have a guest stand in the service's records.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from typing_extensions import override

from bulkdeploy.cloudstack.client import (
    INVALID,
    OF_EACH_OWNER,
    Access,
    CallRefused,
    Client,
    NotAnswered,
    Row,
    is_not_there,
    rows_in,
)
from bulkdeploy.cloudstack.host_capacity import cores_of, memory_mib_of, overcommit_of
from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.domain.networks.addresses import GivenNic
from bulkdeploy.domain.units import GIB
from bulkdeploy.drivers.abilities.devices import HotPlugNics, HotPlugVolumes
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.resizing import GrowingVolumes, ShrinkingVolumes
from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.abilities.starts import GuestPasswords
from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.cloudstack.calls import (
    TAKEN,
    TRANSIENT,
    Calls,
    JobFailed,
    failure,
    id_of,
    job_id_of,
)
from bulkdeploy.drivers.cloudstack.options import CloudStackOptions
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, lost_volume, refuse_lost_volumes
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.exchanges.turns import Turns
from bulkdeploy.drivers.guests import Guest, GuestSpec, NicSpec, PowerState, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.records import Counterpart, GuestOrder

T = TypeVar("T")

SCHEME = "cloudstack"
ROOT = "ROOT"
RUNNING, STOPPED, ERROR = "Running", "Stopped", "Error"
GONE = (None, "Destroyed", "Expunging")
UNDER_WAY = ("Starting", "Stopping", "Migrating")
LOOKS_FOR_TAKEN = 30
"""Looks for a VM whose id is taken until it counts as removed: lists are late by seconds."""


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
    """See the module."""

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
        """Return the host ``cloudstack://ID`` of CloudStack's."""
        parts = urlsplit(host.access.url)
        if parts.scheme != SCHEME or not parts.hostname:
            raise DriverError(
                "connect", ANY_HOST, "its url must be cloudstack://ID of a host there", transient=False
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
                _Start(call, guest, order).run()

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
        """Return whether CloudStack reports that its host is Up."""
        named = {"id": host_id_of(host), "type": "Routing"}
        try:
            rows = rows_in(self._calls.call("listHosts", named, timeout_s=timeout_s))
        except (CallRefused, NotAnswered):
            return False
        return any(row["state"] == HostState.UP for row in rows)

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """Return the power state of a VM on this host. A VM that does not run counts as absent (None)."""
        call = _Call(self, host, guest_uuid, fence, timeout_s)
        where = call.fenced_here("look")
        row = call.at_rest("look")
        if row is None or row["state"] in (*GONE, STOPPED, ERROR):
            call.let_go(where)
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
        """Destroy a VM. If its root volume is not among ``volume_uuids``, the VM is stopped and kept."""
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
                call = _Call(self, None, guest, 0, timeout_s)
                row = call.at_rest("delete")
                if row is not None and row["state"] == RUNNING:
                    raise DriverError("delete", ANY_HOST, f"guest {guest} runs with the volume", transient=True)
                call.destroy()
                return
            _Call(self, None, volume_uuid, 0, timeout_s).delete_volume(volume_uuid)

    @override
    def ensure_migrated(
        self, source: HostAddress, destination: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = _Call(self, destination, guest.uuid, fence, timeout_s)
        where = call.raise_fence("migrate")
        if where.host_uuids - {source.uuid, destination.uuid}:
            raise DriverError("migrate", destination.name, "the guest is on another host", transient=False)
        row = call.at_rest("migrate")
        if row is None or row["state"] != RUNNING:
            raise DriverError("migrate", destination.name, "the guest does not run", transient=False)
        fences = self._records.fences
        if row["hostid"] != host_id_of(destination):
            if row["hostid"] != host_id_of(source):
                raise DriverError("migrate", destination.name, "the guest is on another host", transient=False)
            fences.move(guest.uuid, source.uuid, destination.uuid, fence)
            with self._slots:
                call.migrate(row)
        fences.move(guest.uuid, destination.uuid, None, fence)

    @override
    def ensure_scaled(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = _Call(self, host, guest.uuid, fence, timeout_s)
        call.fenced_here("scale")
        call.scale("scale", call.running("scale", "servoff"), guest, self._order(host, guest.uuid))

    @override
    def ensure_devices(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        call = _Call(self, host, guest.uuid, fence, timeout_s)
        call.fenced_here("devices")
        row = call.running("devices", "nics")
        call.claim("devices", [volume.uuid for volume in guest.volumes])
        call.give_volumes("devices", row, guest, self._order(host, guest.uuid))
        call.give_nics("devices", row, guest.nics)

    @override
    def ensure_resized(
        self, host: HostAddress | None, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float
    ) -> None:
        call = _Call(self, host, guest_uuid, fence, timeout_s)
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
                    "the guest runs, but the change needs a stopped guest",
                    transient=False,
                )
            call.resize("resize", there, volume.size_bytes)

    @override
    def size_of(self, guest_uuid: UUID, volume: VolumeSpec, *, fence: int, timeout_s: float) -> int | None:
        call = _Call(self, None, guest_uuid, fence, timeout_s)
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
        """Yield this service's volumes with their uuids here.

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
        """Return the ids of the service's own VMs among these of CloudStack, with the service's uuids."""
        by_id = _by_id(self._records.counterparts.all())
        others = [UUID(one) for one in ids if one not in by_id]
        return by_id | {str(uuid): uuid for uuid in known(others)}

    def _all(self, command: str, **restricted: str) -> list[Row]:
        """Return all rows of a list, those of projects, too.

        Raises:
            DriverError: not all of them could be read; absence would mean nothing.
        """
        rows: list[Row] = []
        for owned in OF_EACH_OWNER:
            try:
                listed = self._client.list_all(command, {**restricted, **owned})
            except (CallRefused, NotAnswered) as error:
                raise failure("list", ANY_HOST, error) from error
            if not listed.is_whole:
                text = f"{command} gave {len(listed.rows)} of {listed.count} rows"
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
    ) -> "Iterator[_Call]":
        """Yield a call that changes the guest.

        Its records are read after earlier calls for the guest have ended.
        """
        end = time.monotonic() + timeout_s
        name = ANY_HOST if host is None else host.name
        with self._turns.of(guest_uuid, step, name, timeout_s=timeout_s):
            yield _Call(self, host, guest_uuid, fence, end - time.monotonic())


class _Call(FencedCall):
    """A call about one guest and its VM in CloudStack."""

    def __init__(
        self, driver: CloudStackDriver, host: HostAddress | None, guest_uuid: UUID, fence: int, timeout_s: float
    ) -> None:
        super().__init__(driver._records.fences, host, guest_uuid, fence, timeout_s)
        self.driver, self.calls, self.records = driver, driver._calls, driver._records
        self.noted: Counterpart | None = self.records.counterparts.find(guest_uuid)

    @property
    def vm_id(self) -> str:
        """The id of the guest's VM in CloudStack."""
        return id_of(self.guest, 1 if self.noted is None else self.noted.attempt)

    def check_place(self, step: str, row: Row) -> None:
        """Refuse a call for a host that does not have the VM."""
        if self.host is not None and row.get("hostid") not in (None, host_id_of(self.host)):
            raise self.error(step, f"VM {row['id']} is on host {row.get('hostname', row['hostid'])}")

    def try_to(self, step: str, make: Callable[[], T]) -> T:
        """Make API calls, and convert their errors to driver errors.

        Raises:
            DriverError: see there.
        """
        try:
            return make()
        except (CallRefused, NotAnswered, JobFailed) as error:
            raise failure(step, self.host_name, error) from error

    def request(self, step: str, command: str, **parameters: str) -> Row:
        """Return a call that answers a job, and the job's end; see ``try_to``."""
        return self.try_to(step, lambda: self.calls.run(command, parameters, end=self.end))

    def look(self, step: str, *details: str) -> Row | None:
        """Return the VM now; see ``try_to``."""
        return self.try_to(step, lambda: self.calls.look(self.vm_id, "min", *details, timeout_s=self.left))

    def at_rest(self, step: str, *details: str) -> Row | None:
        """Wait until no job changes the VM or is queued for it, and return the VM, or None if it does not exist."""
        row = self.look(step, *details)
        while row is not None and is_changing(row):
            if self.is_over:
                job = f" with job {row['jobid']} unfinished" if "jobid" in row else ""
                raise self.error(step, f"VM {row['id']} is still {row['state']}{job}", transient=True)
            time.sleep(self.calls.poll_s)
            row = self.look(step, *details)
        return row

    def running(self, step: str, *details: str) -> Row:
        """Return the VM, which runs on the call's host."""
        row = self.at_rest(step, *details)
        if row is None or row["state"] != RUNNING:
            raise self.error(step, "the guest does not run")
        self.check_place(step, row)
        return row

    def stop(self, step: str, row: Row, *, forced: bool) -> None:
        """Stop the VM. A failed job is ignored if the VM is stopped nevertheless."""
        self._job(
            step,
            "stopVirtualMachine",
            {"id": row["id"], "forced": str(forced).lower()},
            row,
            lambda now: now is None or now["state"] in (STOPPED, ERROR, *GONE),
        )

    def migrate(self, row: Row) -> None:
        """Move the VM to the call's host."""
        if self.host is None:
            raise self.error("migrate", "it has no host")
        there = host_id_of(self.host)
        self._job(
            "migrate",
            "migrateVirtualMachine",
            {"virtualmachineid": row["id"], "hostid": there},
            row,
            lambda now: now is not None and now["state"] == RUNNING and now.get("hostid") == there,
        )

    def _job(
        self,
        step: str,
        command: str,
        parameters: Mapping[str, str],
        row: Row,
        is_done: Callable[[Row | None], bool],
    ) -> None:
        """Run an upstream job on the VM and wait for its end.

        If the job fails, but ``is_done`` is true for the VM afterwards, the job counts as successful.
        """
        try:
            ticket = self.calls.call(command, parameters, timeout_s=self.left)
            self.calls.settle(
                command, row["id"], str(ticket["jobid"]), is_done, end=self.end, project="projectid" in row
            )
        except (CallRefused, NotAnswered, JobFailed) as error:
            now = self.at_rest(step)
            if not is_done(now):
                raise failure(step, self.host_name, error) from error

    def scale(self, step: str, row: Row, guest: GuestSpec, order: GuestOrder) -> None:
        """Change the sizes of the VM to those of the guest, with the service offering that was ordered."""
        if sizes_of(row) != (guest.cpu_number, guest.cpu_mhz, guest.memory_mib):
            self.request(
                step,
                "scaleVirtualMachine",
                id=row["id"],
                serviceofferingid=str(order.offering_uuid),
                **_custom_sizes(guest, order),
            )

    def remove(self, volume_uuids: frozenset[UUID]) -> None:
        """Delete these volumes, and the VM if its root volume is among them. Otherwise only stop the VM."""
        root = self._root_uuid()
        if root is None or root in volume_uuids:
            self.destroy()
        else:
            row = self.at_rest("delete")
            if row is not None and row["state"] not in (*GONE, STOPPED, ERROR):
                self.check_place("delete", row)
                self.stop("delete", row, forced=True)
        for volume in sorted(volume_uuids - {root}):
            self.delete_volume(volume)

    def _root_uuid(self) -> UUID | None:
        """Return the uuid of the root volume from the records or, for an imported VM, from CloudStack."""
        if self.noted is not None and self.noted.root_uuid is not None:
            return self.noted.root_uuid
        rows = self.try_to(
            "delete", lambda: self.calls.volumes(virtualmachineid=self.vm_id, type=ROOT, timeout_s=self.left)
        )
        return UUID(rows[0]["id"]) if rows else None

    @property
    def was_sent(self) -> bool:
        """True if CloudStack may have a VM with the current id."""
        return self.noted is not None and self.noted.root_uuid is not None

    def destroy(self) -> None:
        """Expunge the VM in any state. Its data volumes are kept. Its id is not used again."""
        row = self.at_rest("delete")
        if row is not None:
            self.check_place("delete", row)
        if self.was_sent and (row is None or row["state"] == STOPPED):
            self._await_deployment()
        if row is None and not self.was_sent:
            return
        self._expunge()
        self.records.counterparts.spend(self.guest, 1 if self.noted is None else self.noted.attempt)
        self.noted = self.records.counterparts.find(self.guest)

    def _expunge(self) -> None:
        """Expunge the VM. An error of CloudStack is ignored if the VM does not exist any more."""
        parameters = {"id": self.vm_id, "expunge": "true"}
        try:
            self.calls.run("destroyVirtualMachine", parameters, end=self.end)
        except (CallRefused, JobFailed) as error:
            # UserVmManagerImpl.destroyVm runs in the job: an expunged VM fails there, with code 431.
            if error.code != INVALID or self.look("delete") is not None:
                raise failure("delete", self.host_name, error) from error
        except NotAnswered as error:
            raise failure("delete", self.host_name, error) from error

    def _await_deployment(self) -> None:
        """Wait for the end of the job that deploys the VM: until then it may come into being."""
        try:
            while self.calls.has_ended("deployVirtualMachine", job_id_of(self.vm_id)) is False:
                if self.is_over:
                    raise self.error("delete", f"VM {self.vm_id} is still being deployed", transient=True)
                time.sleep(self.calls.poll_s)
        except JobFailed:
            return
        except (CallRefused, NotAnswered) as error:
            raise failure("delete", self.host_name, error) from error

    def volume_row(self, step: str, volume_uuid: UUID, vm: Row | None) -> Row | None:
        """Return a volume of the VM, or None if CloudStack does not have it."""
        if vm is not None and self.noted is not None and volume_uuid == self.noted.root_uuid:
            rows = self.try_to(
                step, lambda: self.calls.volumes(virtualmachineid=vm["id"], type=ROOT, timeout_s=self.left)
            )
        else:
            rows = self.try_to(step, lambda: self.calls.volumes(id=self._id(volume_uuid), timeout_s=self.left))
        return next((row for row in rows if row.get("state") not in ("Destroy", "Expunged")), None)

    def _id(self, volume_uuid: UUID) -> str:
        noted = self.records.counterparts.find(volume_uuid)
        return id_of(volume_uuid, 1 if noted is None else noted.attempt)

    def resize(self, step: str, row: Row, size_bytes: int) -> None:
        """Resize a volume to a size that is rounded up to whole GiB."""
        size = -(-size_bytes // GIB)
        if int(row["size"]) == size * GIB:
            return
        smaller = {"shrinkok": "true"} if int(row["size"]) > size * GIB else {}
        self.request(step, "resizeVolume", id=row["id"], size=str(size), **smaller)

    def delete_volume(self, volume_uuid: UUID) -> None:
        """Delete a data volume, which no VM that runs has. Its id is used up."""
        row = self.volume_row("delete", volume_uuid, None)
        if row is None:
            return
        if row.get("virtualmachineid"):
            if row.get("vmstate") == RUNNING:
                raise self.error("delete", f"VM {row['virtualmachineid']} runs with the volume", transient=True)
            self.request("delete", "detachVolume", id=row["id"])
        try:
            self.calls.call("deleteVolume", {"id": row["id"]}, timeout_s=self.left)
        except CallRefused as error:
            if not is_not_there(error.text):
                raise failure("delete", self.host_name, error) from error
        except NotAnswered as error:
            raise failure("delete", self.host_name, error) from error
        noted = self.records.counterparts.find(volume_uuid)
        self.records.counterparts.spend(volume_uuid, 1 if noted is None else noted.attempt)

    def give_volumes(self, step: str, vm: Row, guest: GuestSpec, order: GuestOrder) -> None:
        """Attach the guest's data volumes to the VM and detach all others.

        Volumes that are too small are enlarged.
        """
        there = self.try_to(step, lambda: self.calls.volumes(virtualmachineid=vm["id"], timeout_s=self.left))
        attached = {row["id"]: row for row in there if row["type"] != ROOT}
        root = next((row for row in there if row["type"] == ROOT), None)
        if root is not None and guest.volumes and int(root["size"]) < guest.volumes[0].size_bytes:
            self.resize(step, root, guest.volumes[0].size_bytes)
        wanted = {self._id(volume.uuid): volume for volume in guest.volumes[1:]}
        for volume_id in attached.keys() - wanted.keys():
            self.request(step, "detachVolume", id=volume_id)
        for volume_id, volume in wanted.items():
            row = attached.get(volume_id)
            if row is None:
                row = self._made(step, volume_id, volume, order)
                self.request(step, "attachVolume", id=volume_id, virtualmachineid=vm["id"])
            if int(row["size"]) < volume.size_bytes:
                self.resize(step, row, volume.size_bytes)

    def _made(self, step: str, volume_id: str, volume: VolumeSpec, order: GuestOrder) -> Row:
        """Return a data volume, which is created if it does not exist."""
        row = self.volume_row(step, volume.uuid, None)
        if row is not None:
            return row
        if volume.was_made:
            raise lost_volume(step, self.host_name, volume)
        offering = order.disk_offerings.get(volume.uuid)
        if offering is None:
            raise self.error(step, f"volume {volume.uuid} has no disk offering")
        self.records.counterparts.note(volume.uuid)
        # VolumeApiServiceImpl.allocVolume rejects a size unless the offering is customized.
        size = {"size": str(-(-volume.size_bytes // GIB))} if volume.uuid in order.custom_disks else {}
        made = self.request(
            step,
            "createVolume",
            customid=volume_id,
            name=volume.name,
            zoneid=str(order.zone_uuid),
            diskofferingid=str(offering),
            **size,
            **_owner(order),
        )
        row = made.get("volume")
        return row if isinstance(row, dict) else {"id": volume_id, "size": volume.size_bytes}

    def give_nics(self, step: str, vm: Row, nics: Sequence[NicSpec]) -> None:
        """Add and remove NICs so that the VM has exactly the NICs of the guest."""
        left = list(vm.get("nic", ()))
        missing = []
        for nic in sorted(nics, key=lambda one: not (one.has_requested_mac or one.has_requested_ip)):
            found = next((there for there in left if _is_nic(there, nic)), None)
            if found is None:
                missing.append(nic)
            else:
                left.remove(found)
        for there in left:
            self.request(step, "removeNicFromVirtualMachine", virtualmachineid=vm["id"], nicid=there["id"])
        for nic in missing:
            self.request(
                step,
                "addNicToVirtualMachine",
                virtualmachineid=vm["id"],
                networkid=str(nic.network_uuid),
                **{f"{name}address": value for name, value in _requested_addresses(nic).items()},
            )
        if missing:
            self.write_addresses(self.look(step, "nics"))

    def write_addresses(self, vm: Row | None) -> None:
        """Write the addresses that CloudStack gave to the VM's nics."""
        if vm is None or not vm.get("nic"):
            return
        nics = sorted(vm["nic"], key=lambda nic: int(nic.get("deviceid") or 0))
        self.records.counterparts.write_addresses(
            self.guest,
            [
                GivenNic(
                    UUID(nic["networkid"]),
                    nic["macaddress"].lower(),
                    nic.get("ipaddress") or None,
                    nic.get("gateway") or None,
                    nic.get("netmask") or None,
                )
                for nic in nics
            ],
        )


class _Start:
    """The start of one VM from any state. After a lost response, the VM is looked up before a call is repeated."""

    def __init__(self, call: _Call, guest: GuestSpec, order: GuestOrder) -> None:
        self._call, self._guest, self._order = call, guest, order
        self._host_id = "" if call.host is None else host_id_of(call.host)
        self._made = False

    def run(self) -> None:
        """Run the steps until the VM runs.

        Raises:
            DriverError: see HypervisorDriver.
        """
        call = self._call
        self._check_password()
        row = self._seen() if call.was_sent else None
        while row is None or row["state"] != RUNNING:
            if call.is_over:
                raise call.error("boot", f"VM {call.vm_id} does not run in time", transient=True)
            row = self._next(row)
        call.check_place("boot", row)
        call.write_addresses(row)
        if not call.records.fences.is_highest(call.guest, call.fence):
            if self._made:
                call.destroy()
            raise call.stale("boot")

    def _check_password(self) -> None:
        """Reject a guest with a password if this CloudStack version cannot set it."""
        call = self._call
        if self._guest.password is None:
            return
        old = call.try_to("boot", lambda: call.calls.version_without_passwords(timeout_s=call.left))
        if old is not None:
            raise call.error(
                "boot",
                f"CloudStack {old} does not accept passwords for guests (4.19 and later do); use a template that"
                " is not passwordenabled",
            )

    def _next(self, row: Row | None) -> Row | None:
        """Take the next step towards a running VM, and return the VM afterwards."""
        call = self._call
        state = None if row is None else row["state"]
        if row is not None and is_changing(row):
            return self._seen()
        if state in GONE or state == ERROR:
            refuse_lost_volumes("volume", call.host_name, self._guest)
            if row is not None:
                call.destroy()
            return self._deploy()
        return self._start(row or {})

    def _deploy(self) -> Row | None:
        """Deploy the VM in CloudStack, and wait until it runs or, if it has data volumes, until it exists."""
        call = self._call
        call.check_fence("boot")
        call.noted = call.records.counterparts.note(call.guest, self._guest.volumes[0].uuid)
        has_data = len(self._guest.volumes) > 1
        while True:
            try:
                call.calls.call("deployVirtualMachine", self._parameters(starts=not has_data), timeout_s=call.left)
                break
            except CallRefused as error:
                if TAKEN not in error.text:
                    raise failure("boot", call.host_name, error) from error
                return self._found_again(error)
            except NotAnswered as error:
                if error.was_sent:
                    return self._seen()
                if call.is_over:
                    raise failure("boot", call.host_name, error) from error
                call.check_fence("boot")
        self._made = True
        return self._settled("deployVirtualMachine", job_id_of(call.vm_id), (STOPPED,) if has_data else ())

    def _found_again(self, refused: CallRefused) -> Row:
        """Return the VM whose id CloudStack reported as taken.

        An earlier deploy call for the VM succeeded or is in progress, although its response was lost.
        """
        call = self._call
        for _ in range(LOOKS_FOR_TAKEN):
            row = self._seen()
            if row is not None:
                return row
        raise call.error("boot", f"{refused}; but CloudStack lists no VM with this id")

    def _start(self, row: Row) -> Row | None:
        """Apply the guest's size, volumes, NICs and keys to a stopped VM, and start it."""
        call, guest = self._call, self._guest
        call.check_fence("boot")
        row = call.look("boot", "nics", "servoff") or row
        call.noted = call.records.counterparts.note(call.guest, guest.volumes[0].uuid)
        call.scale("boot", row, guest, self._order)
        call.give_volumes("volume", row, guest, self._order)
        call.give_nics("network", row, guest.nics)
        if guest.password is not None and not self._made:
            call.request("boot", "resetPasswordForVirtualMachine", id=row["id"], password=guest.password)
        if not self._made and self._order.key_pairs and set(_names(row)) != set(self._order.key_pairs):
            names = ",".join(sorted(self._order.key_pairs))
            call.request("boot", "resetSSHKeyForVirtualMachine", id=row["id"], keypairs=names)
        call.check_fence("boot")
        parameters = {"id": row["id"], "hostid": self._host_id}
        try:
            ticket = call.calls.call("startVirtualMachine", parameters, timeout_s=call.left)
        except CallRefused as error:
            seen = self._seen()
            if seen is None or seen["state"] != STOPPED or is_changing(seen):
                return seen  # a job of an earlier call was seen too late
            raise failure("boot", call.host_name, error) from error
        except NotAnswered:
            return self._seen()
        return self._settled("startVirtualMachine", str(ticket["jobid"]), ())

    def _settled(self, command: str, job_id: str, enough: Sequence[str]) -> Row | None:
        """Return the VM after its job has ended or after the VM has reached a final state.

        Raises:
            DriverError: the job failed, and not since its server was restarted.
        """
        call = self._call
        states = (RUNNING, ERROR)
        try:
            row = (
                call.calls.settle(
                    command,
                    call.vm_id,
                    job_id,
                    lambda now: now is not None and now["state"] in states,
                    end=call.end,
                    project=self._order.project_uuid is not None,
                )
                if not enough
                else self._after(command, job_id)
            )
            if row is not None and row["state"] == ERROR:
                self._after(command, job_id)
                raise call.error("boot", f"VM {call.vm_id} is in state Error", transient=True)
        except JobFailed as error:
            row = self._seen()
            if row is not None and row["state"] == RUNNING:
                return row
            if error.was_cut_off and (row is None or row["state"] != ERROR):
                return row
            if row is not None and is_changing(row):
                return row  # a job of an earlier call stood in the way
            raise failure("boot", call.host_name, error) from error
        except NotAnswered:
            return self._seen()
        except CallRefused as error:
            raise failure("boot", call.host_name, error) from error
        return row

    def _after(self, command: str, job_id: str) -> Row | None:
        """Return the VM after the job's end."""
        call = self._call
        pause = call.calls.poll_s / 4
        while call.calls.has_ended(command, job_id) is False:
            if call.is_over:
                raise NotAnswered(command, f"job {job_id} has not ended in time", was_sent=True)
            time.sleep(pause)
            pause = min(pause * 1.5, 4 * call.calls.poll_s)
        return call.calls.look(call.vm_id, timeout_s=call.left)

    def _seen(self) -> Row | None:
        """Return the VM as the next shared poll finds it.

        Failed polls are repeated until the time of the call is over.
        """
        call = self._call
        pause = call.calls.poll_s / 2
        while True:
            try:
                return call.calls.watch(call.vm_id, end=call.end, project=self._order.project_uuid is not None)
            except NotAnswered as error:
                if call.is_over:
                    raise failure("boot", call.host_name, error) from error
            except CallRefused as error:
                if error.code not in TRANSIENT or call.is_over:
                    raise failure("boot", call.host_name, error) from error
            time.sleep(pause)
            pause = min(pause * 2, 10.0)

    def _parameters(self, *, starts: bool) -> dict[str, str]:
        """Return the parameters of the upstream ``deployVirtualMachine`` call."""
        guest, order = self._guest, self._order
        parameters = {
            "customid": self._call.vm_id,
            "customjobid": job_id_of(self._call.vm_id),
            "zoneid": str(order.zone_uuid),
            "serviceofferingid": str(order.offering_uuid),
            "templateid": str(order.template_uuid),
            "hypervisor": order.hypervisor,
            "hostid": self._host_id,
            "name": guest.host_name or guest.name,
            "displayname": order.display_name or guest.host_name or guest.name,
            **_owner(order),
            **_custom_sizes(guest, order),
        }
        if not starts:
            parameters["startvm"] = "false"
        root = guest.volumes[0]
        if root.size_bytes != order.root_bytes:
            parameters["rootdisksize"] = str(-(-root.size_bytes // GIB))
        for at, nic in enumerate(guest.nics):
            parameters[f"iptonetworklist[{at}].networkid"] = str(nic.network_uuid)
            for name, value in _requested_addresses(nic).items():
                parameters[f"iptonetworklist[{at}].{name}"] = value
        lists = {
            "affinitygroupids": list(map(str, order.affinity_group_uuids)),
            "securitygroupids": list(map(str, order.security_group_uuids)),
            "keypairs": sorted(order.key_pairs),
        }
        parameters |= {name: ",".join(values) for name, values in lists.items() if values}
        if guest.user_data is not None:
            parameters["userdata"] = guest.user_data
            for at, (name, value) in enumerate(sorted(guest.user_data_details.items())):
                parameters[f"userdatadetails[{at}].{name}"] = value
        if guest.password is not None:
            parameters["password"] = guest.password
        return parameters


def host_id_of(host: HostAddress) -> str:
    """Return the id of a host in CloudStack: from the host's url, or, for imported hosts, the host's uuid."""
    parts = urlsplit(host.url or "")
    return (parts.hostname if parts.scheme == SCHEME else None) or str(host.uuid)


def is_changing(row: Row) -> bool:
    """Return whether a job changes or will change the VM of a row of listVirtualMachines.

    A VM whose deployment or start has not begun is listed as Stopped; only ``jobid`` shows that it will run.
    """
    return row["state"] in UNDER_WAY or "jobid" in row


def sizes_of(row: Row) -> tuple[int, int, int]:
    """Return cores, MHz and MiB of a VM."""
    return int(row.get("cpunumber", 0)), int(row.get("cpuspeed", 0)), int(row.get("memory", 0))


def _requested_addresses(nic: NicSpec) -> dict[str, str]:
    """Return the addresses of a NIC that a caller chose.

    CloudStack chooses the others, because only CloudStack knows which addresses its routers, system VMs and VMs
    use.
    """
    addresses = {}
    if nic.has_requested_mac:
        addresses["mac"] = nic.mac_address
    if nic.has_requested_ip and nic.ip_address is not None:
        addresses["ip"] = nic.ip_address
    return addresses


def _is_nic(there: Row, nic: NicSpec) -> bool:
    """Return whether a nic in CloudStack is in the network and has the addresses that a caller named."""
    requested = _requested_addresses(nic)
    if "mac" in requested and there["macaddress"].lower() != requested["mac"].lower():
        return False
    is_in_network: bool = there["networkid"] == str(nic.network_uuid)
    return is_in_network and requested.get("ip") in (None, there.get("ipaddress"))


def _custom_sizes(guest: GuestSpec, order: GuestOrder) -> dict[str, str]:
    """Return the sizes that the offering leaves open. CloudStack rejects other sizes in a call."""
    sizes = {"cpuNumber": guest.cpu_number, "cpuSpeed": guest.cpu_mhz, "memory": guest.memory_mib}
    return {f"details[0].{name}": str(size) for name, size in sizes.items() if name in order.custom_sizes}


def _owner(order: GuestOrder) -> dict[str, str]:
    if order.project_uuid is not None:
        return {"projectid": str(order.project_uuid)}
    return {"account": order.owner, "domainid": str(order.domain_uuid)}


def _names(row: Row) -> list[str]:
    """Return the names of a VM's key pairs."""
    return [name.strip() for name in str(row.get("keypairs") or "").split(",") if name.strip()]


def _by_id(noted: Mapping[UUID, Counterpart]) -> dict[str, UUID]:
    """Return the noted guests by the ids of all their attempts. So a VM that a delayed call made is found, too."""
    return {id_of(uuid, number): uuid for uuid, one in noted.items() for number in range(1, one.attempt + 1)}


DRIVER = CloudStackDriver
