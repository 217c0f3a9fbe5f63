"""What the row of a deployment keeps: its plan, whether it is pinned, and what all its VMs share."""

from typing import Any

from bulkdeploy.domain.deployment import DeploySpec
from bulkdeploy.scheduling.place import Planned
from bulkdeploy.store.configuration.configuration import Configuration


def plan_record(planned: Planned | None) -> dict[str, Any]:
    """What the deployment's row keeps of a plan: columns by cluster id, and why hosts were ruled out."""
    if planned is None:
        return {"seed": 0, "capacity": 0, "excluded": {}, "clusters": [], "before": [], "room": [], "added": []}
    spread = planned.plan.spread
    return {
        "planner": planned.request.planner,
        "seed": planned.request.seed,
        "capacity": planned.plan.capacity,
        "excluded": dict(planned.plan.excluded),
        "clusters": spread.cluster_id.tolist(),
        "before": spread.before.tolist(),
        "room": spread.capacity.tolist(),
        "added": spread.added.tolist(),
    }


def is_pinned(configuration: Configuration, spec: DeploySpec) -> bool:
    """Pinned deployments are not tried elsewhere; a single one only if the setting says so."""
    if spec.request.pod_id is None and spec.request.cluster_id is None and spec.request.host_id is None:
        return False
    return spec.request.bulk or not configuration.flag("allow.deploy.vm.if.deploy.on.given.host.fails")


def shared_config(spec: DeploySpec) -> dict[str, Any]:
    """What all VMs of the call share, by internal ids; what was not given is left out."""
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
