"""Writing a deployment, by COPY, in the transaction that claims (one file: all rows of a call).

What is written here exists whole or not at all: VMs, nics, volumes, group memberships, jobs, the
outbox and the Scheduled events. Ids are reserved first, so that rows can refer to each other.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Connection, Row, insert

from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.deployment import DeploySpec, NamedVm
from bulkdeploy.domain.device_parameters import VARIANT
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.firmware import UEFI
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.placement.model import Ints, Plan
from bulkdeploy.request_id import current_request
from bulkdeploy.store.accounts.owned_entities import find_by_name, insert_entity
from bulkdeploy.store.database.copying import PerRow, copy_row_sets, reserve_numbers
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.ledger.addresses import Address, take_mac_addresses
from bulkdeploy.store.tables.groups import vm_affinity_groups, vm_security_groups
from bulkdeploy.store.tables.jobs import async_jobs, events, outbox
from bulkdeploy.store.tables.networks import nics
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines, volumes
from bulkdeploy.tracing import current_traceparent


@dataclass(frozen=True, slots=True)
class NewVms:
    """Identities of the VMs of a deployment, in creation order."""

    ids: Sequence[int]
    uuids: Sequence[str]
    names: Sequence[str]
    volume_uuids: Sequence[Sequence[str]]
    job_ids: Sequence[int]
    job_uuids: Sequence[str]

    @property
    def count(self) -> int:
        """How many VMs."""
        return len(self.ids)

    def of(self, at: Ints, disks: int) -> "NewVms":
        """Those at some positions, with ``disks`` new volumes each."""
        volume_uuids = [random_uuids(len(at)) for _ in range(disks)]
        if len(at) == self.count:
            return replace(self, volume_uuids=volume_uuids)
        positions = at.tolist()
        ids, uuids, job_ids, job_uuids = (
            [column[position] for position in positions]
            for column in (self.ids, self.uuids, self.job_ids, self.job_uuids)
        )
        return NewVms(ids, uuids, (), volume_uuids, job_ids, job_uuids)

    def named(self, parts: Sequence[tuple[Ints, Sequence[str]]]) -> "NewVms":
        """With names, which are given by positions."""
        if len(parts) == 1:
            return replace(self, names=parts[0][1])
        names = [""] * self.count
        for at, given in parts:
            for position, name in zip(at.tolist(), given, strict=True):
                names[position] = name
        return replace(self, names=names)


NO_VMS = NewVms((), (), (), (), (), ())


def random_uuids(count: int) -> list[str]:
    """Version 4 uuids as text; one system call for all of them."""
    noise = bytearray(os.urandom(16 * count))
    for at in range(0, 16 * count, 16):
        noise[at + 6] = (noise[at + 6] & 0x0F) | 0x40
        noise[at + 8] = (noise[at + 8] & 0x3F) | 0x80
    digits = noise.hex()
    return [
        f"{digits[at : at + 8]}-{digits[at + 8 : at + 12]}-{digits[at + 12 : at + 16]}"
        f"-{digits[at + 16 : at + 20]}-{digits[at + 20 : at + 32]}"
        for at in range(0, 32 * count, 32)
    ]


def reserve_identities(connection: Connection, calls: Sequence[tuple[int, NamedVm | None]]) -> list[NewVms]:
    """Ids and uuids for the VMs of calls with one job each, by how many each makes; names and volumes still empty.

    All are new, but for those that a call's only VM is to have.
    """
    count = sum(number for number, _ in calls)
    ids, job_ids = map(iter, reserve_numbers(connection, [(virtual_machines, count), (async_jobs, count)]))
    found = []
    for number, only in calls:
        chosen = NamedVm() if only is None else only
        found.append(
            NewVms(
                ids=list(islice(ids, number)),
                uuids=random_uuids(number) if chosen.uuid is None else [chosen.uuid],
                names=(),
                volume_uuids=(),
                job_ids=list(islice(job_ids, number)),
                job_uuids=random_uuids(number) if chosen.job_uuid is None else [chosen.job_uuid],
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose call it is, and the request and the trace that its jobs belong to."""

    caller: Caller
    request_id: str | None
    traceparent: str | None

    @classmethod
    def of_this_thread(cls, caller: Caller) -> "Origin":
        """Of the call that the thread works for."""
        return cls(caller, current_request(), current_traceparent())


@dataclass(frozen=True, slots=True)
class NewPart:
    """VMs of a call that are configured alike, as they are written.

    ``placed``: their claimed places, None where they are not to be started. ``addresses``: per network those of the
    VMs, None where it has none. ``record``: what the row of the deployment says besides. ``passwords_encrypted``:
    the password of each guest, None where guests get none.
    """

    origin: Origin
    spec: DeploySpec
    new: NewVms
    placed: Plan | None
    display_names: Sequence[str]
    instance_suffix: str
    addresses: Sequence[Sequence[Address] | None]
    record: Mapping[str, Any]
    passwords_encrypted: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call as it is written: its parts, the first of which has its row, and the VMs of all of them.

    ``kind``, ``cmd``, ``event_type``, ``description``: of the jobs and their events.
    """

    parts: Sequence[NewPart]
    new: NewVms
    queue: str
    kind: str
    cmd: str
    event_type: EventType
    description: str


def write_deployments(connection: Connection, calls: Sequence[NewCall]) -> list[Row[tuple[int, UUID, datetime]]]:
    """All rows of the calls but their claims; of each call's deployment its ``id``, ``uuid`` and ``created``.

    VMs are written in state Stopped.

    Raises:
        TransactionConflict: an instance group was made or deleted at this moment.
    """
    parts = [part for call in calls for part in call.parts]
    groups = [ensure_instance_group(connection, part.spec.owner, part.spec.request.group) for part in parts]
    written = _write_deployment_rows(connection, calls)
    deployment_ids = [row.id for rows in written for row in rows]
    copy_row_sets(connection, virtual_machines, map(_vms, parts, deployment_ids, groups))
    copy_row_sets(connection, volumes, (row for part in parts for row in _volumes(part)))
    _write_nics(connection, parts)
    _write_groups(connection, parts)
    deployed = [rows[0] for rows in written]
    _write_jobs(connection, list(zip(calls, (row.id for row in deployed), strict=True)))
    return deployed


def _write_deployment_rows(
    connection: Connection, calls: Sequence[NewCall]
) -> list[list[Row[tuple[int, UUID, datetime]]]]:
    """The row of each call, and of more of its parts, which name it."""
    whole = [_deployment(call.parts[0], None) for call in calls]
    first = _insert_deployments(connection, whole)
    more = [_deployment(part, row.id) for call, row in zip(calls, first, strict=True) for part in call.parts[1:]]
    others = iter(_insert_deployments(connection, more) if more else ())
    return [[row, *islice(others, len(call.parts) - 1)] for call, row in zip(calls, first, strict=True)]


def _insert_deployments(
    connection: Connection, values: Sequence[Mapping[str, Any]]
) -> Sequence[Row[tuple[int, UUID, datetime]]]:
    found = deployments.c.id, deployments.c.uuid, deployments.c.created
    return connection.execute(insert(deployments).returning(*found, sort_by_parameter_order=True), values).all()


def _deployment(part: NewPart, batch_id: int | None) -> dict[str, Any]:
    """A row of ``deployments``: of the call itself, or of more of its VMs (``batch_id``)."""
    request = part.spec.request
    token = request.request_token if batch_id is None else None
    return {
        "bulk": request.bulk,
        "account_id": part.spec.owner.account_id,
        "user_id": part.origin.caller.user_id,
        "zone_id": part.spec.zone.id,
        "batch_id": batch_id,
        "request_token": token,
        "request_fingerprint": request.fingerprint if token is not None else None,
        **part.record,
    }


def ensure_instance_group(connection: Connection, owner: Owner, name: str | None) -> int | None:
    """The id of the owner's instance group of this name, made when it is missing; None without a name.

    It can not be deleted until the transaction ends.

    Raises:
        TransactionConflict: it was made or deleted at this moment.
    """
    if name is None:
        return None
    found = find_by_name(connection, Entity.INSTANCE_GROUP, owner.account_id, name, keep=True)
    if found is None:
        found = insert_entity(connection, Entity.INSTANCE_GROUP, name=name, account_id=owner.account_id)
    if found is None:
        raise TransactionConflict
    return found.id


def _vms(part: NewPart, deployment_id: int, group_id: int | None) -> tuple[int, dict[str, object]]:
    """VM rows, at their claimed place; without one where they are not to be started."""
    spec, new, placed = part.spec, part.new, part.placed
    account = spec.owner.account_id
    return new.count, {
        "id": PerRow(new.ids),
        "uuid": PerRow(new.uuids),
        "name": PerRow(new.names),
        "display_name": PerRow(part.display_names, plain=False),
        "instance_name": PerRow([f"i-{account}-{vm_id}-{part.instance_suffix}" for vm_id in new.ids], plain=False),
        "account_id": account,
        "user_id": part.origin.caller.user_id,
        "zone_id": spec.zone.id,
        "pod_id": None if placed is None else PerRow(placed.pod_ids.tolist()),
        "cluster_id": None if placed is None else PerRow(placed.cluster_ids.tolist()),
        "host_id": None if placed is None else PerRow(placed.host_ids.tolist()),
        "hypervisor": spec.hypervisor,
        "service_offering_id": spec.offering.id,
        "template_id": spec.template.id,
        "disk_offering_id": spec.request.disk_offering_id,
        "cpu_number": spec.cpu_number,
        "cpu_mhz": spec.cpu_mhz,
        "memory_mib": spec.memory_mib,
        "state": VmState.STOPPED.value,
        "group_id": group_id,
        "deployment_id": deployment_id,
        "details": orjson.dumps(_details_of(spec)).decode(),
        "password_encrypted": None
        if part.passwords_encrypted is None
        else PerRow([f"\\x{password.hex()}" for password in part.passwords_encrypted], plain=False),
        **spec.request.flags,
    }


def _details_of(spec: DeploySpec) -> dict[str, str]:
    said = {VARIANT: spec.request.variant.name, UEFI: spec.uefi}
    return {**spec.request.details, **{name: value for name, value in said.items() if value is not None}}


def _volumes(part: NewPart) -> Iterator[tuple[int, dict[str, object]]]:
    """Volumes, in the pool that was claimed for each; without a place they have none yet."""
    spec, new, placed = part.spec, part.new, part.placed
    for position, disk in enumerate(spec.disks):
        yield (
            new.count,
            {
                "uuid": PerRow(new.volume_uuids[position]),
                "name": PerRow([f"{disk.volume_type}-{vm_id}" for vm_id in new.ids]),
                "account_id": spec.owner.account_id,
                "zone_id": spec.zone.id,
                "vm_id": PerRow(new.ids),
                "pool_id": None if placed is None else PerRow(placed.pool_ids[:, position].tolist()),
                "volume_type": disk.volume_type,
                "device_id": disk.device_id,
                "size_bytes": disk.size_bytes,
                "template_id": disk.template_id,
                "disk_offering_id": disk.disk_offering_id,
                "service_offering_id": spec.offering.id if disk.disk_offering_id is None else None,
                "state": "Allocated",
            },
        )


def _write_nics(connection: Connection, parts: Sequence[NewPart]) -> None:
    macs = iter(take_mac_addresses(connection, sum(part.new.count * len(part.spec.networks) for part in parts)))
    copy_row_sets(connection, nics, (row for part in parts for row in _nics(part, macs)))


def _nics(part: NewPart, macs: Iterator[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """One nic per VM and network; the first is the default. A generated name, with a uuid in it, is not held."""
    spec, new = part.spec, part.new
    is_given = spec.request.has_given_names
    for position, network in enumerate(spec.networks):
        taken, requested = part.addresses[position], spec.request.nic_in(position, network.id)
        mac = requested.mac_address
        yield (
            new.count,
            {
                "uuid": PerRow(random_uuids(new.count)),  # COPY writes rows one by one where a default is volatile
                "vm_id": PerRow(new.ids),
                "network_id": network.id,
                "ip_range_id": None if taken is None else PerRow([address.range_id for address in taken]),
                "ip_address": None if taken is None else PerRow([address.ip for address in taken]),
                "gateway": None if taken is None else PerRow([address.gateway for address in taken]),
                "netmask": None if taken is None else PerRow([address.netmask for address in taken]),
                "mac_address": PerRow(list(islice(macs, new.count)) if mac is None else [mac.lower()]),
                "device_id": position,
                "is_default": position == 0,
                "vm_name": PerRow([name.lower() for name in new.names]) if is_given else None,
                "has_requested_ip": requested.ip_address is not None,
                "has_requested_mac": mac is not None,
            },
        )


def _write_groups(connection: Connection, parts: Sequence[NewPart]) -> None:
    """Memberships in security and affinity groups."""
    security = [(part.new, group_id) for part in parts for group_id in part.spec.security_group_ids]
    affinity = [(part.new, group.id) for part in parts for group in part.spec.affinity_groups]
    for table, column, members in (
        (vm_security_groups, "security_group_id", security),
        (vm_affinity_groups, "affinity_group_id", affinity),
    ):
        copy_row_sets(
            connection, table, ((new.count, {"vm_id": PerRow(new.ids), column: group}) for new, group in members)
        )


def _write_jobs(connection: Connection, calls: Sequence[tuple[NewCall, int]]) -> None:
    """One job per VM, its outbox entry, and its Scheduled event: what is to be done, and the VM's name.

    The event's uuid is the job's: the job's later events find their parent without a look-up.
    """
    copy_row_sets(connection, async_jobs, (_jobs(call, deployment_id) for call, deployment_id in calls))
    copy_row_sets(connection, outbox, (_outbox(call) for call, _ in calls))
    copy_row_sets(connection, events, (_events(call) for call, _ in calls))


def _jobs(call: NewCall, deployment_id: int) -> tuple[int, dict[str, object]]:
    origin, new = call.parts[0].origin, call.new
    return new.count, {
        "id": PerRow(new.job_ids),
        "uuid": PerRow(new.job_uuids),
        "kind": call.kind,
        "cmd": call.cmd,
        "account_id": origin.caller.owner.account_id,
        "user_id": origin.caller.user_id,
        "instance_type": InstanceType.VIRTUAL_MACHINE.value,
        "instance_id": PerRow(new.ids),
        "instance_uuid": PerRow(new.uuids),
        "deployment_id": deployment_id,
        "params": orjson.dumps({"startvm": call.parts[0].spec.request.start_vm}).decode(),
        "request_id": origin.request_id,
        "traceparent": origin.traceparent,
    }


def _outbox(call: NewCall) -> tuple[int, dict[str, object]]:
    return call.new.count, {"job_id": PerRow(call.new.job_ids), "queue": call.queue, "kind": call.kind}


def _events(call: NewCall) -> tuple[int, dict[str, object]]:
    new, part = call.new, call.parts[0]
    return new.count, {
        "uuid": PerRow(new.job_uuids),
        "event_type": call.event_type.value,
        "state": "Scheduled",
        "description": PerRow([call.description + name for name in new.names], plain=False),
        "account_id": part.spec.owner.account_id,
        "user_id": part.origin.caller.user_id,
        "resource_type": InstanceType.VIRTUAL_MACHINE.value,
        "resource_id": PerRow(new.ids),
        "resource_uuid": PerRow(new.uuids),
    }
