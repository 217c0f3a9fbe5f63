"""The claims of a VM that is scaled up, and their release if the VM could not be scaled.

All functions run in the caller's transaction; hosts are locked first, in the order of their ids.
"""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.store.accounts.resource_counts import subtract_amounts
from bulkdeploy.store.virtual_machines.virtual_machine_migration import (
    release_both_hosts,
    release_destinations,
    release_sources,
)

OLD = "old"
"""Key of a scaling job's progress: the columns of its VM before it grew."""

_GROWN = (
    "SELECT j.instance_id, o.* FROM async_jobs j, jsonb_to_record(j.progress -> 'old')"
    "   AS o(service_offering_id bigint, cpu_number integer, cpu_mhz integer, memory_mib integer, details jsonb)"
    " WHERE j.instance_id = ANY(CAST(:vms AS bigint[])) AND j.instance_type = 'VirtualMachine' AND j.status = 0"
    "   AND j.progress -> 'old' IS NOT NULL"
)

_RESIZE_CLAIM = text(
    "WITH changed AS (UPDATE host_capacity c SET cpu_mhz_used = cpu_mhz_used + :cpu - x.cpu_mhz,"
    "   memory_mib_used = memory_mib_used + :memory - x.memory_mib FROM host_claims x"
    "   WHERE x.consumer = :who AND c.host_id = x.host_id"
    "   AND (:cpu <= x.cpu_mhz OR cpu_mhz_used + :cpu - x.cpu_mhz <= cpu_mhz_limit)"
    "   AND (:memory <= x.memory_mib OR memory_mib_used + :memory - x.memory_mib <= memory_mib_limit)"
    "   RETURNING c.host_id)"
    " UPDATE host_claims x SET cpu_mhz = :cpu, memory_mib = :memory FROM changed WHERE x.consumer = :who"
)


def resize_claim(connection: Connection, consumer: UUID, *, cpu_mhz: int, memory_mib: int) -> bool:
    """Change the amounts that a consumer claims on its host.

    Return False if the host has too little free capacity.
    """
    who = {"who": consumer}
    connection.execute(
        text(
            "SELECT FROM host_capacity WHERE host_id = (SELECT host_id FROM host_claims WHERE consumer = :who)"
            " FOR UPDATE"
        ),
        who,
    )
    changed = connection.execute(_RESIZE_CLAIM, {**who, "cpu": cpu_mhz, "memory": memory_mib})
    return changed.rowcount == 1


_LOCK_HOSTS = text(
    "SELECT FROM host_capacity WHERE host_id IN (SELECT x.host_id FROM host_claims x"
    "   JOIN virtual_machines v ON v.uuid = x.consumer WHERE v.id = ANY(CAST(:vms AS bigint[])))"
    " ORDER BY host_id FOR UPDATE"
)

_SHRINK_CLAIMS = text(
    "WITH less AS (SELECT x.consumer, x.host_id, x.cpu_mhz - g.cpu_number * g.cpu_mhz AS cpu_mhz,"
    "     x.memory_mib - g.memory_mib AS memory_mib"
    "   FROM ($grown) g JOIN virtual_machines v ON v.id = g.instance_id JOIN host_claims x ON x.consumer = v.uuid),"
    " shrunk AS (UPDATE host_claims x SET cpu_mhz = x.cpu_mhz - less.cpu_mhz,"
    "     memory_mib = x.memory_mib - less.memory_mib FROM less WHERE x.consumer = less.consumer)"
    " UPDATE host_capacity c SET cpu_mhz_used = c.cpu_mhz_used - s.cpu_mhz,"
    "   memory_mib_used = c.memory_mib_used - s.memory_mib"
    " FROM (SELECT host_id, sum(cpu_mhz) AS cpu_mhz, sum(memory_mib) AS memory_mib FROM less GROUP BY host_id) s"
    " WHERE c.host_id = s.host_id".replace("$grown", _GROWN)
)

_SHRINK_VMS = text(
    "WITH grown AS (SELECT v.id, v.account_id, v.cpu_number, v.memory_mib FROM virtual_machines v"
    "     WHERE v.id = ANY(CAST(:vms AS bigint[])))"
    " UPDATE virtual_machines v SET service_offering_id = g.service_offering_id, cpu_number = g.cpu_number,"
    "   cpu_mhz = g.cpu_mhz, memory_mib = g.memory_mib, details = g.details"
    " FROM ($grown) g JOIN grown ON grown.id = g.instance_id WHERE v.id = g.instance_id"
    " RETURNING v.account_id, grown.cpu_number - g.cpu_number AS cpu, grown.memory_mib - g.memory_mib AS memory"
    "".replace("$grown", _GROWN)
)


def release_growth_and_move(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Undo unfinished scaling jobs of these VMs, whose guests are still on their source hosts.

    VMs that should have moved in order to grow release their destinations, and claim only their sources.
    """
    release_growth(connection, vm_ids)
    release_destinations(connection, vm_ids)


def release_growth_and_sources(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Undo unfinished scaling jobs of these VMs, whose guests have moved to their destinations.

    VMs that moved in order to grow release their sources, and claim their old sizes at their destinations.
    """
    release_growth(connection, vm_ids)
    release_sources(connection, vm_ids)


def release_growth_and_both_hosts(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Undo unfinished scaling jobs of these VMs, and release all their hosts, because their guests run nowhere."""
    release_growth(connection, vm_ids)
    release_both_hosts(connection, vm_ids)


def release_growth(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Restore the old sizes of VMs with unfinished scaling jobs, and reduce their claims and resource counts."""
    vms = {"vms": list(vm_ids)}
    connection.execute(_LOCK_HOSTS, vms)
    connection.execute(_SHRINK_CLAIMS, vms)
    less: dict[int, ResourceAmounts] = defaultdict(ResourceAmounts)
    for row in connection.execute(_SHRINK_VMS, vms):
        less[row.account_id] = less[row.account_id].plus(ResourceAmounts(cpu=row.cpu, memory_mib=row.memory))
    subtract_amounts(connection, less)
