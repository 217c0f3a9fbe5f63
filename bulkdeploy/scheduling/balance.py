"""A zone in the form that balancing needs: hosts and VMs as columns, and the hosts that each VM may use.

These functions only read. Each move claims its destination separately, when all rules are checked again.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.placement.balance import (
    NO_VMS,
    BalanceHosts,
    BalancePlan,
    BalanceVms,
    hosts_within_reach,
    plan_balance,
)
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.model import Flags, Ints, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import choose_planners
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.ledger.balance_rows import has_dedications, read_groups_of, read_vms_on_hosts
from bulkdeploy.store.ledger.snapshot import read_snapshot

APART = frozenset({AffinityType.HOST_ANTI_AFFINITY, AffinityType.NON_STRICT_HOST_ANTI_AFFINITY})
TOGETHER = frozenset({AffinityType.HOST_AFFINITY, AffinityType.NON_STRICT_HOST_AFFINITY})


@dataclass(frozen=True, slots=True)
class BalanceScope:
    """The scope of balancing: a zone, or a part of it, and the hypervisors that can move running VMs."""

    zone_id: int
    hypervisors: frozenset[str]
    pod_id: int | None = None
    cluster_id: int | None = None


def plan_zone_balance(
    connection: Connection,
    scope: BalanceScope,
    *,
    most_moves: int,
    least_gain: float,
    most_sets: int = 10_000,
    without_vms: Collection[int] = (),
) -> BalancePlan:
    """Return moves that balance a zone, or a part of it, in its present state (see ``placement.balance``).

    Only hosts that are up and enabled take part. A VM does not move if it has a job, is kept together with others
    by an affinity group, has local volumes, has a planner that depends on the other VMs of a host, or is in
    ``without_vms``.
    """
    configuration = read_configuration(connection)
    rows = read_vms_on_hosts(connection, scope.zone_id)
    if not rows:
        return BalancePlan(NO_VMS, NO_VMS, ())
    snapshots = _Snapshots(connection, scope.zone_id, configuration, rows)
    snapshot = snapshots.of(rows[0].account_id)
    at = _in_scope(snapshot, scope)
    position = {host_id: place for place, host_id in enumerate(snapshot.hosts.id[at].tolist())}
    rows = [row for row in rows if row.host_id in position]
    members = read_groups_of(connection, [row.id for row in rows])
    reach, kinds = _reach(snapshots, configuration, rows, members, at)
    return plan_balance(
        _hosts(snapshot, at),
        _vms(rows, position, kinds, frozenset(without_vms), scope.hypervisors),
        reach,
        most_moves=most_moves,
        least_gain=least_gain,
        most_sets=most_sets,
    )


class _Snapshots:
    """The snapshots of a zone for requests of several owners. They differ only where something is dedicated."""

    def __init__(
        self, connection: Connection, zone_id: int, configuration: Configuration, rows: Sequence[Row[Any]]
    ) -> None:
        self._connection, self._zone_id, self._configuration = connection, zone_id, configuration
        self._owners = owners_by_id(connection, {row.account_id for row in rows})
        self._differ = has_dedications(connection)
        self._read: dict[int, ZoneSnapshot] = {}

    def key_of(self, account_id: int) -> int:
        """Return an account whose snapshot of the zone is the same as that of this account."""
        return account_id if self._differ else min(self._owners)

    def of(self, account_id: int) -> ZoneSnapshot:
        """Return the snapshot of the zone for requests of an account."""
        key = self.key_of(account_id)
        if key not in self._read:
            self._read[key] = read_snapshot(
                self._connection,
                self._zone_id,
                self._owners[key],
                self._configuration,
                with_tags=True,
                with_local_storage=False,
                with_owner_hosts=False,
            )
        return self._read[key]


def _in_scope(snapshot: ZoneSnapshot, scope: BalanceScope) -> Ints:
    """Return the positions of the hosts that take part in balancing."""
    clusters, hosts = snapshot.clusters, snapshot.hosts
    chosen = np.ones(len(clusters.id), dtype=bool)
    if scope.cluster_id is not None:
        chosen = clusters.id == scope.cluster_id
    elif scope.pod_id is not None:
        chosen = clusters.pod_id == scope.pod_id
    return np.flatnonzero(hosts.up & hosts.enabled & chosen[hosts.cluster])


def _hosts(snapshot: ZoneSnapshot, at: Ints) -> BalanceHosts:
    hosts = snapshot.hosts
    return BalanceHosts(
        id=hosts.id[at],
        cluster=np.unique(hosts.cluster[at], return_inverse=True)[1].astype(np.int64),
        cpu_limit=hosts.cpu_limit[at],
        cpu_used=hosts.cpu_used[at],
        memory_limit=hosts.memory_limit[at],
        memory_used=hosts.memory_used[at],
        vms_limit=hosts.vms_limit[at],
        vms_used=hosts.vms_used[at],
    )


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The kinds of VMs, by position.

    ``line`` is the row of the kind in the table of reachable hosts. ``apart`` has its anti-affinity groups.
    ``bound`` are the kinds that may not move.
    """

    line: list[int]
    apart: Mapping[int, tuple[int, ...]]
    bound: set[int]


def _reach(
    snapshots: _Snapshots,
    configuration: Configuration,
    rows: Sequence[Row[Any]],
    members: Sequence[Row[Any]],
    at: Ints,
) -> tuple[Flags, _Kinds]:
    """Return the hosts on which each kind of VM may be, regardless of free capacity, and the kind of each VM."""
    catalog = placement_catalog()
    groups: dict[int, list[Row[Any]]] = {}
    for member in members:
        groups.setdefault(member.vm_id, []).append(member)
    lines: dict[tuple[int, PlacementRequest], int] = {}
    kinds = _Kinds([], {}, set())
    apart: dict[int, tuple[int, ...]] = {}
    for position, row in enumerate(rows):
        of_vm = {member.id: AffinityType(member.affinity_type) for member in groups.get(row.id, ())}
        request = _request(configuration, row, dedicated=AffinityType.EXPLICIT_DEDICATION in of_vm.values())
        apart[position] = tuple(group for group, kind in of_vm.items() if kind in APART)
        if TOGETHER & set(of_vm.values()) or _looks_at_neighbours(request):
            kinds.bound.add(position)
        kinds.line.append(lines.setdefault((snapshots.key_of(row.account_id), request), len(lines)))
    table = np.zeros((max(len(lines), 1), len(at)), dtype=bool)
    for (account_id, request), line in lines.items():
        with suppress(PlannerNotInstalled):
            table[line] = hosts_within_reach(snapshots.of(account_id), request, catalog)[at]
    return table, _Kinds(kinds.line, {vm: found for vm, found in apart.items() if found}, kinds.bound)


def _looks_at_neighbours(request: PlacementRequest) -> bool:
    """Return whether the possible hosts of the VM depend on the owners of other VMs, which moves change."""
    planners = {request.planner, request.offering_planner or request.planner}
    try:
        return any(placement_catalog().strategy(name).needs_owner_vms for name in planners)
    except PlannerNotInstalled:
        return True


def _request(configuration: Configuration, row: Row[Any], *, dedicated: bool) -> PlacementRequest:
    planner, offering_planner = choose_planners(
        configuration, bulk=row.bulk, named=row.planner, offering=row.deployment_planner
    )
    return PlacementRequest(
        count=1,
        cpu_number=row.cpu_number,
        cpu_mhz=row.cpu_mhz,
        memory_mib=row.memory_mib,
        hypervisor=row.hypervisor,
        purpose=Purpose.MOVE,
        host_tags=frozenset(row.host_tags) | ({row.template_tag} if row.template_tag else set()),
        pod_id=row.bound_pod_id,
        cluster_id=row.bound_cluster_id,
        dedicated=dedicated,
        planner=planner,
        offering_planner=offering_planner,
    )


def _vms(
    rows: Sequence[Row[Any]],
    position: Mapping[int, int],
    kinds: _Kinds,
    without: frozenset[int],
    hypervisors: frozenset[str],
) -> BalanceVms:
    def column(name: str) -> Ints:
        return np.array([getattr(row, name) for row in rows], dtype=np.int64)

    movable = [
        row.state == VmState.RUNNING
        and not row.has_job
        and not row.bound_to_host
        and row.id not in without
        and row.hypervisor in hypervisors
        and place not in kinds.bound
        for place, row in enumerate(rows)
    ]
    return BalanceVms(
        id=column("id"),
        host=np.array([position[row.host_id] for row in rows], dtype=np.int64),
        cpu=column("claimed_mhz"),
        memory=column("memory_mib"),
        owner=column("account_id"),
        reach=np.array(kinds.line, dtype=np.int64),
        movable=np.array(movable, dtype=bool),
        apart=dict(kinds.apart),
    )
