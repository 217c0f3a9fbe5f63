"""The rows that repairs on hypervisors need: VMs to repair, and guests and volumes to delete again."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

_VMS = text(
    "SELECT v.id, v.uuid, v.name, v.state, v.account_id, v.user_id, v.removed, h.id AS host_id"
    " FROM virtual_machines v LEFT JOIN hosts h ON h.id = v.host_id WHERE v.uuid = ANY(CAST(:vms AS uuid[]))"
    " AND NOT EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id AND j.instance_type = 'VirtualMachine'"
    "   AND j.status + 0 = 0) ORDER BY v.id"
)
_LOCK_VMS = text("SELECT FROM virtual_machines WHERE uuid = ANY(CAST(:vms AS uuid[])) ORDER BY id FOR UPDATE")


def lock_vms(connection: Connection, vm_uuids: Collection[UUID]) -> Sequence[Row[Any]]:
    """Lock these VMs, and return the rows of those without an unfinished job.

    The caller creates jobs for the returned VMs. Expunged VMs are included.
    """
    wanted = {"vms": list(vm_uuids)}
    connection.execute(_LOCK_VMS, wanted)
    return connection.execute(_VMS, wanted).all()


_REMOVE_AGAIN = text(
    "UPDATE virtual_machines v SET removed = NULL, state = 'Expunging', updated = now(), host_id = h.id,"
    " cluster_id = h.cluster_id, pod_id = h.pod_id"
    " FROM unnest(CAST(:vms AS uuid[]), CAST(:hosts AS uuid[])) AS w(vm, host) JOIN hosts h ON h.uuid = w.host"
    " WHERE v.uuid = w.vm AND v.removed IS NOT NULL RETURNING v.uuid"
)


def remove_vms_again(connection: Connection, hosts_of: Mapping[UUID, UUID]) -> set[UUID]:
    """Change expunged VMs whose guests still exist on these hosts back to Expunging, and return their uuids.

    Such a VM claims its host again until its guest is removed.
    """
    pairs = {"vms": list(hosts_of), "hosts": list(hosts_of.values())}
    return set(connection.execute(_REMOVE_AGAIN, pairs).scalars())


_VOLUMES_AGAIN = text(
    "UPDATE volumes x SET state = 'Destroy', removal_due = now() FROM storage_pools p,"
    " unnest(CAST(:volumes AS uuid[]), CAST(:pools AS uuid[])) AS w(volume, pool)"
    " WHERE x.uuid = w.volume AND p.uuid = w.pool AND x.pool_id = p.id AND x.removed IS NOT NULL"
    " AND x.state = 'Expunged' RETURNING x.uuid"
)


def remove_volumes_again(connection: Connection, pools_of: Mapping[UUID, UUID]) -> set[UUID]:
    """Mark deleted volumes that still exist in their pools, so that the sweeper deletes them again; return them."""
    pairs = {"volumes": list(pools_of), "pools": list(pools_of.values())}
    return set(connection.execute(_VOLUMES_AGAIN, pairs).scalars())


_KNOWN_VMS = text("SELECT uuid FROM virtual_machines WHERE uuid = ANY(CAST(:uuids AS uuid[]))")

_KNOWN_VOLUMES = text(
    "SELECT uuid FROM volumes WHERE uuid = ANY(CAST(:uuids AS uuid[])) AND removed IS NOT NULL"
    "   AND pool_id IS NOT NULL"
)


def known_vms(connection: Connection, uuids: Collection[UUID]) -> set[UUID]:
    """Return the uuids out of ``uuids`` that belong to VMs, including expunged VMs."""
    return set(connection.execute(_KNOWN_VMS, {"uuids": list(uuids)}).scalars())


def known_volumes(connection: Connection, uuids: Collection[UUID]) -> set[UUID]:
    """Return the uuids out of ``uuids`` that belong to deleted volumes that had been assigned to a pool."""
    return set(connection.execute(_KNOWN_VOLUMES, {"uuids": list(uuids)}).scalars())


_ENDS = text(
    "SELECT uuid, instance_uuid, status, CAST(result AS jsonb) ->> 'errortext' AS reason FROM async_jobs"
    " WHERE uuid = ANY(CAST(:jobs AS uuid[])) ORDER BY id"
)


def ends_of_jobs(connection: Connection, job_uuids: Collection[UUID]) -> Sequence[Row[Any]]:
    """Return the uuid, ``instance_uuid``, status and error text (``reason``) of jobs, ordered by id."""
    return connection.execute(_ENDS, {"jobs": list(job_uuids)}).all()
