"""Moves and starts of VMs that exist, one after the other, as plans show them and as they are judged by.

Each is planned as its job will plan it, on what those before it leave. Only reads: no lock is taken.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from sqlalchemy import Connection

from bulkdeploy.placement.batch import plan_batch
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.claimed_plans import add_members, after, with_members, without
from bulkdeploy.placement.model import PlacementRequest, Plan, Purpose, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import PlacementNeed, placement_request
from bulkdeploy.scheduling.place import BOUND, NoPlace, no_place
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration
from bulkdeploy.store.ledger.snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class VmMove:
    """Where one VM of a plan goes.

    Attributes:
        vm_id: the VM.
        from_host_id: the host that it holds; None: none.
        to_host_id: the host that it gets; None: the one that placement finds, if any.
        turn: moves of one turn have ended before those of the next begin; from 1.
        why: why it finds no host.
    """

    vm_id: int
    from_host_id: int | None
    to_host_id: int | None = None
    turn: int = 1
    why: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """How VMs get to their hosts, as the params of their jobs say it.

    Running VMs that move hold what they leave until their turn is over. VMs that start and hold a host have lost
    it: all of them give it back first.
    """

    purpose: Purpose
    pod_id: int | None = None
    cluster_id: int | None = None
    planner: str | None = None
    last_host_first: bool = False


MIGRATING, STARTING = Way(Purpose.MOVE), Way(Purpose.START)


def try_moves(connection: Connection, moves: Sequence[VmMove], way: Way) -> list[VmMove]:
    """The moves with the hosts that VMs get now, or why they get none."""
    zone = _Zone(connection, read_configuration(connection))
    if way.purpose is Purpose.START:
        zone.give_back(moves)
    tried: list[VmMove] = []
    for _, turn in groupby(moves, lambda move: move.turn):
        of_turn = [zone.try_move(move, way) for move in turn]
        if way.purpose is Purpose.MOVE:
            zone.give_back(move for move in of_turn if not move.why)
        tried += of_turn
    return tried


Change = Callable[[ZoneSnapshot], ZoneSnapshot]


class _Zone:
    """A zone as the moves tried so far leave it, the way each owner sees it."""

    def __init__(self, connection: Connection, configuration: Configuration) -> None:
        self._connection, self._configuration = connection, configuration
        self._catalog = placement_catalog()
        self._changes: list[tuple[int, Change]] = []
        self._seen: dict[int, tuple[ZoneSnapshot, int]] = {}
        self._members: dict[int, Mapping[int, int]] = {}

    def try_move(self, move: VmMove, way: Way) -> VmMove:
        """The move with its host, or why there is none."""
        place = self._place(move, way)
        if isinstance(place, NoPlace):
            return replace(move, why=place.why)
        return replace(move, to_host_id=int(place.host_ids[0]), why="")

    def give_back(self, moves: Iterable[VmMove]) -> None:
        """VMs leave the hosts that they hold."""
        for move in moves:
            if move.from_host_id is not None and (vm := self._read(move)) is not None:
                request = self._request(vm.need, move, vm.id)
                self._change(vm, partial(without, request=request, host_id=move.from_host_id))

    def _place(self, move: VmMove, way: Way) -> Plan | NoPlace:
        pinned = move.to_host_id is not None
        pins = {} if pinned else {"pod_id": way.pod_id, "cluster_id": way.cluster_id}
        vm = self._read(move, **pins)
        if vm is None:
            return BOUND
        need = replace(vm.need, purpose=way.purpose)
        if way.planner is not None:
            need = replace(need, planner=way.planner, offering_planner=None)
        needs = [need]
        if way.last_host_first and need.host_id is None and vm.last_host_id is not None:
            needs.insert(0, replace(need, host_id=vm.last_host_id))
        place: Plan | NoPlace = BOUND
        for wanted in needs:
            place = self._plan(vm, wanted, move)
            if isinstance(place, Plan):
                break
        return place

    def _plan(self, vm: VmToPlace, need: PlacementNeed, move: VmMove) -> Plan | NoPlace:
        request = with_members(self._request(need, move, vm.id), self._members)
        try:
            (plan,) = plan_batch(self._as_seen_by(vm), [request], self._catalog).plans
        except PlannerNotInstalled as missing:
            return NoPlace(str(missing))
        if not plan.placed:
            return no_place(plan)
        self._change(vm, partial(after, request=request, made=plan))
        add_members(request, plan, self._members)
        return plan

    def _read(self, move: VmMove, **pins: int | None) -> VmToPlace | None:
        return read_vm_to_place(self._connection, self._configuration, move.vm_id, host_id=move.to_host_id, **pins)

    def _request(self, need: PlacementNeed, move: VmMove, seed: int) -> PlacementRequest:
        here = frozenset[int]() if move.from_host_id is None else frozenset({move.from_host_id})
        return placement_request(
            self._connection, self._configuration, need, count=1, seed=seed, avoid_host_ids=here, lock=False
        )

    def _change(self, vm: VmToPlace, change: Change) -> None:
        self._changes.append((vm.need.owner.account_id, change))

    def _as_seen_by(self, vm: VmToPlace) -> ZoneSnapshot:
        """The zone, as the VM's owner sees it; of others' VMs only what they take counts."""
        owner = vm.need.owner
        if owner.account_id not in self._seen:
            snapshot = read_snapshot(
                self._connection,
                vm.need.zone_id,
                owner,
                self._configuration,
                with_tags=True,
                with_local_storage=True,
                with_owner_hosts=True,
            )
            self._seen[owner.account_id] = (snapshot, 0)
        seen, changes = self._seen[owner.account_id]
        for account_id, change in self._changes[changes:]:
            changed = change(seen)
            seen = changed if account_id == owner.account_id else _without_counts(changed, seen)
        self._seen[owner.account_id] = (seen, len(self._changes))
        return seen


def _without_counts(changed: ZoneSnapshot, before: ZoneSnapshot) -> ZoneSnapshot:
    """What another owner's VM changes: not the owner's counts."""
    return replace(
        changed,
        clusters=replace(changed.clusters, owner_vms=before.clusters.owner_vms),
        hosts=replace(changed.hosts, owner_vms=before.hosts.owner_vms),
    )
