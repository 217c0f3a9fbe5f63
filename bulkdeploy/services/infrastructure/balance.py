"""Balancing a zone, a pod or a cluster: requests are checked here, and a job moves the VMs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.infrastructure.topology import HypervisorType
from bulkdeploy.domain.jobs import PLANNED
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.placement.balance import BalancePlan, Score
from bulkdeploy.provisioning.kinds.infrastructure.balance_zone import BALANCE
from bulkdeploy.scheduling.balance import BalanceScope, plan_zone_balance
from bulkdeploy.scheduling.moves import MIGRATING, VmMove
from bulkdeploy.services.planned_moves import PlanWanted, plan_moves
from bulkdeploy.services.sending import submit_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.infrastructure.zones import zone_of_place
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.ledger.balance_rows import names_of

NOUNS = {Entity.ZONE: "zone", Entity.POD: "pod", Entity.CLUSTER: "cluster"}
PLACES = {Entity.ZONE: "zoneid", Entity.POD: "podid", Entity.CLUSTER: "clusterid"}


def balance_zone(
    connection: Connection,
    system: System,
    caller: Caller,
    place: EntityRef,
    *,
    most_moves: int,
    least_gain: float,
    plan: PlanWanted | None = None,
) -> JobTicket:
    """Create the job that moves VMs until a zone, a pod or a cluster is balanced, and return the job.

    The job's result describes the moves. If ``plan`` is given, only the moves of this plan are made.

    Raises:
        InvalidParameter: the zone, pod or cluster was deleted; or under the same conditions as ``plan_moves``.
        PlanStale: under the same conditions as ``plan_moves``.
    """
    shown = None if plan is None else plan_moves(connection, caller, plan, (), MIGRATING).hosts()
    return submit_balancing(
        connection, system, caller, place, most_moves=most_moves, least_gain=least_gain, moves=shown
    )


def submit_balancing(
    connection: Connection,
    system: System,
    caller: Caller,
    place: EntityRef,
    *,
    most_moves: int,
    least_gain: float,
    moves: Sequence[tuple[int, int, int]] | None = None,
    automatic: bool = False,
) -> JobTicket:
    """Create the job that balances a zone, a pod or a cluster, and return the job.

    If ``moves`` (VM, host and position in the order) are given, the job makes these moves and no others.

    Raises:
        InvalidParameter: the zone, pod or cluster was deleted.
    """
    zone = zone_of_place(connection, place)
    if zone is None:
        raise InvalidParameter(PLACES[place.entity], str(place.uuid), "it was deleted")
    scope = balance_scope(system, place, zone[0])
    pins = {"pod_id": scope.pod_id, "cluster_id": scope.cluster_id}
    job = BALANCE.new_job(
        Instance(BALANCE.instance_type, *zone),
        f"asked to balance {NOUNS[place.entity]} {place.name}",
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        params={
            **{name: pin for name, pin in pins.items() if pin is not None},
            "hypervisors": sorted(scope.hypervisors),
            "most_moves": most_moves,
            "least_gain": least_gain,
            **({} if moves is None else {PLANNED: moves}),
            **({"automatic": True} if automatic else {}),
        },
    )
    (ticket,) = submit_jobs(connection, system.job_queue, [job])
    return ticket


def show_balance(
    connection: Connection,
    system: System,
    caller: Caller,
    place: EntityRef,
    wanted: PlanWanted,
    *,
    most_moves: int,
    least_gain: float,
) -> dict[str, Any]:
    """Return the moves that balancing a zone, a pod or a cluster would make now, and its score before and after.

    The moves are stored under an index. If the request refers to a stored plan, its moves are checked against the
    present state.

    Raises:
        InvalidParameter: the zone, pod or cluster was deleted; or under the same conditions as ``plan_moves``.
        PlanStale: under the same conditions as ``plan_moves``.
    """
    zone = zone_of_place(connection, place)
    if zone is None:
        raise InvalidParameter(PLACES[place.entity], str(place.uuid), "it was deleted")
    plan = plan_zone_balance(
        connection, balance_scope(system, place, zone[0]), most_moves=most_moves, least_gain=least_gain
    )
    kept = plan_moves(connection, caller, wanted, _planned(plan), MIGRATING)
    return {
        "index": kept.index if plan.moves or wanted.index else None,
        "scorebefore": plan.before.total,
        "scoreafter": plan.after.total,
        "before": [_terms(plan.before)],
        "after": [_terms(plan.after)],
        "sets": len(plan.sets),
        "moves": plan.moves,
        "move": moves_of(connection, plan),
    }


def balance_scope(system: System, place: EntityRef, zone_id: int) -> BalanceScope:
    """Return the hosts of a zone, pod or cluster between which balancing moves VMs.

    Only hosts of hypervisors that can migrate running VMs are included.
    """
    able = frozenset(
        kind
        for kind in HypervisorType
        if (driver := system.drivers.find(kind)) is not None and LiveMigration in driver.abilities
    )
    return BalanceScope(
        zone_id,
        able,
        pod_id=place.id if place.entity is Entity.POD else None,
        cluster_id=place.id if place.entity is Entity.CLUSTER else None,
    )


def _planned(plan: BalancePlan) -> list[VmMove]:
    return [
        VmMove(move.vm_id, move.from_host_id, move.to_host_id, turn)
        for turn, moves in enumerate(plan.sets, start=1)
        for move in moves
    ]


def _terms(score: Score) -> Mapping[str, float]:
    return score._asdict()


def moves_of(connection: Connection, plan: BalancePlan) -> list[dict[str, Any]]:
    """Return the moves of a plan with the names and the ids of VMs and hosts."""
    moves = [(number, move) for number, moves in enumerate(plan.sets, start=1) for move in moves]
    vms, hosts = names_of(
        connection,
        [move.vm_id for _, move in moves],
        {host for _, move in moves for host in (move.from_host_id, move.to_host_id)},
    )
    return [
        {
            "set": number,
            "virtualmachineid": str(vms[move.vm_id].uuid),
            "virtualmachinename": vms[move.vm_id].name,
            "fromhostid": str(hosts[move.from_host_id].uuid),
            "fromhostname": hosts[move.from_host_id].name,
            "hostid": str(hosts[move.to_host_id].uuid),
            "hostname": hosts[move.to_host_id].name,
            "gain": move.gain,
        }
        for number, move in moves
    ]
