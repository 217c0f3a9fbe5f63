"""Rows of VMs, volumes and NICs of another cloud, read, written by COPY, and updated in bulk."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Table, insert, text, update

from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.store.database.copying import columns_from, copy_rows, reserve_ids
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.groups import vm_affinity_groups, vm_security_groups
from bulkdeploy.store.tables.networks import nics
from bulkdeploy.store.tables.offerings import service_offerings, templates
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines, volumes

LEARNT = "learnt"
"""In a deployment's configuration: its VMs came with another cloud, and with no call of ours."""

TABLES: Mapping[Entity, Table] = {
    Entity.VIRTUAL_MACHINE: virtual_machines,
    Entity.VOLUME: volumes,
    Entity.NIC: nics,
}

_IDS = {
    "zones": "SELECT uuid, id FROM zones WHERE removed IS NULL",
    "networks": "SELECT uuid, id FROM networks WHERE removed IS NULL",
    "pools": "SELECT uuid, id FROM storage_pools WHERE removed IS NULL",
    "offerings": "SELECT uuid, id FROM service_offerings",
    "templates": "SELECT uuid, id FROM templates",
    "disk_offerings": "SELECT uuid, id FROM disk_offerings",
    "security_groups": "SELECT uuid, id FROM security_groups WHERE removed IS NULL",
    "affinity_groups": "SELECT uuid, id FROM affinity_groups WHERE removed IS NULL",
    "projects": "SELECT uuid, account_id FROM projects WHERE removed IS NULL",
}


def ids_by_uuid(connection: Connection) -> dict[str, dict[str, int]]:
    """Return the internal ids of all objects to which VMs can refer, by kind and by uuid as text.

    For projects, the ids are those of their accounts.
    """
    return {
        kind: {str(uuid): number for uuid, number in connection.execute(text(query))}
        for kind, query in _IDS.items()
    }


def accounts_by_name(connection: Connection) -> dict[tuple[str, str], int]:
    """Return the internal ids of accounts, by the uuid of the domain and the lower-case name of the account."""
    query = "SELECT d.uuid, lower(a.name), a.id FROM accounts a JOIN domains d ON d.id = a.domain_id"
    return {
        (str(domain), name): number
        for domain, name, number in connection.execute(text(f"{query} WHERE a.removed IS NULL"))
    }


def host_places(connection: Connection, uuids: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """Return the internal ids of host, cluster and pod of live hosts, by the host's uuid.

    Unknown hosts are omitted.
    """
    query = text("SELECT uuid, id, cluster_id, pod_id FROM hosts WHERE removed IS NULL AND uuid = ANY(:uuids)")
    rows = connection.execute(query, {"uuids": list(map(UUID, uuids))})
    return {str(uuid): (host, cluster, pod) for uuid, host, cluster, pod in rows}


def places_of(connection: Connection, vms: Iterable[UUID]) -> dict[UUID, tuple[VmState, UUID | None]]:
    """Return the state and the host's uuid of these VMs by uuid.

    Only Running, Stopped and Destroyed VMs are returned.

    The host is None unless the VM is Running.
    """
    query = text(
        "SELECT v.uuid, v.state, h.uuid FROM virtual_machines v LEFT JOIN hosts h ON h.id = v.host_id"
        " WHERE v.removed IS NULL AND v.uuid = ANY(:vms) AND v.state IN ('Running', 'Stopped', 'Destroyed')"
    )
    return {
        vm: (VmState(state), host if state == VmState.RUNNING else None)
        for vm, state, host in connection.execute(query, {"vms": list(vms)})
    }


def ranges_of_networks(connection: Connection) -> list[tuple[int, int, str, str]]:
    """Return network id, range id, first address and last address of every live guest range."""
    query = text(
        "SELECT network_id, id, host(start_ip), host(end_ip) FROM ip_ranges"
        " WHERE network_id IS NOT NULL AND removed IS NULL ORDER BY id"
    )
    return [tuple(row) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class Part:
    """A selection of imported VMs, volumes and VM names in networks; names are in lower case."""

    vms: Collection[UUID]
    volumes: Collection[UUID]
    names: Collection[str]


_OF_PART: Mapping[Entity, str] = {
    Entity.VIRTUAL_MACHINE: "uuid = ANY(:vms)",
    Entity.VOLUME: "vm_id IN (SELECT id FROM virtual_machines WHERE uuid = ANY(:vms)) OR uuid = ANY(:volumes)",
    Entity.NIC: "vm_id IN (SELECT id FROM virtual_machines WHERE uuid = ANY(:vms)) OR vm_name = ANY(:names)",
}


def present(connection: Connection, entity: Entity, part: Part | None = None) -> dict[UUID, dict[str, Any]]:
    """Return all live rows of a kind, or only the rows of ``part``, by uuid.

    For a part, NICs that have reserved one of its names are included. Some columns, such as details and user data,
    are omitted.
    """
    table = TABLES[entity]
    left_out = ("created", "updated", "details", "user_data", "key_pairs", "password_encrypted")
    columns = [column for column in table.c if column.name not in left_out]
    if entity is Entity.NIC:
        columns = [column for column in columns if column.name != "ip_address"]
        columns.append(text("host(ip_address) AS ip_address"))  # type: ignore[arg-type]
    query = table.select().with_only_columns(*columns).where(table.c.removed.is_(None))
    if part is not None:
        named = {"vms": list(part.vms), "volumes": list(part.volumes), "names": list(part.names)}
        condition = _OF_PART[entity]
        query = query.where(
            text(f"({condition})").bindparams(
                **{name: value for name, value in named.items() if f":{name}" in condition}
            )
        )
    return {row["uuid"]: dict(row) for row in connection.execute(query).mappings()}


def volumes_of(connection: Connection, uuids: Collection[UUID]) -> dict[str, frozenset[str]]:
    """Return the uuids of the volumes of live VMs, as texts, by the uuid of the VM.

    A VM is included if its uuid, or the uuid of one of its volumes, is in ``uuids``.
    """
    query = text(
        "SELECT v.uuid, array_agg(d.uuid) FROM virtual_machines v JOIN volumes d ON d.vm_id = v.id"
        " WHERE v.removed IS NULL AND d.removed IS NULL AND v.id IN ("
        "SELECT id FROM virtual_machines WHERE uuid = ANY(:uuids)"
        " UNION SELECT vm_id FROM volumes WHERE uuid = ANY(:uuids)) GROUP BY v.uuid"
    )
    rows = connection.execute(query, {"uuids": list(uuids)})
    return {str(vm): frozenset(map(str, theirs)) for vm, theirs in rows}


def brought_by_imports(connection: Connection, vm_ids: Iterable[int]) -> set[int]:
    """Return the ids out of ``vm_ids`` of VMs that were imported from another cloud.

    This service deployed the others.
    """
    query = (
        "SELECT v.id FROM virtual_machines v JOIN deployments d ON d.id = v.deployment_id"
        " WHERE d.config ->> :learnt = 'true' AND v.id = ANY(:vms)"
    )
    return set(connection.execute(text(query), {"learnt": LEARNT, "vms": list(vm_ids)}).scalars())


def held_by_jobs(connection: Connection, since: datetime) -> set[int]:
    """Return the ids of VMs that have an unfinished job, or a job that ended at or after ``since``."""
    query = (
        "SELECT instance_id FROM async_jobs WHERE instance_type = 'VirtualMachine'"
        " AND (status = 0 OR (status <> 0 AND completed >= :since))"
    )
    return set(connection.execute(text(query), {"since": since}).scalars())


def insert_deployment(
    connection: Connection, user_id: int, account_id: int, zone_id: int, vms: int, *, learnt: bool = True
) -> int:
    """Insert a deployment row for VMs that no call of this service deployed, and return its id.

    ``learnt`` means that the VMs belong to another cloud, whose data takes precedence.
    """
    values = {
        "bulk": False,
        "account_id": account_id,
        "user_id": user_id,
        "zone_id": zone_id,
        "vm_count": vms,
        "asked_count": vms,
        "config": {"account_id": account_id, **({LEARNT: True} if learnt else {})},
        "pinned": False,
        "plan": {"seed": 0, "capacity": 0, "excluded": {}, "clusters": [], "before": [], "room": [], "added": []},
    }
    return int(connection.execute(insert(deployments).values(**values).returning(deployments.c.id)).scalar_one())


def insert_many(connection: Connection, entity: Entity, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert rows that all set the same columns, and return their new internal ids in the same order."""
    if not rows:
        return []
    table = TABLES[entity]
    ids = reserve_ids(connection, table, len(rows))
    complete = [{**row, "id": number} for row, number in zip(rows, ids, strict=True)]
    copy_rows(connection, table, len(complete), columns_from(complete))
    return ids


def write_memberships(
    connection: Connection, of_security: Collection[tuple[int, int]], of_affinity: Collection[tuple[int, int]]
) -> None:
    """Insert memberships of VMs in security groups and in affinity groups, given as pairs of VM id and group id."""
    for table, column, pairs in (
        (vm_security_groups, "security_group_id", of_security),
        (vm_affinity_groups, "affinity_group_id", of_affinity),
    ):
        rows = [{"vm_id": vm, column: group} for vm, group in dict.fromkeys(pairs)]
        if rows:
            copy_rows(connection, table, len(rows), columns_from(rows))


def remove_nics(connection: Connection, nic_ids: Sequence[int]) -> None:
    """Mark NICs as removed, and release their addresses."""
    if not nic_ids:
        return
    connection.execute(
        text(
            "WITH gone AS (UPDATE nics SET removed = now() WHERE id = ANY(:nics) AND removed IS NULL"
            "   RETURNING ip_range_id, ip_address)"
            " INSERT INTO released_addresses (ip_range_id, ip_address) SELECT g.ip_range_id, g.ip_address"
            " FROM gone g JOIN ip_ranges r ON r.id = g.ip_range_id WHERE g.ip_address < r.next_ip"
            " ON CONFLICT DO NOTHING"
        ),
        {"nics": list(nic_ids)},
    )


def mark_removed(connection: Connection, entity: Entity, ids: Collection[int], state: str) -> None:
    """Mark VMs or volumes as removed, with a final state."""
    if ids:
        table = TABLES[entity]
        values = {"state": state, "removed": text("now()")}
        connection.execute(update(table).where(id_in(table.c.id, set(ids))).values(values))


def insert_template_as_deleted(connection: Connection, account_id: int, uuid: str, name: str) -> int:
    """Insert the row of a template that was deleted in the other cloud and is still referred to by VMs.

    Returns the internal id of the template, which is marked as removed.
    """
    values = {
        "uuid": UUID(uuid),
        "name": name,
        "display_text": name,
        "kind": "template",
        "format": "QCOW2",
        "size_bytes": 0,
        "physical_size_bytes": 0,
        "account_id": account_id,
        "is_public": False,
        "removed": text("now()"),
    }
    return int(connection.execute(insert(templates).values(values).returning(templates.c.id)).scalar_one())


def insert_offering_as_deleted(connection: Connection, uuid: str, name: str) -> int:
    """Insert the row of a service offering that was deleted in the other cloud and is still referred to by VMs.

    Returns the internal id of the offering, which is marked as removed.
    """
    values = {"uuid": UUID(uuid), "name": name, "display_text": name, "removed": text("now()")}
    query = insert(service_offerings).values(values).returning(service_offerings.c.id)
    return int(connection.execute(query).scalar_one())
