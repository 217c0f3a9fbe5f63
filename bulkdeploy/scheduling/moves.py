"""Moves and starts of existing VMs, as plans show them.

Each move is planned as its job will plan it, on the capacity that earlier moves leave. The VMs of a lost host are
planned in the same orders as in the calculation of remaining capacity (``placement.host_loss``). These functions
only read and take no lock.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from sqlalchemy import Connection

from bulkdeploy.placement.batch import PACKED, plan_batch
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.claimed_plans import add_members, after, with_members, without
from bulkdeploy.placement.host_loss import packed_restart, restart_orders, without_host
from bulkdeploy.placement.model import PlacementRequest, Plan, Purpose, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import PlacementNeed, placement_request
from bulkdeploy.scheduling.place import BOUND, NoPlace, needs_in_order, no_place
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.hypervisors.watching import ha_priorities
from bulkdeploy.store.ledger.snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class VmMove:
    """The move of one VM in a plan.

    Attributes:
        vm_id: the VM.
        from_host_id: the host on which the VM has a claim, or None.
        to_host_id: the host that the VM gets. None if it gets none, or before planning to let placement choose it.
        turn: the number of the step in which the VM moves, from 1. All moves of a step end before the next step
            begins.
        why: the reason why the VM gets no host, or an empty text.
        planner: the deployment planner that chose the host; empty if the host was given or if there is none.
    """

    vm_id: int
    from_host_id: int | None
    to_host_id: int | None = None
    turn: int = 1
    why: str = ""
    planner: str = ""


@dataclass(frozen=True, slots=True)
class MoveKind:
    """The kind of move of VMs, as recorded in the parameters of their jobs.

    Running VMs keep their claim on the source until their own move. VMs that start after the loss of their host
    release their claims first, all together.
    """

    purpose: Purpose
    pod_id: int | None = None
    cluster_id: int | None = None
    planner: str | None = None
    last_host_first: bool = False


MIGRATING, STARTING = MoveKind(Purpose.MOVE), MoveKind(Purpose.START)


def try_moves(connection: Connection, moves: Sequence[VmMove], way: MoveKind) -> list[VmMove]:
    """Plan the moves in order.

    Returns them with the hosts that VMs get now, or with the reasons why they get none.
    """
    rows = _Rows(connection, read_configuration(connection))
    if way.purpose is Purpose.START and any(move.from_host_id is not None for move in moves):
        return _restart(rows, moves, way)
    zone = _Zone(rows)
    tried: list[VmMove] = []
    for _, turn in groupby(moves, lambda move: move.turn):
        of_turn = [zone.try_move(move, way) for move in turn]
        if way.purpose is Purpose.MOVE:
            zone.give_back(move for move in of_turn if not move.why)
        tried += of_turn
    return tried


def _restart(rows: "_Rows", moves: Sequence[VmMove], way: MoveKind) -> list[VmMove]:
    """Return the moves of VMs that have lost their host, with the new hosts, planned together.

    VMs are planned by their own rules first, the largest first. If some of them find no host, they are packed into
    the cluster of the lost host in each order that remaining capacity tries. Only VMs that still do not fit are
    placed elsewhere.
    """
    best: list[VmMove] | None = None
    for order, packed in _restart_attempts(rows, moves):
        zone = _Zone(rows)
        for host_id in {move.from_host_id for move in moves if move.from_host_id is not None}:
            zone.lose(host_id)
        tried: dict[int, VmMove] = {}
        turns = [(position, packed) for position in order]
        turns += [(position, False) for position in order if packed]
        for position, in_cluster in turns:
            if position not in tried or tried[position].why:
                tried[position] = zone.try_move(moves[position], way, packed=in_cluster)
        found = [tried[position] for position in range(len(moves))]
        if best is None or _count_failed(found) < _count_failed(best):
            best = found
        if not _count_failed(best):
            break
    return best or []


def _count_failed(moves: Sequence[VmMove]) -> int:
    return sum(bool(move.why) for move in moves)


def _restart_attempts(rows: "_Rows", moves: Sequence[VmMove]) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Yield the orders to try, each with whether VMs are packed tightly.

    VMs with a given host come first, then VMs by priority.
    """
    vms = [rows.vm(move) for move in moves]
    bound = tuple(at for at, vm in enumerate(vms) if vm is None or moves[at].to_host_id is not None)
    free = [(at, vm) for at, vm in enumerate(vms) if vm is not None and at not in bound]
    if not free:
        yield bound, False
        return
    lost = next(move.from_host_id for move in moves if move.from_host_id is not None)
    requests = [rows.request(vm.need, moves[at], vm.id) for at, vm in free]
    seen = rows.zone(free[0][1])
    priorities = rows.priorities([vm.id for _, vm in free])
    orders = [
        (*bound, *(free[turn][0] for turn in sorted(order, key=lambda turn: -priorities.get(free[turn][1].id, 0))))
        for order in restart_orders(seen, lost, requests)
    ]
    yield orders[0], False
    for order in orders:
        yield order, True


Change = Callable[[ZoneSnapshot], ZoneSnapshot]


class _Rows:
    """The rows of VMs and of their zones that planning needs. Each row is read once."""

    def __init__(self, connection: Connection, configuration: Configuration) -> None:
        self._connection, self._configuration = connection, configuration
        self._vms: dict[tuple[object, ...], VmToPlace | None] = {}
        self._zones: dict[int, ZoneSnapshot] = {}
        self._requests: dict[tuple[object, ...], PlacementRequest] = {}

    def priorities(self, vm_ids: Sequence[int]) -> dict[int, int]:
        """Return the HA priorities of VMs by id. VMs without a priority are omitted."""
        return ha_priorities(self._connection, vm_ids)

    def vm(self, move: VmMove, *, pod_id: int | None = None, cluster_id: int | None = None) -> VmToPlace | None:
        """Return the VM of a move as ``read_vm_to_place`` does, pinned to the host of the move."""
        key = (move.vm_id, move.to_host_id, pod_id, cluster_id)
        if key not in self._vms:
            self._vms[key] = read_vm_to_place(
                self._connection,
                self._configuration,
                move.vm_id,
                host_id=move.to_host_id,
                pod_id=pod_id,
                cluster_id=cluster_id,
            )
        return self._vms[key]

    def request(self, need: PlacementNeed, move: VmMove, seed: int) -> PlacementRequest:
        """Return the request for one VM. It avoids the host that the VM leaves."""
        key = (need, move.from_host_id, seed)
        if key not in self._requests:
            here = frozenset[int]() if move.from_host_id is None else frozenset({move.from_host_id})
            self._requests[key] = placement_request(
                self._connection, self._configuration, need, count=1, seed=seed, avoid_host_ids=here, lock=False
            )
        return self._requests[key]

    def zone(self, vm: VmToPlace) -> ZoneSnapshot:
        """Return the present snapshot of the zone for requests of the VM's owner."""
        owner = vm.need.owner
        if owner.account_id not in self._zones:
            self._zones[owner.account_id] = read_snapshot(
                self._connection,
                vm.need.zone_id,
                owner,
                self._configuration,
                with_tags=True,
                with_local_storage=True,
                with_owner_hosts=True,
            )
        return self._zones[owner.account_id]


class _Zone:
    """A zone after the moves that were planned so far, with one snapshot per owner."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._catalog = placement_catalog()
        self._changes: list[tuple[int | None, Change]] = []
        self._seen: dict[int, tuple[ZoneSnapshot, int]] = {}
        self._members: dict[int, Mapping[int, int]] = {}

    def try_move(self, move: VmMove, way: MoveKind, *, packed: bool = False) -> VmMove:
        """Plan a move, and return it with its host, or with the reason why there is none.

        ``packed`` packs the VM tightly into its cluster (``packed_restart``).
        """
        place = self._place(move, way, packed=packed)
        if isinstance(place, NoPlace):
            return replace(move, why=place.why, planner="")
        planner = "" if move.to_host_id is not None else way.planner or self._planner_of(move)
        return replace(move, to_host_id=int(place.host_ids[0]), why="", planner=planner)

    def lose(self, host_id: int) -> None:
        """Exclude a host that is down: it takes no VM, and does not count as a part of its cluster."""
        self._changes.append((None, partial(without_host, host_id=host_id)))

    def give_back(self, moves: Iterable[VmMove]) -> None:
        """Release the claims of VMs on the hosts that they leave, in this zone's snapshots only."""
        for move in moves:
            if move.from_host_id is not None and (vm := self._rows.vm(move)) is not None:
                request = self._rows.request(vm.need, move, vm.id)
                self._change(vm, partial(without, request=request, host_id=move.from_host_id))

    def _planner_of(self, move: VmMove) -> str:
        vm = self._rows.vm(move)
        return "" if vm is None else vm.need.planner

    def _place(self, move: VmMove, way: MoveKind, *, packed: bool) -> Plan | NoPlace:
        pinned = move.to_host_id is not None
        pins = {} if pinned else {"pod_id": way.pod_id, "cluster_id": way.cluster_id}
        vm = self._rows.vm(move, **pins)
        if vm is None:
            return BOUND
        need = replace(vm.need, purpose=way.purpose)
        if way.planner is not None:
            need = replace(need, planner=way.planner, offering_planner=None)
        first = vm.last_host_id if way.last_host_first else None
        place: Plan | NoPlace = BOUND
        for wanted in needs_in_order(need, first):
            place = self._plan(vm, wanted, move, packed=packed and not pinned)
            if isinstance(place, Plan):
                break
        return place

    def _plan(self, vm: VmToPlace, need: PlacementNeed, move: VmMove, *, packed: bool) -> Plan | NoPlace:
        request = with_members(self._rows.request(need, move, vm.id), self._members)
        seen = self._as_seen_by(vm)
        if packed and move.from_host_id is not None and request.cluster_id is None:
            (at,) = seen.hosts.cluster[seen.hosts.id == move.from_host_id]
            request = packed_restart(request, int(seen.clusters.id[at]))
        elif packed:
            request = replace(request, host_algorithm=PACKED)
        try:
            (plan,) = plan_batch(seen, [request], self._catalog).plans
        except PlannerNotInstalled as missing:
            return NoPlace(str(missing))
        if not plan.placed:
            return no_place(plan)
        self._change(vm, partial(after, request=request, made=plan))
        add_members(request, plan, self._members)
        return plan

    def _change(self, vm: VmToPlace, change: Change) -> None:
        self._changes.append((vm.need.owner.account_id, change))

    def _as_seen_by(self, vm: VmToPlace) -> ZoneSnapshot:
        """Return the snapshot of the zone for the VM's owner.

        Moves of other owners change only its free capacity.
        """
        account_id = vm.need.owner.account_id
        seen, changes = self._seen.get(account_id) or (self._rows.zone(vm), 0)
        for changed_by, change in self._changes[changes:]:
            changed = change(seen)
            seen = changed if changed_by in (None, account_id) else _without_counts(changed, seen)
        self._seen[account_id] = (seen, len(self._changes))
        return seen


def _without_counts(changed: ZoneSnapshot, before: ZoneSnapshot) -> ZoneSnapshot:
    """Return the zone changed by another owner's VM, with the owner's own counts unchanged."""
    return replace(
        changed,
        clusters=replace(changed.clusters, owner_vms=before.clusters.owner_vms),
        hosts=replace(changed.hosts, owner_vms=before.hosts.owner_vms),
    )
