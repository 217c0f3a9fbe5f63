"""The properties of VMs for drivers, and the compare-and-set changes of VM states, all for sets of VMs.

``num_nulls(removed) = 1`` means that a row is not removed; ``store.database.arrays.is_live`` explains why the
condition has this form.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.virtual_machines.dynamic_scaling import dynamic_scaling_rule

_VMS = text(
    f"SELECT {dynamic_scaling_rule('v', 'o', 't')} AS is_dynamically_scalable,"  # noqa: S608 - a constant
    " v.id, v.uuid, v.instance_name, v.name, v.state, v.account_id, v.cpu_number, v.cpu_mhz, v.memory_mib,"
    " v.user_data, v.password_encrypted, v.details, coalesce(o.details, '{}') AS offering_details,"
    " CASE WHEN v.key_pairs IS NOT NULL THEN ARRAY(SELECT k.public_key FROM ssh_key_pairs k"
    "   WHERE k.account_id = v.account_id AND k.removed IS NULL AND k.name = ANY(v.key_pairs) ORDER BY k.name)"
    " END AS public_keys, v.deployment_id, v.host_id, h.uuid AS host_uuid, h.name AS host_name,"
    " h.ip_address AS host_ip_address, h.url AS host_url, h.fenced IS NOT NULL AS host_is_off,"
    " coalesce(h.hypervisor, v.hypervisor) AS hypervisor,"
    " i.uuid AS iso_uuid FROM virtual_machines v LEFT JOIN hosts h ON h.id = v.host_id"
    " LEFT JOIN templates i ON i.id = coalesce(v.iso_id, v.template_id) AND i.kind = 'iso'"
    " LEFT JOIN service_offerings o ON o.id = v.service_offering_id LEFT JOIN templates t ON t.id = v.template_id"
    " WHERE v.id = ANY(CAST(:vms AS bigint[])) AND num_nulls(v.removed) = 1"
)

_VOLUMES = text(
    "SELECT v.vm_id, v.uuid, v.name, v.size_bytes, v.standalone, v.state = 'Ready' AS was_made,"
    " p.uuid AS pool_uuid, t.uuid AS template_uuid,"
    " CASE WHEN o.id IS NULL THEN coalesce(s.disk_parameters, '{}') ELSE o.details || o.disk_parameters END"
    "   AS details, coalesce(o.provisioning_type, s.provisioning_type, 'thin') AS provisioning_type"
    " FROM volumes v LEFT JOIN disk_offerings o ON o.id = v.disk_offering_id"
    " LEFT JOIN service_offerings s ON s.id = v.service_offering_id"
    " LEFT JOIN storage_pools p ON p.id = v.pool_id LEFT JOIN templates t ON t.id = v.template_id"
    " WHERE v.vm_id = ANY(CAST(:vms AS bigint[])) AND v.removed IS NULL ORDER BY v.vm_id, v.device_id, v.id"
)

_NICS = text(
    "SELECT n.vm_id, n.uuid, n.mac_address, host(n.ip_address) AS ip_address, w.uuid AS network_uuid,"
    " coalesce(r.vlan, w.vlan) AS vlan, n.netmask, n.gateway, n.is_default, n.has_requested_ip,"
    " n.has_requested_mac, w.private_mtu AS mtu,"
    " array_remove(ARRAY[coalesce(w.dns1, z.dns1), CASE WHEN w.dns1 IS NULL THEN z.dns2 ELSE w.dns2 END], NULL)"
    "   AS dns, y.labels ->> (lower(v.hypervisor) || 'networklabel') AS label"
    " FROM nics n JOIN networks w ON w.id = n.network_id JOIN zones z ON z.id = w.zone_id"
    " JOIN virtual_machines v ON v.id = n.vm_id LEFT JOIN ip_ranges r ON r.id = n.ip_range_id"
    " LEFT JOIN traffic_types y ON y.physical_network_id = w.physical_network_id AND y.traffic_type = 'Guest'"
    "   AND y.removed IS NULL"
    " WHERE n.vm_id = ANY(CAST(:vms AS bigint[])) AND num_nulls(n.removed) = 1 ORDER BY n.vm_id, n.device_id"
)


@dataclass(frozen=True, slots=True)
class GuestRows:
    """The row of a VM with its live volumes and NICs, in device order."""

    vm: Row[Any]
    volumes: Sequence[Row[Any]]
    nics: Sequence[Row[Any]]


def read_guests(connection: Connection, vm_ids: Sequence[int]) -> dict[int, GuestRows]:
    """Return the rows of VMs by internal id, in three statements. Expunged VMs are omitted."""
    wanted = {"vms": int_array(vm_ids)}
    volumes: dict[int, list[Row[Any]]] = {}
    for volume in connection.execute(_VOLUMES, wanted).all():
        volumes.setdefault(volume.vm_id, []).append(volume)
    nics: dict[int, list[Row[Any]]] = {}
    for nic in connection.execute(_NICS, wanted).all():
        nics.setdefault(nic.vm_id, []).append(nic)
    return {
        vm.id: GuestRows(vm, volumes.get(vm.id, ()), nics.get(vm.id, ()))
        for vm in connection.execute(_VMS, wanted).all()
    }


@dataclass(frozen=True, slots=True)
class SharedConfig:
    """The common properties of all VMs of a deployment.

    ``pinned`` means that a VM is not retried on another host.
    """

    uuid: UUID
    pinned: bool
    user_data: str | None
    user_data_details: Mapping[str, str]
    public_keys: tuple[str, ...]


_SHARED = text(
    "SELECT d.id, d.uuid, d.pinned, d.config ->> 'user_data' AS user_data,"
    " coalesce(d.config -> 'user_data_details', '{}') AS user_data_details, ARRAY(SELECT k.public_key"
    "   FROM ssh_key_pairs k"
    "   WHERE k.account_id = d.account_id AND k.removed IS NULL AND d.config -> 'keypairs' ? k.name"
    "   ORDER BY k.name) AS public_keys FROM deployments d WHERE d.id = ANY(CAST(:ids AS bigint[]))"
)


def read_shared_configs(connection: Connection, deployment_ids: Collection[int]) -> dict[int, SharedConfig]:
    """Return the properties that all VMs of a deployment share, by the internal id of the deployment."""
    rows = connection.execute(_SHARED, {"ids": int_array(deployment_ids)})
    return {
        row.id: SharedConfig(row.uuid, row.pinned, row.user_data, row.user_data_details, tuple(row.public_keys))
        for row in rows
    }


_MOVE = text(
    "UPDATE virtual_machines SET state = :state, updated = now()"
    " WHERE id = ANY(CAST(:vms AS bigint[])) AND state = ANY(:sources) AND num_nulls(removed) = 1 RETURNING id"
)


def move_states(
    connection: Connection, vm_ids: Sequence[int], sources: Collection[VmState], state: VmState
) -> set[int]:
    """Set the state of the VMs that are in one of the states ``sources``, and return the ids of the changed VMs.

    If ``state`` is one of GONE, the VMs also lose the reservation of their names in their networks.
    """
    rows = connection.execute(
        _MOVE,
        {"vms": int_array(sorted(vm_ids)), "sources": [source.value for source in sources], "state": state.value},
    )
    moved = set(rows.scalars())
    if state in GONE and moved:
        connection.execute(_FREE_NAMES, {"vms": int_array(sorted(moved))})
    return moved


_FREE_NAMES = text(
    "UPDATE nics SET vm_name = NULL WHERE vm_id = ANY(CAST(:vms AS bigint[])) AND vm_name IS NOT NULL"
)

_READY = text(
    "UPDATE volumes SET state = 'Ready', attached = now()"
    " WHERE vm_id = ANY(CAST(:vms AS bigint[])) AND state IN ('Allocated', 'Attaching') AND removed IS NULL"
)


def mark_volumes_ready(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Record that the volumes of these VMs now exist in their pools and are attached to the guests."""
    connection.execute(_READY, {"vms": int_array(sorted(vm_ids))})


_REMOVE = text(
    "UPDATE virtual_machines SET removed = now() WHERE id = ANY(CAST(:vms AS bigint[])) AND num_nulls(removed) = 1"
)


_REMOVE_SNAPSHOTS = text(
    "UPDATE vm_snapshots SET removed = now(), is_current = false"
    " WHERE vm_id = ANY(CAST(:vms AS bigint[])) AND removed IS NULL"
)


def mark_removed(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Mark VMs and their snapshots as removed. The rows can still be found by uuid."""
    vms = {"vms": int_array(sorted(vm_ids))}
    connection.execute(_REMOVE_SNAPSHOTS, vms)
    connection.execute(_REMOVE, vms)


_PASSWORDS = text(
    "SELECT id, password_encrypted FROM virtual_machines"
    " WHERE id = ANY(CAST(:vms AS bigint[])) AND password_encrypted IS NOT NULL"
)


def encrypted_passwords(connection: Connection, vm_ids: Collection[int]) -> dict[int, bytes]:
    """Return the encrypted passwords of the guests of these VMs by VM id. VMs without a password are omitted."""
    rows = connection.execute(_PASSWORDS, {"vms": int_array(sorted(vm_ids))})
    return {row.id: bytes(row.password_encrypted) for row in rows}


_PENDING = (
    "SELECT $columns, EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id"
    "   AND j.instance_type = 'VirtualMachine' AND j.status + 0 = 0) AS has_job"
    " FROM virtual_machines v WHERE v.id = ANY(CAST(:vms AS bigint[])) ORDER BY v.id"
)
_READ_PENDING = text(_PENDING.replace("$columns", "v.*"))
_LOCK_PENDING = text(_PENDING.replace("$columns", "v.*") + " FOR UPDATE OF v")
_LOCK_STATES = text(_PENDING.replace("$columns", "v.id, v.state, v.host_id") + " FOR UPDATE OF v")


def read_pending_vms(connection: Connection, vm_ids: Collection[int]) -> Sequence[Row[Any]]:
    """Return the rows of VMs ordered by id, with the columns of ``lock_vms``, without locking them."""
    return connection.execute(_READ_PENDING, {"vms": int_array(sorted(vm_ids))}).all()


def lock_vms(connection: Connection, vm_ids: Collection[int]) -> Sequence[Row[Any]]:
    """Lock the rows of VMs until the transaction ends, and return them ordered by id.

    The column ``has_job`` tells whether the VM has an unfinished job.
    """
    return connection.execute(_LOCK_PENDING, {"vms": int_array(sorted(vm_ids))}).all()


def lock_vm_states(connection: Connection, vm_ids: Collection[int]) -> Sequence[Row[Any]]:
    """Lock the rows of VMs as ``lock_vms`` does.

    Only the columns ``id``, ``state``, ``host_id`` and ``has_job`` are returned.
    """
    return connection.execute(_LOCK_STATES, {"vms": int_array(sorted(vm_ids))}).all()


def lock_vm(connection: Connection, vm_id: int) -> Row[Any]:
    """Lock and return the row of one VM as ``lock_vms`` does."""
    (row,) = lock_vms(connection, [vm_id])
    return row
