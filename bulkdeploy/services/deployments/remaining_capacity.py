"""The number of further VMs that a bulk call could deploy, their hosts, and what limits their number.

Nothing is claimed. Every rule of the bulk call is checked in the same way: names of objects, limits, addresses and
placement.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import DeployCall, DeployRequest, DeploySpec
from bulkdeploy.domain.errors import InvalidCombination, ResourceLimitExceeded
from bulkdeploy.domain.networks.guest_networks import GuestType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.host_loss import HeldVms
from bulkdeploy.placement.model import PlacementRequest, ZoneSnapshot
from bulkdeploy.placement.remaining_capacity import MEMORY_STEP_MIB, FillUpPlan, fill_up, smaller
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.held_vms import held_vms
from bulkdeploy.scheduling.place import zone_as_seen
from bulkdeploy.scheduling.reasons import excluded_rows
from bulkdeploy.services.deployments.deployment_checks import KnownSpecs, check_deployments
from bulkdeploy.services.deployments.stages.plans import placement_need
from bulkdeploy.store.accounts.resource_counts import check_limits, most_within_limits
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.deployments.deployments import plan_hosts
from bulkdeploy.store.ledger.addresses import free_addresses, missing_addresses

MOST_VMS = 10_000_000
"""More than anybody has room for."""


@dataclass(frozen=True, slots=True)
class _End:
    """A reason other than a placement rule that prevents one more VM."""

    reason: str
    text: str
    remedy: str


def calculate_capacity(
    connection: Connection, caller: Caller, request: DeployRequest, *, tiered: bool, n1: bool
) -> dict[str, Any]:
    """Return how many more VMs like this the owner could deploy with one call.

    The result has the fields of the command ``calculateCapacity``.

    Args:
        connection: has an open transaction.
        caller: the caller.
        request: the request of a bulk call; its number of VMs is ignored.
        tiered: whether to continue with smaller VMs, down to the minimum of the offering, when no more VMs fit.
        n1: whether to reserve capacity for the failure of any one host.

    Raises:
        ParameterError, PermissionDenied, OwnerDisabled: the bulk call would raise the same error.
        InvalidCombination: ``tiered`` is given, and the offering has a fixed size.
        PlannerNotInstalled: the offering or the call names a planner that is not installed.
    """
    configuration = read_configuration(connection)
    savepoint = connection.begin_nested()  # the savepoint removes the network that a first deployment creates
    (spec,) = check_deployments(connection, configuration, DeployCall(caller, (request,)), KnownSpecs())
    if tiered and not spec.offering.is_custom:
        raise InvalidCombination(
            ("tiered", "serviceofferingid"),
            f"tiered must be given with a custom offering: VMs of {spec.offering.name} have one size",
        )
    need = placement_need(configuration, spec)
    snapshot, wanted = zone_as_seen(connection, configuration, need, count=0, seed=None, lock=False)
    held = held_vms(connection, need.zone_id) if n1 else None
    sizes = _Sizes(connection, spec, placement_catalog())
    sizes.fill(snapshot, wanted, held, tiered=tiered)
    answer = _answer(connection, snapshot, sizes)
    savepoint.rollback()
    return answer


class _Sizes:
    """The VM sizes with which the remaining capacity is filled, one size after the other.

    Resource limits and free addresses are respected.
    """

    def __init__(self, connection: Connection, spec: DeploySpec, catalog: PlacementCatalog) -> None:
        self._connection, self._spec, self._catalog = connection, spec, catalog
        self._free = {
            network.id: free_addresses(connection, network.id)
            for network in spec.networks
            if network.guest_type != GuestType.L2
        }
        self._amounts = ResourceAmounts()
        self._pods: list[int] = []
        self.filled: list[FillUpPlan] = []
        self.end: _End | None = None

    def fill(
        self, snapshot: ZoneSnapshot, request: PlacementRequest, held: HeldVms | None, *, tiered: bool
    ) -> None:
        """Fill the capacity with VMs of the requested size. If ``tiered`` is true, continue with smaller sizes."""
        least_cores = self._spec.offering.min_cpu_number or 1
        least_memory = self._spec.offering.min_memory_mib or MEMORY_STEP_MIB
        wanted: PlacementRequest | None = request
        while wanted is not None:
            filled = self._fill_one(snapshot, wanted, held)
            self.filled.append(filled)
            if not tiered or self.end is not None:
                break
            snapshot, held = filled.left, filled.held
            wanted = smaller(filled, self._catalog, least_cores=least_cores, least_memory_mib=least_memory)

    def _fill_one(self, snapshot: ZoneSnapshot, request: PlacementRequest, held: HeldVms | None) -> FillUpPlan:
        spec = replace(self._spec, cpu_number=request.cpu_number, memory_mib=request.memory_mib)
        each = spec.per_vm
        within = most = most_within_limits(self._connection, spec.owner, each, MOST_VMS, self._amounts)
        while True:  # ends: each turn asks for fewer
            filled = fill_up(snapshot, request, self._catalog, most=most, held=held)
            pods = self._pods + filled.plan.pod_ids.tolist()
            missing = max((missing_addresses(free, pods) for free in self._free.values()), default=0)
            if not missing:
                break
            most = filled.plan.placed - missing
            self.end = _End(
                "addresses", "the networks have no more free addresses", "add ranges with createVlanIpRange"
            )
        self._pods = pods
        self._amounts = self._amounts.plus(each.times(filled.plan.placed))
        if filled.plan.placed == within and not filled.ended_by:
            self.end = self._limit(each)
        return filled

    def _limit(self, each: ResourceAmounts) -> _End:
        """Return the resource limit that one more VM would exceed."""
        try:
            check_limits(self._connection, self._spec.owner, self._amounts.plus(each))
        except ResourceLimitExceeded as error:
            return _End("resource_limit", str(error), "raise the limit with updateResourceLimit")
        return _End("resource_limit", "no more VMs are counted", "")


def _answer(connection: Connection, before: ZoneSnapshot, sizes: _Sizes) -> dict[str, Any]:
    filled, last = sizes.filled, sizes.filled[-1]
    rows = excluded_rows(last.ended_by)
    end: dict[str, Any] = {}
    if sizes.end is not None:
        end = {"reason": sizes.end.reason, "text": sizes.end.text, "remedy": sizes.end.remedy}
    elif rows:
        end = {name: rows[0][name] for name in ("reason", "text", "remedy")}
    lost = last.lost_host_id
    host_ids = np.concatenate([each.plan.host_ids for each in filled])
    names = plan_hosts(connection, [*np.unique(host_ids).tolist(), *([] if lost is None else [lost])])
    return {
        "count": len(host_ids),
        **end,
        **({} if lost is None else {"losthostid": names[lost]["hostid"], "losthostname": names[lost]["hostname"]}),
        "excluded": rows,
        "sizes": [_size(each) for each in filled if each.plan.placed],
        "hosts": [{**names[host_id], "count": count} for host_id, count in _in_turn(host_ids.tolist())],
        "before": [_usage(before)],
        "after": [_usage(last.left)],
    }


def _in_turn(host_ids: Sequence[int]) -> list[tuple[int, int]]:
    """Count the VMs of each host.

    Return pairs of host and number in the order in which the hosts got their first VM.
    """
    counts: dict[int, int] = {}
    for host_id in host_ids:
        counts[host_id] = counts.get(host_id, 0) + 1
    return list(counts.items())


def _size(filled: FillUpPlan) -> dict[str, int]:
    request = filled.request
    return {
        "cpunumber": request.cpu_number,
        "cpuspeed": request.cpu_mhz,
        "memory": request.memory_mib,
        "disksize": sum(disk.size_bytes for disk in request.disks),
        "count": filled.plan.placed,
    }


def _usage(zone: ZoneSnapshot) -> dict[str, int]:
    """Return the total and the allocated amounts of a zone.

    Hosts that are up and enabled, and pools that are up, are counted.
    """
    hosts, pools, use = zone.hosts, zone.pools, zone.cluster_use
    live = hosts.up & hosts.enabled
    free = np.where(live, hosts.memory_limit - hosts.memory_used, 0)
    return {
        "hosts": int(live.sum()),
        "virtualmachines": int(hosts.vms_used[live].sum()),
        "cores": int(hosts.cores[live].sum()),
        "cputotal": int(use.cpu_limit.sum()),
        "cpuused": int(use.cpu_used.sum()),
        "memorytotal": int(use.memory_limit.sum()),
        "memoryused": int(use.memory_used.sum()),
        "memoryfreeonhost": int(free.max(initial=0)),
        "storagetotal": int(pools.limit[pools.up].sum()),
        "storageused": int(pools.allocated[pools.up].sum()),
    }
