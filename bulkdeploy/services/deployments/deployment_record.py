"""The row of a deployment: its plan, whether it is pinned, and the properties that all its VMs share."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from bulkdeploy.domain.deployments.deployment import DeploySpec
from bulkdeploy.placement.model import Spread, total
from bulkdeploy.scheduling.place import Planned
from bulkdeploy.services.deployments.deploying_calls import DeployingCall
from bulkdeploy.store.configuration.configurations import Configuration


def plan_record(planned: Sequence[Planned] | None) -> dict[str, Any]:
    """Return the plan in the format of the deployment's row: one column per fact, ordered by cluster id.

    The record also contains why hosts were excluded. If the VMs are of several kinds, the capacity of a cluster is
    its capacity for the kind of which it can run most.
    """
    if planned is None:
        return {"seed": 0, "capacity": 0, "excluded": {}, "clusters": [], "before": [], "room": [], "added": []}
    first = planned[0]
    spread = first.plan.spread if len(planned) == 1 else _of_kinds([each.plan.spread for each in planned])
    return {
        "planner": first.request.planner,
        "allocator": first.allocator,
        "seed": first.request.seed,
        "capacity": max(each.plan.capacity for each in planned),
        "excluded": dict(first.plan.limiting),
        "clusters": spread.cluster_id.tolist(),
        "before": spread.before.tolist(),
        "room": spread.capacity.tolist(),
        "added": spread.added.tolist(),
    }


def _of_kinds(spreads: Sequence[Spread]) -> Spread:
    """Merge the spreads of several kinds of VMs into one.

    The plan of each kind includes the VMs of the kinds before it.
    """
    facts = [np.concatenate(column) for column in zip(*(astuple(spread) for spread in spreads), strict=True)]
    cluster_id, pod_id, before, capacity, added = facts
    clusters, first, member = np.unique(cluster_id, return_index=True, return_inverse=True)
    least, most = np.full(len(clusters), np.iinfo(np.int64).max), np.zeros(len(clusters), dtype=np.int64)
    np.minimum.at(least, member, before)
    np.maximum.at(most, member, capacity)
    return Spread(clusters, pod_id[first], least, most, total(member, added, len(clusters)))


def list_config(each: DeployingCall) -> dict[str, Any]:
    """Return the data of the call's list that the deployment's row stores.

    This is the entry number of each VM, and the entries that failed.
    """
    return {
        "entries": [each.named[number].entry for number in np.flatnonzero(each.kept).tolist()],
        "failed": list(each.failures()),
    }


def is_pinned(configuration: Configuration, spec: DeploySpec) -> bool:
    """Return whether a deployment may only use the part of the zone that its request names.

    A bulk deployment with a pod, cluster or host is always restricted to it. A single deployment is restricted
    unless ``allow.deploy.vm.if.deploy.on.given.host.fails`` is true.
    """
    if spec.request.pod_id is None and spec.request.cluster_id is None and spec.request.host_id is None:
        return False
    return spec.request.bulk or not configuration.flag("allow.deploy.vm.if.deploy.on.given.host.fails")


def shared_config(spec: DeploySpec) -> dict[str, Any]:
    """Return the properties that all VMs of the call share, by internal ids.

    Parameters that were not given are left out.
    """
    config: dict[str, Any] = {
        "hypervisor": spec.hypervisor,
        "account_id": spec.owner.account_id,
        "startvm": spec.request.start_vm,
        "network_ids": [network.id for network in spec.networks],
        "security_group_ids": list(spec.security_group_ids),
        "affinity_group_ids": [group.id for group in spec.affinity_groups],
        "keypairs": list(spec.request.keypairs),
        "user_data": spec.user_data,
        "user_data_details": dict(spec.request.user_data_details) or None,
        "pod_id": spec.request.pod_id,
        "cluster_id": spec.request.cluster_id,
        "host_id": spec.request.host_id,
        "planner": spec.request.planner,
        "disk_offering_id": spec.request.disk_offering_id,
    }
    return {key: value for key, value in config.items() if value not in (None, [])}
