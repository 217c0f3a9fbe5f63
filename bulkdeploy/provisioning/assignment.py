"""The input of a leased job, which contains everything that the driver calls of a VM's job need."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.device_parameters import VARIANT, Device, parameters_of
from bulkdeploy.domain.virtual_machines.firmware import boot_mode_of
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.guests import GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.store.infrastructure.host_maintenance import read_host_names
from bulkdeploy.store.infrastructure.zones import read_zone_names
from bulkdeploy.store.jobs.jobs import LeasedJob
from bulkdeploy.store.virtual_machines.guests import GuestRows, SharedConfig, read_guests, read_shared_configs

LEASES_PER_JOB = 1 << 16
"""More leases of one job than there will be; see ``Assignment.fence``."""


class Work(Protocol):
    """A leased job together with the data that its steps need."""

    @property
    def job(self) -> LeasedJob:
        """The leased job."""

    @property
    def name(self) -> str:
        """The name of the instance of the job, such as a VM."""

    @property
    def label(self) -> str:
        """The type and name of the instance for error messages, such as ``VM v-1``."""

    @property
    def names(self) -> dict[str, str]:
        """The uuids that log lines about this job contain, by name."""


@dataclass(frozen=True, slots=True)
class PlaceWork:
    """The work of a job of a host or a zone: the leased job and the name of the host or zone."""

    job: LeasedJob
    name: str

    @property
    def label(self) -> str:
        """The type and name of the instance for error messages, such as ``host h-1``."""
        return f"{self.job.instance_type} {self.name}"

    @property
    def names(self) -> dict[str, str]:
        """The fields of this job's log lines: the job's uuid and the instance's name."""
        return {"job": str(self.job.uuid), self.job.instance_type.lower(): self.name}


@dataclass(frozen=True, slots=True)
class Assignment:
    """A leased job and its VM, as read when the lease was acquired or when the VM was last assigned to a host.

    ``host`` is None if the VM has no claim on a host. ``off_hosts`` are the uuids of those hosts of the VM that
    were declared off: no guest runs on such a host, and its driver must not be called. ``guest.volumes`` are the
    volumes that are assigned to a storage pool. ``volume_uuids`` are the volumes that were created with the VM and
    are deleted with it; the other volumes outlive the VM.
    """

    job: LeasedJob
    state: VmState
    name: str
    deployment_uuid: UUID
    hypervisor: str
    host_id: int | None
    host: HostAddress | None
    guest: GuestSpec
    volume_uuids: tuple[UUID, ...]
    pinned: bool
    password_encrypted: bytes | None = field(default=None, repr=False)
    off_hosts: frozenset[UUID] = frozenset()

    @property
    def fence(self) -> int:
        """The fence of this attempt, which drivers compare to reject calls of outdated workers.

        The number grows with every lease of a job, and from one job of a VM to the next. The jobs of a VM run one
        after the other in the order of their ids.
        """
        return self.job.id * LEASES_PER_JOB + self.job.fence

    @property
    def host_is_off(self) -> bool:
        """Return whether the VM's host was declared off."""
        return self.is_off(self.host)

    def is_off(self, host: HostAddress | None) -> bool:
        """Return whether a host of the VM was declared off. Returns False for None."""
        return host is not None and host.uuid in self.off_hosts

    @property
    def vm_id(self) -> int:
        """The internal id of the VM."""
        return self.job.instance_id

    @property
    def label(self) -> str:
        """The name of the VM with the word VM before it, for messages."""
        return f"VM {self.name}"

    @property
    def names(self) -> dict[str, str]:
        """The uuids of job, VM and deployment, for log events."""
        return {"job": str(self.job.uuid), "vm": str(self.guest.uuid), "deployment": str(self.deployment_uuid)}


class WorkReader:
    """A reader of the data that jobs need, for many jobs at a time.

    The data that VMs of one deployment share is cached for the last few deployments. A reader is not thread-safe:
    only the thread that commits batches uses it.
    """

    def __init__(self, remembered: int = 64) -> None:
        self._remembered = remembered
        self._shared: OrderedDict[int, SharedConfig] = OrderedDict()

    def read(self, connection: Connection, jobs: Sequence[LeasedJob]) -> dict[int, Work]:
        """Return the work of these jobs by job id. Jobs whose instance was deleted are omitted."""
        of_hosts = [job for job in jobs if job.instance_type == InstanceType.HOST]
        of_zones = [job for job in jobs if job.instance_type == InstanceType.ZONE]
        of_vms = [job for job in jobs if job.instance_type == InstanceType.VIRTUAL_MACHINE]
        works: dict[int, Work] = dict(self.read_assignments(connection, of_vms) if of_vms else {})
        for jobs_of_kind, read_names in ((of_hosts, read_host_names), (of_zones, read_zone_names)):
            if jobs_of_kind:
                names = read_names(connection, [job.instance_id for job in jobs_of_kind])
                found = (job for job in jobs_of_kind if job.instance_id in names)
                works |= {job.id: PlaceWork(job, names[job.instance_id]) for job in found}
        return works

    def read_assignments(self, connection: Connection, jobs: Sequence[LeasedJob]) -> dict[int, Assignment]:
        """Return the assignments of jobs of VMs by job id. Jobs whose VM was deleted are omitted."""
        guests = read_guests(connection, [job.instance_id for job in jobs])
        self._remember(connection, {rows.vm.deployment_id for rows in guests.values()})
        return {
            job.id: assignment(job, guests[job.instance_id], self._shared[guests[job.instance_id].vm.deployment_id])
            for job in jobs
            if job.instance_id in guests
        }

    def _remember(self, connection: Connection, deployment_ids: set[int]) -> None:
        missing = deployment_ids - self._shared.keys()
        if missing:
            self._shared.update(read_shared_configs(connection, missing))
        for deployment_id in deployment_ids:
            self._shared.move_to_end(deployment_id)
        while len(self._shared) > max(self._remembered, len(deployment_ids)):
            self._shared.popitem(last=False)


def read_assignment(connection: Connection, job: LeasedJob) -> Assignment:
    """Return the current assignment of one job, as its rows are in this transaction."""
    return WorkReader().read_assignments(connection, [job])[job.id]


def assignment(job: LeasedJob, rows: GuestRows, shared: SharedConfig) -> Assignment:
    """Return the assignment that these rows describe."""
    vm = rows.vm
    of_devices = {**vm.offering_details, **vm.details}
    placed = [row for row in rows.volumes if row.pool_uuid is not None]
    return Assignment(
        job=job,
        state=VmState(vm.state),
        name=vm.instance_name,
        deployment_uuid=shared.uuid,
        hypervisor=vm.hypervisor,
        host_id=vm.host_id,
        host=None
        if vm.host_uuid is None
        else HostAddress(vm.host_uuid, vm.host_name, vm.host_ip_address, vm.hypervisor, vm.host_url),
        guest=GuestSpec(
            uuid=vm.uuid,
            name=vm.instance_name,
            cpu_number=vm.cpu_number,
            cpu_mhz=vm.cpu_mhz,
            memory_mib=vm.memory_mib,
            volumes=tuple(_volume(row, of_devices) for row in placed),
            nics=tuple(_nic(row, of_devices) for row in rows.nics),
            user_data=(vm.user_data if vm.user_data is not None else shared.user_data) or None,
            user_data_details=shared.user_data_details if vm.user_data is None else {},
            host_name=vm.name,
            template_variant=vm.details.get(VARIANT),
            uefi=boot_mode_of(vm.details),
            is_dynamically_scalable=vm.is_dynamically_scalable,
            public_keys=shared.public_keys if vm.public_keys is None else tuple(vm.public_keys),
            iso_uuid=vm.iso_uuid,
        ),
        volume_uuids=tuple(row.uuid for row in placed if not row.standalone),
        pinned=shared.pinned,
        password_encrypted=vm.password_encrypted,
        off_hosts=frozenset({vm.host_uuid}) if vm.host_is_off else frozenset(),
    )


def _volume(row: Row[Any], of_devices: Mapping[str, str]) -> VolumeSpec:
    parameters = parameters_of(Device.DISK, {**of_devices, **(row.details or {})})
    return VolumeSpec(
        row.uuid,
        row.name,
        row.size_bytes,
        row.pool_uuid,
        row.template_uuid,
        was_made=row.was_made,
        parameters=parameters,
        is_preallocated=row.provisioning_type == "fat",
    )


def _nic(row: Row[Any], of_devices: Mapping[str, str]) -> NicSpec:
    return NicSpec(
        row.uuid,
        row.mac_address,
        row.ip_address,
        row.network_uuid,
        row.vlan,
        netmask=row.netmask,
        gateway=row.gateway,
        dns=tuple(row.dns),
        label=row.label,
        mtu=row.mtu,
        is_default=row.is_default,
        parameters=parameters_of(Device.NIC, of_devices),
        has_requested_ip=row.has_requested_ip,
        has_requested_mac=row.has_requested_mac,
    )
