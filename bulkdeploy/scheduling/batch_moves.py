"""Hosts for many existing VMs, planned together as one batch and claimed together.

VMs with equal needs are planned as one kind, as in a bulk deployment. VMs that move keep the claims on their source
hosts until they have arrived, so the plan counts both hosts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from uuid import UUID

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.placement.batch import plan_batch
from bulkdeploy.placement.catalog import PlannerNotInstalled
from bulkdeploy.placement.claimed_plans import add_members, after, with_members
from bulkdeploy.placement.model import Plan, Purpose, ZoneSnapshot
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import AffinityMembers, PlacementNeed
from bulkdeploy.scheduling.place import BOUND, NoPlace, Planned, thresholds_of, zone_as_seen_by
from bulkdeploy.scheduling.reasons import in_words
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vms_to_place
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.ledger.ledger import ConsumerKind, Thresholds, claim_hosts, claim_pools
from bulkdeploy.store.ledger.placed_vms import lock_affinity_groups, write_places, write_pools
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules, lock_plans


@dataclass(frozen=True, slots=True)
class AlikeVms:
    """VMs with the same need. None of them may get the host ``left_host_id``, which all of them leave, if given."""

    need: PlacementNeed
    left_host_id: int | None
    vms: list[VmToPlace]


@dataclass(frozen=True, slots=True)
class PlacedVms:
    """VMs with the same need, and the plan that places them."""

    need: PlacementNeed
    vms: Sequence[VmToPlace]
    planned: Planned


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The planned hosts of many VMs.

    Attributes:
        hosts: the host of each VM, by ids, or the reason why the VM gets none.
        placed: the plans of VMs that get a host, one for each need.
    """

    hosts: dict[int, int | NoPlace] = field(default_factory=dict)
    placed: list[PlacedVms] = field(default_factory=list)

    def claim(
        self, connection: Connection, consumers: Mapping[int, UUID], kind: ConsumerKind = ConsumerKind.VM
    ) -> None:
        """Claim the hosts and pools of all placed VMs.

        ``consumers`` maps each VM's id to the consumer of its claim.

        The rows of the VMs must not be locked yet, because they come after hosts and pools in the order of locks.

        Raises:
            TransactionConflict: another transaction claimed the capacity since the plan; the whole transaction must
                be repeated.
        """
        if not self.placed:
            return
        counts = [len(each.vms) for each in self.placed]
        needs = [each.need for each in self.placed]
        claim_hosts(
            connection,
            np.concatenate([each.planned.plan.host_ids for each in self.placed]),
            [consumers[vm.id] for each in self.placed for vm in each.vms],
            account_id=np.repeat([need.owner.account_id for need in needs], counts),
            cpu_mhz=np.repeat([need.cpu_number * need.cpu_mhz for need in needs], counts),
            memory_mib=np.repeat([need.memory_mib for need in needs], counts),
            thresholds=reduce(Thresholds.joined, (each.planned.thresholds for each in self.placed)),
            kind=kind,
        )
        limits = {pool: limit for each in self.placed for pool, limit in each.planned.pool_limits.items()}
        pools = self._pools()
        if pools:
            claim_pools(
                connection,
                limits,
                [pool for _, _, pool in pools],
                [size for _, size, _ in pools],
                [volume for volume, _, _ in pools],
            )

    def require_unchanged(self, connection: Connection) -> None:
        """Raise TransactionConflict if the placed VMs, whose rows are locked now, differ from the planned ones.

        Raises:
            TransactionConflict: the need of a VM has changed; the whole transaction must be repeated.
        """
        planned = {vm.id: vm for each in self.placed for vm in each.vms}
        if read_vms_to_place(connection, read_configuration(connection), list(planned)) != planned:
            raise TransactionConflict

    def write(self, connection: Connection) -> None:
        """Write the claimed hosts into the rows of the VMs, and the claimed pools into those of new volumes."""
        if not self.placed:
            return
        plans = [each.planned.plan for each in self.placed]
        write_places(
            connection,
            [vm.id for each in self.placed for vm in each.vms],
            host_ids=np.concatenate([plan.host_ids for plan in plans]).tolist(),
            cluster_ids=np.concatenate([plan.cluster_ids for plan in plans]).tolist(),
            pod_ids=np.concatenate([plan.pod_ids for plan in plans]).tolist(),
        )
        pools = self._pools()
        if pools:
            write_pools(connection, [volume for volume, _, _ in pools], [pool for _, _, pool in pools])

    def _pools(self) -> list[tuple[UUID, int, int]]:
        """Return the volumes that get a pool: their uuids, bytes and pools."""
        return [
            (volume, disk.size_bytes, pool)
            for each in self.placed
            for vm, row in zip(each.vms, each.planned.plan.pool_ids.tolist(), strict=True)
            for volume, disk, pool in zip(vm.unplaced_volumes, each.need.disks, row, strict=True)
        ]


def plan_together(
    connection: Connection,
    vms: Mapping[int, int | None],
    purpose: Purpose,
    forbidden: frozenset[int] = frozenset(),
    *,
    to_claim: bool = False,
) -> BatchPlan:
    """Return a plan with the host for each VM, or with the reason why a VM gets no host.

    Args:
        connection: has an open transaction.
        vms: the host that each VM leaves and must not get again, by VM id; None if it leaves no host.
        purpose: START or MOVE.
        forbidden: hosts that no VM may get.
        to_claim: whether the plan will be claimed; then planning is locked until the end of the transaction.
    """
    configuration = read_configuration(connection)
    made = BatchPlan()
    alike: dict[tuple[PlacementNeed, int | None], list[VmToPlace]] = {}
    groups: dict[int, Sequence[int]] = {}
    for vm_id, vm in read_vms_to_place(connection, configuration, list(vms)).items():
        if vm is None:
            made.hosts[vm_id] = BOUND
            continue
        groups[vm_id] = vm.need.affinity_group_ids
        left = vms[vm_id]
        alike.setdefault((vm.need, None if left in forbidden else left), []).append(vm)
    kinds = [AlikeVms(replace(need, purpose=purpose), left, of_kind) for (need, left), of_kind in alike.items()]
    zone_ids = sorted({kind.need.zone_id for kind in kinds})
    if to_claim:
        _lock(connection, zone_ids, groups)
    members = AffinityMembers(connection, configuration, groups)
    for zone_id in zone_ids:
        of_zone = [kind for kind in kinds if kind.need.zone_id == zone_id]
        merged = _merge(of_zone)
        planned = _plan_zone(connection, configuration, merged, members, forbidden)
        if len(merged) < len(of_zone):
            swapped = _leave_hosts(planned, vms)
            planned = swapped or _plan_zone(connection, configuration, of_zone, members, forbidden)
        made.hosts.update(planned.hosts)
        made.placed.extend(planned.placed)
    return made


def _lock(connection: Connection, zone_ids: Sequence[int], groups: Mapping[int, Sequence[int]]) -> None:
    for zone_id in zone_ids:
        keep_zone_rules(connection, zone_id)
    for zone_id in zone_ids:
        lock_plans(connection, zone_id)
    group_ids = sorted({group_id for of_vm in groups.values() for group_id in of_vm})
    if group_ids:
        lock_affinity_groups(connection, group_ids)


def _merge(kinds: Sequence[AlikeVms]) -> list[AlikeVms]:
    """Merge kinds with the same need. A VM of a merged kind can get the host that another VM of the kind leaves."""
    by_need: dict[PlacementNeed, list[AlikeVms]] = {}
    for kind in kinds:
        by_need.setdefault(kind.need, []).append(kind)
    return [
        alike[0] if len(alike) == 1 else AlikeVms(need, None, [vm for kind in alike for vm in kind.vms])
        for need, alike in by_need.items()
    ]


def _leave_hosts(plan: BatchPlan, left: Mapping[int, int | None]) -> BatchPlan | None:
    """Swap the hosts of VMs with the same need so that no VM gets the host that it leaves.

    Returns None if a VM got no host, or if there is no such swap. The VMs are searched once per host, so the time
    does not grow quadratically with the number of VMs.
    """
    if any(isinstance(host, NoPlace) for host in plan.hosts.values()):
        return None
    swapped = BatchPlan()
    for each in plan.placed:
        hosts: list[int] = each.planned.plan.host_ids.tolist()
        vms = list(each.vms)
        unsearched: dict[int, Iterator[int]] = {}
        for at, host in enumerate(hosts):
            if left[vms[at].id] != host:
                continue
            others = unsearched.setdefault(host, iter(range(len(vms))))
            other = next((to for to in others if host not in (hosts[to], left[vms[to].id])), None)
            if other is None:
                return None
            vms[at], vms[other] = vms[other], vms[at]
        swapped.placed.append(replace(each, vms=vms))
        swapped.hosts.update(zip([vm.id for vm in vms], hosts, strict=True))
    return swapped


def _plan_zone(
    connection: Connection,
    configuration: Configuration,
    kinds: Sequence[AlikeVms],
    members: AffinityMembers,
    forbidden: frozenset[int],
) -> BatchPlan:
    """Plan the VMs of a zone owner by owner. Each owner's plan includes the claims of the plans before it."""
    made = BatchPlan()
    left: ZoneSnapshot | None = None
    placed: dict[int, Mapping[int, int]] = {}
    catalog = placement_catalog()
    account_ids = sorted({kind.need.owner.account_id for kind in kinds})
    for account_id in account_ids:
        of_owner = [kind for kind in kinds if kind.need.owner.account_id == account_id]
        snapshot, requests = zone_as_seen_by(
            connection,
            configuration,
            [(kind.need, len(kind.vms)) for kind in of_owner],
            seed=None,
            lock=False,
            beside=[kind.need for kind in kinds if kind.need.owner.account_id != account_id],
            known=left,
            members=members,
        )
        requests = [
            with_members(replace(request, avoid_host_ids=_avoided(kind, forbidden)), placed)
            for kind, request in zip(of_owner, requests, strict=True)
        ]
        left = snapshot
        try:
            plans = plan_batch(snapshot, requests, catalog).plans
        except PlannerNotInstalled as missing:
            made.hosts.update((vm.id, NoPlace(str(missing))) for kind in of_owner for vm in kind.vms)
            continue
        limits = dict(zip(snapshot.pools.id.tolist(), snapshot.pools.limit.tolist(), strict=True))
        for kind, request, plan in zip(of_owner, requests, plans, strict=True):
            made.hosts.update(_hosts(kind, plan))
            if plan.placed:
                planned = Planned(plan, request, limits, thresholds_of(snapshot, request, plan))
                made.placed.append(PlacedVms(kind.need, kind.vms[: plan.placed], planned))
            if account_id != account_ids[-1]:
                left = after(left, request, plan)
            add_members(request, plan, placed)
    return made


def _avoided(kind: AlikeVms, forbidden: frozenset[int]) -> frozenset[int]:
    return forbidden if kind.left_host_id is None else forbidden | {kind.left_host_id}


def _hosts(kind: AlikeVms, plan: Plan) -> dict[int, int | NoPlace]:
    hosts: list[int] = plan.host_ids.tolist()
    vm_ids = [vm.id for vm in kind.vms]
    found: dict[int, int | NoPlace] = dict(zip(vm_ids, hosts, strict=False))
    if len(hosts) < len(vm_ids):
        excluded = plan.limiting
        words = ("no host has capacity for it", in_words(excluded))
        no_place = NoPlace("; ".join(word for word in words if word), excluded)
        found |= dict.fromkeys(vm_ids[len(hosts) :], no_place)
    return found
