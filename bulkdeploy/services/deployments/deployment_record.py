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
    """Return the plan in the form of the deployment's row: columns by cluster id, and why hosts were excluded.

    Of unlike VMs, a cluster's capacity is for those of the kind that it had most room for.
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
    """Return the joint effect of the plans of several kinds: each began where those before it ended."""
    facts = [np.concatenate(column) for column in zip(*(astuple(spread) for spread in spreads), strict=True)]
    cluster_id, pod_id, before, capacity, added = facts
    clusters, first, member = np.unique(cluster_id, return_index=True, return_inverse=True)
    least, most = np.full(len(clusters), np.iinfo(np.int64).max), np.zeros(len(clusters), dtype=np.int64)
    np.minimum.at(least, member, before)
    np.maximum.at(most, member, capacity)
    return Spread(clusters, pod_id[first], least, most, total(member, added, len(clusters)))


def list_config(each: DeployingCall) -> dict[str, Any]:
    """Return what the deployment's row keeps of the call's list: the entries of the VMs, and those that failed."""
    return {
        "entries": [each.named[number].entry for number in np.flatnonzero(each.kept).tolist()],
        "failed": list(each.failures()),
    }


def is_pinned(configuration: Configuration, spec: DeploySpec) -> bool:
    """Pinned deployments are not tried elsewhere; a single one only if the setting says so."""
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
