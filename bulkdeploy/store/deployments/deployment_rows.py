"""Writing a deployment, by COPY, in the transaction that claims (one file: all rows of a call).

What is written here exists whole or not at all: VMs, nics, volumes, group memberships, jobs, the
outbox and the Scheduled events. Ids are reserved first, so that rows can refer to each other.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
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
from bulkdeploy.store.database.copying import PerRow, copy_rows, reserve_ids
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


def reserve_identities(connection: Connection, count: int, only: NamedVm | None = None) -> NewVms:
    """Ids and uuids for ``count`` VMs with one job each; names and volumes still empty.

    All are new, but for those that a call's ``only`` VM is to have.
    """
    chosen = NamedVm() if only is None else only
    return NewVms(
        ids=reserve_ids(connection, virtual_machines, count),
        uuids=random_uuids(count) if chosen.uuid is None else [chosen.uuid],
        names=(),
        volume_uuids=(),
        job_ids=reserve_ids(connection, async_jobs, count),
        job_uuids=random_uuids(count) if chosen.job_uuid is None else [chosen.job_uuid],
    )


def write_deployment_row(
    connection: Connection,
    *,
    spec: DeploySpec,
    caller: Caller,
    count: int,
    requested: int,
    batch_id: int | None,
    pinned: bool,
    config: Mapping[str, Any],
    plan: Mapping[str, Any],
) -> Row[tuple[int, UUID, datetime]]:
    """The row of the call itself, or of more of its VMs (``batch_id``): its ``id``, ``uuid`` and ``created``."""
    token = spec.request.request_token if batch_id is None else None
    return connection.execute(
        insert(deployments)
        .values(
            bulk=spec.request.bulk,
            account_id=spec.owner.account_id,
            user_id=caller.user_id,
            zone_id=spec.zone.id,
            vm_count=count,
            asked_count=requested,
            batch_id=batch_id,
            config=dict(config),
            pinned=pinned,
            plan=dict(plan),
            request_token=token,
            request_fingerprint=spec.request.fingerprint if token is not None else None,
        )
        .returning(deployments.c.id, deployments.c.uuid, deployments.c.created)
    ).one()


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


def write_vms(
    connection: Connection,
    *,
    spec: DeploySpec,
    caller: Caller,
    deployment_id: int,
    new: NewVms,
    placed: Plan | None,
    display_names: Sequence[str],
    instance_suffix: str,
    group_id: int | None,
) -> None:
    """VM rows in state Stopped, at their claimed place; without one where they are not to be started."""
    place: dict[str, object] = {"pod_id": None, "cluster_id": None, "host_id": None}
    if placed is not None:
        place = {
            "pod_id": PerRow(placed.pod_ids.tolist()),
            "cluster_id": PerRow(placed.cluster_ids.tolist()),
            "host_id": PerRow(placed.host_ids.tolist()),
        }
    account = spec.owner.account_id
    copy_rows(
        connection,
        virtual_machines,
        new.count,
        {
            "id": PerRow(new.ids),
            "uuid": PerRow(new.uuids),
            "name": PerRow(new.names),
            "display_name": PerRow(display_names, plain=False),
            "instance_name": PerRow([f"i-{account}-{vm_id}-{instance_suffix}" for vm_id in new.ids], plain=False),
            "account_id": account,
            "user_id": caller.user_id,
            "zone_id": spec.zone.id,
            **place,
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
            **spec.request.flags,
        },
    )


def _details_of(spec: DeploySpec) -> dict[str, str]:
    said = {VARIANT: spec.request.variant.name, UEFI: spec.uefi}
    return {**spec.request.details, **{name: value for name, value in said.items() if value is not None}}


def write_volumes(connection: Connection, *, spec: DeploySpec, new: NewVms, placed: Plan | None) -> None:
    """Volumes of the new VMs, in the pool that was claimed for each; without a place they have none yet."""
    for position, disk in enumerate(spec.disks):
        copy_rows(
            connection,
            volumes,
            new.count,
            {
                "uuid": PerRow(new.volume_uuids[position]),
                "name": PerRow([f"{disk.volume_type}-{vm_id}" for vm_id in new.ids]),
                "account_id": spec.owner.account_id,
                "zone_id": spec.zone.id,
                "vm_id": PerRow(new.ids),
                "pool_id": None if placed is None else PerRow(placed.pool_ids[:, position].tolist()),
                "volume_type": disk.volume_type,
                "device_id": position,
                "size_bytes": disk.size_bytes,
                "template_id": disk.template_id,
                "disk_offering_id": disk.disk_offering_id,
                "service_offering_id": spec.offering.id if disk.disk_offering_id is None else None,
                "state": "Allocated",
            },
        )


def write_nics(
    connection: Connection, *, spec: DeploySpec, new: NewVms, addresses: Sequence[Sequence[Address] | None]
) -> None:
    """One nic per VM and network; the first is the default. A generated name, with a uuid in it, is not held."""
    is_given = spec.request.has_given_names
    for position, network in enumerate(spec.networks):
        taken, mac = addresses[position], spec.request.nic_in(position, network.id).mac_address
        addressed: dict[str, object] = {}
        if taken is not None:
            addressed = {
                "ip_range_id": PerRow([address.range_id for address in taken]),
                "ip_address": PerRow([address.ip for address in taken]),
                "gateway": PerRow([address.gateway for address in taken]),
                "netmask": PerRow([address.netmask for address in taken]),
            }
        copy_rows(
            connection,
            nics,
            new.count,
            {
                "uuid": PerRow(random_uuids(new.count)),  # COPY writes rows one by one where a default is volatile
                "vm_id": PerRow(new.ids),
                "network_id": network.id,
                **addressed,
                "mac_address": PerRow(take_mac_addresses(connection, new.count) if mac is None else [mac.lower()]),
                "device_id": position,
                "is_default": position == 0,
                "vm_name": PerRow([name.lower() for name in new.names]) if is_given else None,
            },
        )


def write_groups(connection: Connection, *, spec: DeploySpec, new: NewVms) -> None:
    """Memberships in security and affinity groups."""
    for group_id in spec.security_group_ids:
        members = {"vm_id": PerRow(new.ids), "security_group_id": group_id}
        copy_rows(connection, vm_security_groups, new.count, members)
    for group in spec.affinity_groups:
        members = {"vm_id": PerRow(new.ids), "affinity_group_id": group.id}
        copy_rows(connection, vm_affinity_groups, new.count, members)


def write_jobs(
    connection: Connection,
    *,
    spec: DeploySpec,
    caller: Caller,
    deployment_id: int,
    new: NewVms,
    queue: str,
    kind: str,
    cmd: str,
    event_type: EventType,
    description: str,
) -> None:
    """One job of this kind per VM, its outbox entry, and its Scheduled event: ``description`` and the VM's name.

    The event's uuid is the job's: the job's later events find their parent without a look-up.
    """
    shared = {"account_id": caller.owner.account_id, "user_id": caller.user_id}
    copy_rows(
        connection,
        async_jobs,
        new.count,
        {
            "id": PerRow(new.job_ids),
            "uuid": PerRow(new.job_uuids),
            "kind": kind,
            "cmd": cmd,
            **shared,
            "instance_type": InstanceType.VIRTUAL_MACHINE.value,
            "instance_id": PerRow(new.ids),
            "instance_uuid": PerRow(new.uuids),
            "deployment_id": deployment_id,
            "params": orjson.dumps({"startvm": spec.request.start_vm}).decode(),
            "request_id": current_request(),
            "traceparent": current_traceparent(),
        },
    )
    copy_rows(connection, outbox, new.count, {"job_id": PerRow(new.job_ids), "queue": queue, "kind": kind})
    copy_rows(
        connection,
        events,
        new.count,
        {
            "uuid": PerRow(new.job_uuids),
            "event_type": event_type.value,
            "state": "Scheduled",
            "description": PerRow([description + name for name in new.names], plain=False),
            "account_id": spec.owner.account_id,
            "user_id": caller.user_id,
            "resource_type": InstanceType.VIRTUAL_MACHINE.value,
            "resource_id": PerRow(new.ids),
            "resource_uuid": PerRow(new.uuids),
        },
    )
