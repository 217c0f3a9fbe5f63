"""Stored plans of starts and moves: dry runs show them, and later calls apply them unchanged or fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import PlanStale, ResourceUnavailable
from bulkdeploy.scheduling.allocators import evacuate
from bulkdeploy.scheduling.moves import MoveKind, VmMove, try_moves
from bulkdeploy.services.deployments.shown_plans import MOST_NAMED, kept_plan
from bulkdeploy.store.deployments.plans import keep_plan, names_of
from bulkdeploy.store.infrastructure.host_migration import VmPlace, running_vms_on, vm_places, zone_of_host

COLUMNS = ("vm_id", "from_host_id", "to_host_id", "turn")
"""What is kept of each move."""


@dataclass(frozen=True, slots=True)
class PlanWanted:
    """The parameters of a call that uses stored plans.

    ``dry_run`` requests a plan. ``index`` names a stored plan that the call applies; together with ``dry_run``, the
    stored plan is only checked. ``fingerprint`` identifies calls with the same planning parameters; a plan can only
    be applied by a call with the same fingerprint.
    """

    fingerprint: bytes
    dry_run: bool
    index: int | None


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The planned moves of VMs, and the index under which the plan is stored (0 if it is not stored)."""

    index: int
    moves: Sequence[VmMove]

    def hosts(self) -> list[tuple[int, int, int]]:
        """Return the moves that have a destination, as job parameters.

        Each entry consists of the VM, the destination and the position in the order of moves.
        """
        return [(move.vm_id, move.to_host_id, move.turn) for move in self.moves if move.to_host_id is not None]


def plan_moves(
    connection: Connection,
    caller: Caller,
    wanted: PlanWanted,
    moves: Sequence[VmMove],
    way: MoveKind,
    *,
    of_host: int | None = None,
) -> MovePlan:
    """Store and return the plan of a dry run, or check and return the stored plan that ``wanted.index`` names.

    ``moves`` are the moves to plan if there is no stored plan. If ``of_host`` is given, the plan is for all VMs
    that run on this host, and these must be the same VMs when the plan is applied.

    Raises:
        InvalidParameter: there is no such plan, or another call was planned.
        PlanStale: a VM has moved since, or cannot run on its planned host any more; only root admins get the
            details.
    """
    if wanted.index is None:
        tried = try_moves(connection, moves, way)
        index = keep_plan(connection, caller.user_id, wanted.fingerprint, [_columns_of(tried)])
        return MovePlan(index, tried)
    (kept,) = kept_plan(connection, caller, wanted.index, wanted.fingerprint)
    shown = [VmMove(*row) for row in zip(*(kept[column] for column in COLUMNS), strict=True)]
    vms = vm_places(connection, [move.vm_id for move in shown])
    problems = _moved(connection, shown, vms)
    if of_host is not None:
        problems += _came(connection, {move.vm_id for move in shown}, of_host)
    placed = [move for move in shown if move.to_host_id is not None]
    if not problems:
        tried = try_moves(connection, placed, way)
        problems = _refused(connection, [move for move in tried if move.why], vms)
    if problems:
        more = [f"and {len(problems) - MOST_NAMED} more"] if len(problems) > MOST_NAMED else []
        raise PlanStale(wanted.index, [*problems[:MOST_NAMED], *more] if caller.is_root_admin else ())
    return MovePlan(wanted.index, shown)


def moves_off(
    connection: Connection, caller: Caller, host_id: int, way: MoveKind, wanted: PlanWanted | None
) -> MovePlan | None:
    """Return the destinations of all VMs that run on a host, from the wanted plan or from an allocator program.

    Returns None if each job must choose its own destination.

    Raises:
        InvalidParameter, PlanStale: under the same conditions as ``plan_moves``.
        ResourceUnavailable: only allocator programs may choose hosts, and no allocator chose one.
    """
    vms = running_vms_on(connection, host_id)
    chosen = None
    if wanted is None or wanted.index is None:
        chosen = _chosen(connection, host_id, vms, way)
    moves = chosen or [VmMove(vm_id, host_id) for vm_id in vms]
    if wanted is not None:
        return plan_moves(connection, caller, wanted, moves, way, of_host=host_id)
    return None if chosen is None else MovePlan(0, chosen)


def _chosen(connection: Connection, host_id: int, vms: Sequence[int], way: MoveKind) -> list[VmMove] | None:
    """Return the moves that an allocator program chose and that are possible now.

    Returns None if the planner must choose the destinations instead.
    """
    uuids = {vm_id: str(place.uuid) for vm_id, place in vm_places(connection, vms).items()}
    said = []
    for answer in evacuate(connection, zone_of_host(connection, host_id), host_id, uuids) if vms else (None,):
        if answer is None:
            return None
        if isinstance(answer, str):
            said.append(answer)
            continue
        moves = [VmMove(vm_id, host_id, answer.get(vm_id)) for vm_id in vms]
        tried = try_moves(connection, [move for move in moves if move.to_host_id is not None], way)
        if not any(move.why for move in tried):
            return moves
        said += [f"a host that it chose does not take its VM: {move.why}" for move in tried if move.why][:1]
    raise ResourceUnavailable(f"No allocator chose hosts for the virtual machines of the host. {'; '.join(said)}")


def _columns_of(moves: Sequence[VmMove]) -> dict[str, list[Any]]:
    return {column: [getattr(move, column) for move in moves] for column in COLUMNS}


def _moved(connection: Connection, moves: Sequence[VmMove], vms: Mapping[int, VmPlace]) -> list[str]:
    """Return a text for each VM whose host has changed since the plan was made."""
    hosts = {host for move in moves for host in (move.from_host_id,) if host is not None}
    hosts |= {vm.host_id for vm in vms.values() if vm.host_id is not None}
    names = names_of(connection, "host", sorted(hosts))

    def named(host_id: int | None) -> str:
        return "on no host" if host_id is None else f"on host {names[host_id]}"

    said = []
    for move in moves:
        vm = vms.get(move.vm_id)
        if vm is None:
            said.append("a virtual machine of the plan was expunged")
        elif vm.host_id != move.from_host_id:
            now, then = named(vm.host_id), named(move.from_host_id)
            said.append(f"virtual machine {vm.name} is {now} by now, not {then}")
    return said


def _came(connection: Connection, planned: set[int], host_id: int) -> list[str]:
    """Return a text for each VM that is on the host now and is not part of the plan."""
    new = set(running_vms_on(connection, host_id)) - planned
    vms = vm_places(connection, sorted(new))
    return [f"virtual machine {vm.name} is on the host by now" for vm in vms.values()]


def _refused(connection: Connection, moves: Sequence[VmMove], vms: Mapping[int, VmPlace]) -> list[str]:
    """Return a text for each VM that cannot run on its planned host any more."""
    names = names_of(connection, "host", sorted({move.to_host_id for move in moves if move.to_host_id is not None}))
    return [
        f"host {names.get(move.to_host_id or 0)} does not take virtual machine {vms[move.vm_id].name} by now:"
        f" {move.why}"
        for move in moves
    ]
