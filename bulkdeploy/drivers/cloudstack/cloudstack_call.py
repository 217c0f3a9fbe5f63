"""A driver call for one guest and its VM in the upstream CloudStack (one file: one class)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from bulkdeploy.cloudstack.client import INVALID, CallRefused, NotAnswered, Row, is_not_there
from bulkdeploy.domain.networks.addresses import GivenNic
from bulkdeploy.domain.units import GIB
from bulkdeploy.drivers.cloudstack.calls import Calls, JobFailed, failure, id_of, job_id_of
from bulkdeploy.drivers.errors import lost_volume
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.guests import GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import Counterpart, GuestOrder, Records

T = TypeVar("T")

SCHEME = "cloudstack"
ROOT = "ROOT"
RUNNING, STOPPED, ERROR = "Running", "Stopped", "Error"
GONE = (None, "Destroyed", "Expunging")
UNDER_WAY = ("Starting", "Stopping", "Migrating")


class CloudStackCall(FencedCall):
    """A driver call for one guest and its VM in the upstream CloudStack."""

    def __init__(
        self,
        calls: Calls,
        records: Records,
        host: HostAddress | None,
        guest_uuid: UUID,
        fence: int,
        timeout_s: float,
    ) -> None:
        super().__init__(records.fences, host, guest_uuid, fence, timeout_s)
        self.calls, self.records = calls, records
        self.noted: Counterpart | None = self.records.counterparts.read(guest_uuid)

    @property
    def vm_id(self) -> str:
        """The id of the guest's VM in CloudStack."""
        return id_of(self.guest, 1 if self.noted is None else self.noted.attempt)

    def check_place(self, step: str, row: Row) -> None:
        """Raise a DriverError if the VM is on another host than the call's."""
        if self.host is not None and row.get("hostid") not in (None, host_id_of(self.host)):
            raise self.error(step, f"VM {row['id']} is on host {row.get('hostname', row['hostid'])}")

    def try_to(self, step: str, make: Callable[[], T]) -> T:
        """Call ``make`` and return its result, with API errors converted to driver errors.

        Raises:
            DriverError: ``make`` raised CallRefused, NotAnswered or JobFailed.
        """
        try:
            return make()
        except (CallRefused, NotAnswered, JobFailed) as error:
            raise failure(step, self.host_name, error) from error

    def request(self, step: str, command: str, **parameters: str) -> Row:
        """Make an API call that starts a job, wait for the job, and return its result.

        Raises:
            DriverError: the call or the job failed.
        """
        return self.try_to(step, lambda: self.calls.run(command, parameters, end=self.end))

    def look(self, step: str, *details: str) -> Row | None:
        """Return the current state of the VM, or None if the VM does not exist.

        Raises:
            DriverError: the state cannot be read.
        """
        return self.try_to(step, lambda: self.calls.look(self.vm_id, "min", *details, timeout_s=self.left))

    def at_rest(self, step: str, *details: str) -> Row | None:
        """Wait until no job changes the VM or is queued for it, and return the VM, or None if it does not exist.

        Raises:
            DriverError: a job is still running when the time of the call has run out, or the VM cannot be read.
        """
        row = self.look(step, *details)
        while row is not None and is_changing(row):
            if self.is_over:
                job = f" with job {row['jobid']} unfinished" if "jobid" in row else ""
                raise self.error(step, f"VM {row['id']} is still {row['state']}{job}", transient=True)
            time.sleep(self.calls.poll_s)
            row = self.look(step, *details)
        return row

    def running(self, step: str, *details: str) -> Row:
        """Return the VM after all its jobs have ended.

        Raises:
            DriverError: the VM does not run on the call's host.
        """
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
        """Migrate the running VM to the call's host, and wait for the end of the migration."""
        if self.host is None:
            raise self.error("migrate", "the call has no destination host")
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
        """Start an upstream job for the VM and wait for its end.

        If the job fails, but ``is_done`` is true for the VM afterwards, the job counts as successful.

        Raises:
            DriverError: the job failed.
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
        """Change CPU and memory of the VM to those of the guest and the VM's offering, if they differ."""
        if sizes_of(row) != (guest.cpu_number, guest.cpu_mhz, guest.memory_mib):
            self.request(
                step,
                "scaleVirtualMachine",
                id=row["id"],
                serviceofferingid=str(order.offering_uuid),
                **custom_sizes(guest, order),
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
        """Return the uuid of the root volume from the records or, for an imported VM, from CloudStack.

        Returns None if the VM does not exist.
        """
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
        """Expunge the VM in any state. Its data volumes are kept. Its id is never used again."""
        row = self.at_rest("delete")
        if row is not None:
            self.check_place("delete", row)
        if self.was_sent and (row is None or row["state"] == STOPPED):
            self._await_deployment()
        if row is None and not self.was_sent:
            return
        self._expunge()
        self.records.counterparts.begin_next_attempt(self.guest, 1 if self.noted is None else self.noted.attempt)
        self.noted = self.records.counterparts.read(self.guest)

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
        """Wait for the end of the job that deploys the VM, because the VM may appear until then."""
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
        """Return the row of a volume in CloudStack, or None if the volume does not exist.

        ``vm`` is the row of the VM, by which its root volume is found.
        """
        if vm is not None and self.noted is not None and volume_uuid == self.noted.root_uuid:
            rows = self.try_to(
                step, lambda: self.calls.volumes(virtualmachineid=vm["id"], type=ROOT, timeout_s=self.left)
            )
        else:
            rows = self.try_to(step, lambda: self.calls.volumes(id=self._id(volume_uuid), timeout_s=self.left))
        return next((row for row in rows if row.get("state") not in ("Destroy", "Expunged")), None)

    def _id(self, volume_uuid: UUID) -> str:
        noted = self.records.counterparts.read(volume_uuid)
        return id_of(volume_uuid, 1 if noted is None else noted.attempt)

    def resize(self, step: str, row: Row, size_bytes: int) -> None:
        """Resize a volume to ``size_bytes``, rounded up to whole GiB. Nothing is done if it has this size."""
        size = -(-size_bytes // GIB)
        if int(row["size"]) == size * GIB:
            return
        smaller = {"shrinkok": "true"} if int(row["size"]) > size * GIB else {}
        self.request(step, "resizeVolume", id=row["id"], size=str(size), **smaller)

    def delete_volume(self, volume_uuid: UUID) -> None:
        """Delete a data volume, which is detached from a stopped VM first.

        Its id is never used again.

        Raises:
            DriverError: the VM of the volume runs, or CloudStack failed.
        """
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
        noted = self.records.counterparts.read(volume_uuid)
        self.records.counterparts.begin_next_attempt(volume_uuid, 1 if noted is None else noted.attempt)

    def give_volumes(self, step: str, vm: Row, guest: GuestSpec, order: GuestOrder) -> None:
        """Attach the guest's data volumes to the VM and detach all others.

        Missing volumes are created, and volumes that are too small are enlarged.
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
        """Return the row of a data volume, which is created if it does not exist.

        Raises:
            DriverError: the volume existed before and is lost, or has no disk offering.
        """
        row = self.volume_row(step, volume.uuid, None)
        if row is not None:
            return row
        if volume.was_made:
            raise lost_volume(step, self.host_name, volume)
        offering = order.disk_offerings.get(volume.uuid)
        if offering is None:
            raise self.error(step, f"volume {volume.uuid} has no disk offering")
        self.records.counterparts.record(volume.uuid)
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
            **owner_of(order),
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
                **{f"{name}address": value for name, value in requested_addresses(nic).items()},
            )
        if missing:
            self.write_addresses(self.look(step, "nics"))

    def write_addresses(self, vm: Row | None) -> None:
        """Write the addresses that CloudStack assigned to the VM's NICs into the service's rows.

        ``vm`` is the row of the VM; nothing is written if it is None or has no NICs.
        """
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


def host_id_of(host: HostAddress) -> str:
    """Return the id of a host in CloudStack: the id in the host's url or, without such a url, the host's uuid."""
    parts = urlsplit(host.url or "")
    return (parts.hostname if parts.scheme == SCHEME else None) or str(host.uuid)


def is_changing(row: Row) -> bool:
    """Return whether a job changes or will change the VM of a row of listVirtualMachines.

    A VM whose deployment or start has not begun is listed as Stopped; only ``jobid`` shows that it will run.
    """
    return row["state"] in UNDER_WAY or "jobid" in row


def sizes_of(row: Row) -> tuple[int, int, int]:
    """Return the number of cores, MHz per core and MiB of memory of a VM's row."""
    return int(row.get("cpunumber", 0)), int(row.get("cpuspeed", 0)), int(row.get("memory", 0))


def requested_addresses(nic: NicSpec) -> dict[str, str]:
    """Return the MAC and IP addresses of a NIC that a caller requested, by ``mac`` and ``ip``.

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
    """Return whether a NIC in CloudStack has the network and the requested addresses of ``nic``."""
    requested = requested_addresses(nic)
    if "mac" in requested and there["macaddress"].lower() != requested["mac"].lower():
        return False
    is_in_network: bool = there["networkid"] == str(nic.network_uuid)
    return is_in_network and requested.get("ip") in (None, there.get("ipaddress"))


def custom_sizes(guest: GuestSpec, order: GuestOrder) -> dict[str, str]:
    """Return the parameters for the sizes that the offering leaves to the call.

    CloudStack rejects a call that contains other sizes.
    """
    sizes = {"cpuNumber": guest.cpu_number, "cpuSpeed": guest.cpu_mhz, "memory": guest.memory_mib}
    return {f"details[0].{name}": str(size) for name, size in sizes.items() if name in order.custom_sizes}


def owner_of(order: GuestOrder) -> dict[str, str]:
    """Return the parameters that name the owner of a VM or a volume: an account, or a project."""
    if order.project_uuid is not None:
        return {"projectid": str(order.project_uuid)}
    return {"account": order.owner, "domainid": str(order.domain_uuid)}
