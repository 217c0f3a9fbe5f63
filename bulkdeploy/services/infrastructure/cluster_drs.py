"""CloudStack's DRS commands: plans that balance a cluster, shown or executed by a call or by the sweeper.

A plan is a job that balances one cluster (``services.infrastructure.balance``), and is kept as long as the job.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.scheduling.balance import plan_zone_balance
from bulkdeploy.scheduling.moves import MIGRATING, VmMove, try_moves
from bulkdeploy.services.infrastructure.balance import balance_scope, moves_of, submit_balancing
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.infrastructure import cluster_drs as store
from bulkdeploy.store.infrastructure.host_migration import vm_places
from bulkdeploy.store.infrastructure.zones import zone_of_place
from bulkdeploy.store.locks import Lock, take_lock

LEAST_GAIN = 0.001
ENABLED, INTERVAL, MOST = "drs.automatic.enable", "drs.automatic.interval", "drs.max.migrations"


def plan_cluster(
    connection: Connection, system: System, cluster: EntityRef, most: int | None
) -> list[dict[str, Any]]:
    """Return the moves that would balance a cluster.

    ``most`` is the maximum number of moves; if it is None, the setting ``drs.max.migrations`` applies.

    Raises:
        InvalidParameter: the cluster was deleted.
    """
    zone_id = _zone_of(connection, cluster)
    if most is None:
        most = read_configuration(connection).number(MOST, Scope.CLUSTER, cluster.id)
    scope = balance_scope(system, cluster, zone_id)
    plan = plan_zone_balance(connection, scope, most_moves=most, least_gain=LEAST_GAIN)
    return [
        {
            "virtualmachineid": move["virtualmachineid"],
            "virtualmachinename": move["virtualmachinename"],
            "sourcehostid": move["fromhostid"],
            "sourcehostname": move["fromhostname"],
            "destinationhostid": move["hostid"],
            "destinationhostname": move["hostname"],
        }
        for move in moves_of(connection, plan)
    ]


def execute_plan(
    connection: Connection, system: System, caller: Caller, cluster: EntityRef, moves: Sequence[Mapping[str, Any]]
) -> JobTicket:
    """Create a job that moves VMs of a cluster to other hosts of the cluster, one after the other.

    Each entry of ``moves`` has a ``vm`` and a ``host``.

    Raises:
        InvalidParameter: the cluster was deleted, a VM or a host is not in the cluster, or a VM cannot move to its
            host.
        ResourceInUse: a job balances the cluster.
    """
    zone_id = _zone_of(connection, cluster)
    take_lock(connection, Lock.CLUSTER_PLANS, cluster.id)
    if store.is_balanced_now(connection, zone_id, cluster.id):
        raise ResourceInUse(f"A job is balancing cluster {cluster.name}; wait until it ends")
    there = store.hosts_of_cluster(connection, cluster.id)
    vms = vm_places(connection, [move["vm"].id for move in moves])
    planned = []
    for turn, move in enumerate(moves, start=1):
        vm, host = move["vm"], move["host"]
        if vm.id not in vms or vms[vm.id].host_id not in there:
            raise InvalidParameter(
                "migrateto", str(vm.uuid), f"the virtual machine runs on no host of {cluster.name}"
            )
        if host.id not in there:
            raise InvalidParameter("migrateto", str(host.uuid), f"the host is not in cluster {cluster.name}")
        planned.append(VmMove(vm.id, vms[vm.id].host_id, host.id, turn))
    for tried in try_moves(connection, planned, MIGRATING):
        if tried.why:
            rule = f"virtual machine {vms[tried.vm_id].name} cannot move there: {tried.why}"
            raise InvalidParameter("migrateto", str(vms[tried.vm_id].uuid), rule)
    hosts = [(move.vm_id, move.to_host_id, move.turn) for move in planned if move.to_host_id is not None]
    return submit_balancing(
        connection, system, caller, cluster, most_moves=len(hosts), least_gain=LEAST_GAIN, moves=hosts
    )


def balance_if_due(connection: Connection, *, system: System, cluster: EntityRef, zone_id: int) -> bool:
    """Create the job that balances a cluster, and return whether the job was created.

    No job is created if another job balances the cluster now or was created for it within the last
    ``drs.automatic.interval`` minutes.
    """
    settings = read_configuration(connection)
    take_lock(connection, Lock.CLUSTER_PLANS, cluster.id)
    minutes = settings.number(INTERVAL, Scope.CLUSTER, cluster.id)
    if store.was_balanced(connection, zone_id, cluster.id, minutes=minutes):
        return False
    most = settings.number(MOST, Scope.CLUSTER, cluster.id)
    submit_balancing(
        connection,
        system,
        default_admin(connection),
        cluster,
        most_moves=most,
        least_gain=LEAST_GAIN,
        automatic=True,
    )
    return True


def enabled_clusters(connection: Connection) -> list[tuple[EntityRef, int]]:
    """Return the clusters that are balanced automatically, with the ids of their zones."""
    settings = read_configuration(connection)
    return [
        (cluster, zone_id)
        for cluster, zone_id in store.enabled_clusters(connection)
        if settings.flag(ENABLED, Scope.CLUSTER, cluster.id)
    ]


def _zone_of(connection: Connection, cluster: EntityRef) -> int:
    zone = zone_of_place(connection, cluster)
    if zone is None:
        raise InvalidParameter("id", str(cluster.uuid), "the cluster was deleted")
    return int(zone[0])
