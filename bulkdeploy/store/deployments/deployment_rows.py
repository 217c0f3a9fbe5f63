"""The rows of deploy calls, written by COPY in the claiming transaction (one file: all rows of a call).

All rows are written in one transaction: VMs, NICs, volumes, group memberships, jobs, the outbox and the Scheduled
events. Ids are reserved first (``new_vms``), so that rows can refer to each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Connection, Row, insert

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.deployments.deployment import DeployCall, DeploySpec
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.device_parameters import VARIANT
from bulkdeploy.domain.virtual_machines.firmware import UEFI
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.store.accounts.owned_entities import find_by_name, insert_entity
from bulkdeploy.store.database.copying import PerRow, copy_row_sets
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments.new_vms import CallPart, NewVms, random_uuids
from bulkdeploy.store.ledger.addresses import take_mac_addresses
from bulkdeploy.store.rows.due_rows import read_clock
from bulkdeploy.store.tables.groups import vm_affinity_groups, vm_security_groups
from bulkdeploy.store.tables.jobs import async_jobs, events, outbox
from bulkdeploy.store.tables.networks import nics
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines, volumes


@dataclass(frozen=True, slots=True)
class JobsOfCalls:
    """The common properties of the jobs of deploy calls, and of the events of these jobs."""

    kind: str
    cmd: str
    event_type: EventType
    description: str


def write_deployments(
    connection: Connection, calls: Sequence[NewVms], queues: Sequence[str], jobs: JobsOfCalls
) -> list[Row[tuple[int, UUID, datetime]]]:
    """Write all rows of the calls except their claims.

    Returns ``id``, ``uuid`` and ``created`` of each deployment. The VMs are in state Stopped. ``queues`` has the
    queue of the jobs of each call.

    Raises:
        TransactionConflict: a concurrent transaction created or deleted an instance group of the same name.
    """
    parts = [part for call in calls for part in call.parts]
    callers = [call.call for call in calls for _ in call.parts]
    groups = [ensure_instance_group(connection, part.spec.owner, part.spec.request.group) for part in parts]
    written = _write_deployment_rows(connection, calls)
    deployment_ids = [row.id for rows in written for row in rows]
    leases = _leases(connection, parts)
    copy_row_sets(connection, virtual_machines, map(_vms, parts, callers, deployment_ids, groups, leases))
    copy_row_sets(connection, volumes, (row for part in parts for row in _volumes(part)))
    _write_nics(connection, parts)
    _write_groups(connection, parts)
    deployed = [rows[0] for rows in written]
    _write_jobs(connection, calls, [row.id for row in deployed], queues, jobs)
    return deployed


def _write_deployment_rows(
    connection: Connection, calls: Sequence[NewVms]
) -> list[list[Row[tuple[int, UUID, datetime]]]]:
    """Insert one deployment row per part of each call.

    The first row represents the call; the others refer to it.
    """
    first = _insert_deployments(connection, [_deployment(call.call, call.parts[0], None) for call in calls])
    more = [
        _deployment(call.call, part, row.id)
        for call, row in zip(calls, first, strict=True)
        for part in call.parts[1:]
    ]
    others = iter(_insert_deployments(connection, more) if more else ())
    return [[row, *islice(others, len(call.parts) - 1)] for call, row in zip(calls, first, strict=True)]


def _insert_deployments(
    connection: Connection, values: Sequence[Mapping[str, Any]]
) -> Sequence[Row[tuple[int, UUID, datetime]]]:
    found = deployments.c.id, deployments.c.uuid, deployments.c.created
    return connection.execute(insert(deployments).returning(*found, sort_by_parameter_order=True), values).all()


def _deployment(call: DeployCall, part: CallPart, batch_id: int | None) -> dict[str, Any]:
    """Return the row of ``deployments`` for one part of a call.

    ``batch_id`` is None for the first part, and the id of the first part's row for each other part.
    """
    request = part.spec.request
    token = request.request_token if batch_id is None else None
    return {
        "bulk": request.bulk,
        "account_id": part.spec.owner.account_id,
        "user_id": call.caller.user_id,
        "zone_id": part.spec.zone.id,
        "batch_id": batch_id,
        "grown_from": call.grown_from,
        "request_token": token,
        "request_fingerprint": request.fingerprint if token is not None else None,
        **part.record,
    }


def ensure_instance_group(connection: Connection, owner: Owner, name: str | None) -> int | None:
    """Return the id of the owner's instance group with this name, which is created if it does not exist.

    Returns None if ``name`` is None. The group cannot be deleted until the transaction ends.

    Raises:
        TransactionConflict: a concurrent transaction created or deleted the group.
    """
    if name is None:
        return None
    found = find_by_name(connection, Entity.INSTANCE_GROUP, owner.account_id, name, for_share=True)
    if found is None:
        found = insert_entity(connection, Entity.INSTANCE_GROUP, name=name, account_id=owner.account_id)
    if found is None:
        raise TransactionConflict
    return found.id


def _vms(
    part: CallPart, call: DeployCall, deployment_id: int, group_id: int | None, lease: Mapping[str, object]
) -> tuple[int, dict[str, object]]:
    """Return the number of the alike VMs ``part``, and the values of each column of their rows.

    A value is equal for all rows, or a ``PerRow`` with one value per VM. The columns of the host are NULL if the
    VMs must not be started.
    """
    spec, placed = part.spec, part.plan
    return part.count, {
        "id": PerRow(part.ids),
        "uuid": PerRow(part.uuids),
        "name": PerRow(part.names),
        "display_name": PerRow(part.display_names, plain=False),
        "instance_name": PerRow(part.instance_names, plain=False),
        "account_id": spec.owner.account_id,
        "user_id": call.caller.user_id,
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
        **lease,
    }


def _leases(connection: Connection, parts: Sequence[CallPart]) -> list[Mapping[str, object]]:
    """Return the lease columns of each part's VMs. A lease begins now. Parts without a lease have no columns."""
    if all(part.spec.lease is None for part in parts):
        return [{} for _ in parts]
    now = read_clock(connection)
    return [
        {}
        if part.spec.lease is None
        else {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in part.spec.lease.columns(now).items()
        }
        for part in parts
    ]


def _details_of(spec: DeploySpec) -> dict[str, str]:
    said = {VARIANT: spec.request.variant.name, UEFI: spec.uefi}
    return {**spec.request.details, **{name: value for name, value in said.items() if value is not None}}


def _volumes(part: CallPart) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the number and the columns of the volumes for each disk of a part's VMs, with their claimed pools.

    The pool is NULL if the VMs must not be started.
    """
    spec, placed = part.spec, part.plan
    for position, disk in enumerate(spec.disks):
        yield (
            part.count,
            {
                "uuid": PerRow(part.volume_uuids[position]),
                "name": PerRow([f"{disk.volume_type}-{vm_id}" for vm_id in part.ids]),
                "account_id": spec.owner.account_id,
                "zone_id": spec.zone.id,
                "vm_id": PerRow(part.ids),
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


def _write_nics(connection: Connection, parts: Sequence[CallPart]) -> None:
    macs = iter(take_mac_addresses(connection, sum(part.count * len(part.spec.networks) for part in parts)))
    copy_row_sets(connection, nics, (row for part in parts for row in _nics(part, macs)))


def _nics(part: CallPart, macs: Iterator[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the columns of one NIC per VM and network, the default NIC first.

    Generated names contain uuids, so they cannot collide and need no entry that reserves them.
    """
    spec = part.spec
    is_given = spec.request.has_given_names
    for position, network in enumerate(spec.networks):
        taken, requested = part.addresses[position], spec.request.nic_in(position, network.id)
        mac = requested.mac_address
        yield (
            part.count,
            {
                "uuid": PerRow(random_uuids(part.count)),  # COPY writes rows one by one if a default is volatile
                "vm_id": PerRow(part.ids),
                "network_id": network.id,
                "ip_range_id": None if taken is None else PerRow([address.range_id for address in taken]),
                "ip_address": None if taken is None else PerRow([address.ip for address in taken]),
                "gateway": None if taken is None else PerRow([address.gateway for address in taken]),
                "netmask": None if taken is None else PerRow([address.netmask for address in taken]),
                "mac_address": PerRow(list(islice(macs, part.count)) if mac is None else [mac.lower()]),
                "device_id": position,
                "is_default": position == 0,
                "vm_name": PerRow([name.lower() for name in part.names]) if is_given else None,
                "has_requested_ip": requested.ip_address is not None,
                "has_requested_mac": mac is not None,
            },
        )


def _write_groups(connection: Connection, parts: Sequence[CallPart]) -> None:
    """Write the memberships in security and affinity groups."""
    security = [(part.ids, group_id) for part in parts for group_id in part.spec.security_group_ids]
    affinity = [(part.ids, group.id) for part in parts for group in part.spec.affinity_groups]
    for table, column, members in (
        (vm_security_groups, "security_group_id", security),
        (vm_affinity_groups, "affinity_group_id", affinity),
    ):
        copy_row_sets(
            connection, table, ((len(ids), {"vm_id": PerRow(ids), column: group}) for ids, group in members)
        )


def _write_jobs(
    connection: Connection,
    calls: Sequence[NewVms],
    deployment_ids: Sequence[int],
    queues: Sequence[str],
    jobs: JobsOfCalls,
) -> None:
    """Insert one job per VM, with its outbox entry and its Scheduled event.

    The event has the uuid of the job, so that the job's later events can refer to it without a query.
    """
    copy_row_sets(connection, async_jobs, (_jobs(*each, jobs) for each in zip(calls, deployment_ids, strict=True)))
    copy_row_sets(connection, outbox, (_outbox(*each, jobs) for each in zip(calls, queues, strict=True)))
    copy_row_sets(connection, events, (_events(call, jobs) for call in calls))


def _jobs(new: NewVms, deployment_id: int, jobs: JobsOfCalls) -> tuple[int, dict[str, object]]:
    call = new.call
    return new.count, {
        "id": PerRow(new.job_ids),
        "uuid": PerRow(new.job_uuids),
        "kind": jobs.kind,
        "cmd": jobs.cmd,
        "account_id": call.caller.owner.account_id,
        "user_id": call.caller.user_id,
        "instance_type": InstanceType.VIRTUAL_MACHINE.value,
        "instance_id": PerRow(new.ids),
        "instance_uuid": PerRow(new.uuids),
        "deployment_id": deployment_id,
        "params": orjson.dumps({"startvm": call.shared.start_vm}).decode(),
        "request_id": call.request_id,
        "traceparent": call.traceparent,
    }


def _outbox(new: NewVms, queue: str, jobs: JobsOfCalls) -> tuple[int, dict[str, object]]:
    return new.count, {"job_id": PerRow(new.job_ids), "queue": queue, "kind": jobs.kind}


def _events(new: NewVms, jobs: JobsOfCalls) -> tuple[int, dict[str, object]]:
    descriptions = [""] * new.count
    for part, positions in zip(new.parts, new.positions(), strict=True):
        for at, name in zip(positions, part.names, strict=True):
            descriptions[at] = jobs.description + name
    return new.count, {
        "uuid": PerRow(new.job_uuids),
        "event_type": jobs.event_type.value,
        "state": "Scheduled",
        "description": PerRow(descriptions, plain=False),
        "account_id": new.parts[0].spec.owner.account_id,
        "user_id": new.call.caller.user_id,
        "resource_type": InstanceType.VIRTUAL_MACHINE.value,
        "resource_id": PerRow(new.ids),
        "resource_uuid": PerRow(new.uuids),
    }
