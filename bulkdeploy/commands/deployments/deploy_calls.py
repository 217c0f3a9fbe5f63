"""Conversion of deploy calls to ``DeployRequest``, and plans as responses (one file: shared by both commands)."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deployments.recorded_calls import recorded_call
from bulkdeploy.commands.parameters.custom_ids import CUSTOM_ID, JOB_ID
from bulkdeploy.commands.parameters.disk_parameters import data_disks, merge_details, read_root_disk_gib
from bulkdeploy.commands.parameters.lease_parameters import lease_of
from bulkdeploy.commands.parameters.plan_indexes import PLACED, fingerprints, inventory_age
from bulkdeploy.commands.placement_fields import EXCLUDED, HOSTS
from bulkdeploy.commands.unsupported import NO_IPV6
from bulkdeploy.commands.virtual_machines.key_pair_parameters import key_pair_names
from bulkdeploy.declare.command import Instead, Sharing
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.deployments.deployment import DeployCall, DeployRequest, NamedNic, Variant
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.virtual_machines.firmware import BootMode, BootType
from bulkdeploy.services.deployments.bulk_deployments import answered_hosts, host_rows, spread_rows
from bulkdeploy.services.deployments.deploy import DryRun, deploy
from bulkdeploy.store.deployments.deployments import DeployedVms
from bulkdeploy.telemetry.request_id import current_request
from bulkdeploy.telemetry.tracing import current_traceparent

REPEATED = re.compile(r"\Auserdatadetails\[[0-9]+\]\.")
NICS = "iptonetworklist"

FLAGS = {"displayvm": "display_vm", "dynamicscalingenabled": "dynamic_scaling"}
"""Parameters that are flags with default true, and their columns."""

SPREAD_FIELDS = (
    text("clusterid", "the cluster"),
    text("clustername", "the cluster's name"),
    text("podid", "the cluster's pod"),
    text("podname", "the pod's name"),
    number("before", "the number of VMs that the owner has in the cluster before the call"),
    number("added", "the number of VMs of this call that are planned in the cluster"),
    number("after", "the sum of before and added"),
    number("capacity", "the number of such VMs that fitted into the cluster before the call"),
    number(
        "succeeded",
        "the number of VMs of the deployment in the cluster whose jobs succeeded; only if the deployment is "
        "requested by id",
    ),
)

PLAN_FIELDS = (
    text(
        "planner",
        "the deployment planner that placed the VMs; listDeploymentPlanners describes it",
        ROOT_ADMIN_ONLY,
    ),
    text(
        "allocator",
        "the program that selected the hosts: builtin (the deployment planner itself) or a program from the "
        "setting placement.allocators.allocate",
        ROOT_ADMIN_ONLY,
    ),
    number(
        "skew",
        "the planned imbalance: the largest difference between the numbers of the owner's VMs in clusters that "
        "had capacity for such VMs",
        ROOT_ADMIN_ONLY,
    ),
    objects(
        "clusters",
        "the planned numbers of VMs for each cluster that has capacity for such VMs",
        SPREAD_FIELDS,
        ROOT_ADMIN_ONLY,
    ),
    EXCLUDED,
    HOSTS,
)
"""Response fields of plans. Only root admins see fields of the infrastructure, as for single deployments."""

PLAN = Response(
    "plan",
    (
        *PLACED,
        number("count", "the number of VMs that the call requests"),
        number("fits", "the number of VMs that would be deployed"),
        number("capacity", "the total number of such VMs that fit", ROOT_ADMIN_ONLY),
        *PLAN_FIELDS,
    ),
)


MOST_SHARING = 500
"""The largest number of VMs of a call that shares a transaction. Larger calls would delay the others."""
ONLY_ALONE = (
    *("requesttoken", "dryrun", "minimumcount", "planindex", CUSTOM_ID, JOB_ID),
    *("ipaddress", "macaddress", NICS),
)
"""Parameters of calls that are deployed in a transaction of their own.

Such calls may have to wait for another call, use savepoints, or request names or addresses that another call may
get.
"""
PINS = ("podid", "clusterid", "hostid")


def deploying(request: Callable[[Call], DeployCall], answer: Callable[[Call, DeployedVms], Any]) -> Sharing:
    """Return the declaration of a command whose calls can be deployed together in one transaction.

    Bulk calls are combined with bulk calls and single calls with single calls, if they are for the same zone or are
    pinned to the same part of it. Calls for different parts do not wait for each other. ``request`` converts a
    call, ``answer`` creates the response for new VMs. The response to a dry run is its plan.
    """

    def answer_or_plan(call: Call, result: DeployedVms | DryRun) -> Any:
        return Instead(PLAN, plan_row(call, result)) if isinstance(result, DryRun) else answer(call, result)

    return Sharing(_sharing, request, deploy, answer_or_plan)


def _sharing(call: Call) -> Hashable | None:
    arguments = call.arguments
    count = arguments.get("virtualmachinecount")
    if any(name in arguments for name in ONLY_ALONE) or (count or 1) > MOST_SHARING:
        return None
    return arguments["zoneid"].id, count is None, *(call.ref_id(name) for name in PINS)


def deploy_call(call: Call, *, bulk: bool, count: int, **more: Any) -> DeployCall:
    """Convert an API call to a deploy call.

    ``more`` contains the parameters that only one command has.

    Raises:
        PermissionDenied: a caller who is not a root admin names a host, pod or cluster.
    """
    require_root_admin(call, "hostid", "podid", "clusterid", "hostids")
    return deploy_call_of(call, [deploy_request(call, bulk=bulk, count=count, **more)])


def deploy_call_of(
    call: Call, requests: Sequence[DeployRequest], *, listed: bool = False, partial: bool = False
) -> DeployCall:
    """Return these requests as one deploy call.

    The call's jobs are recorded with the id and the trace of the API request of the current thread.

    Raises:
        InvalidCombination: as ``recorded_call``.
    """
    return DeployCall(
        caller=call.caller,
        requests=tuple(requests),
        listed=listed,
        partial=partial,
        request_id=current_request(),
        traceparent=current_traceparent(),
        recorded=recorded_call(call),
    )


def require_root_admin(call: Call, *names: str) -> None:
    """Reject these parameters unless the caller is a root admin.

    Only root admins choose places and see the infrastructure (cloudstack-protocol.md 5.1).

    Raises:
        PermissionDenied: another caller gave one of these parameters.
    """
    for name in names:
        if name in call.arguments and not call.caller.is_root_admin:
            raise PermissionDenied(f"Parameter {name} can only be specified by a Root Admin, permission denied")


def host_ids(call: Call) -> tuple[int, ...]:
    """Return the internal ids of the hosts in ``hostids``."""
    return _ids(call.arguments, "hostids") or ()


def named_nics(call: Call) -> tuple[NamedNic, ...]:
    """Return the NICs of ``iptonetworklist``, or a default NIC with the given ``ipaddress`` and ``macaddress``.

    Raises:
        InvalidParameter: an entry names no network, or contains an IPv6 address.
    """
    ip, mac = call.text("ipaddress"), call.text("macaddress")
    if ip is not None or mac is not None:
        return (NamedNic(None, ip, mac),)
    return tuple(_named_nic(entry) for entry in call.arguments.get(NICS, ()))


def _named_nic(entry: Mapping[str, Any]) -> NamedNic:
    if "networkid" not in entry:
        raise InvalidParameter(NICS, entry.get("ip"), "each entry must name a network by networkid")
    if "ipv6" in entry:
        raise InvalidParameter(NICS, entry["ipv6"], NO_IPV6)
    return NamedNic(entry["networkid"].id, entry.get("ip"), entry.get("mac"))


def plan_row(call: Call, result: DryRun) -> dict[str, Any]:
    """Return the API response of a dry run."""
    return {
        "count": result.requested,
        "fits": result.fits,
        "capacity": result.plan["capacity"],
        "index": result.index,
        "inventoryage": inventory_age(call.connection),
        **({} if call.flag("summary") else {"placedhosts": host_rows(call.connection, result.parts)}),
        **spread_rows(call.connection, [result.plan])[0],
        "hosts": answered_hosts(call.connection, result.hosts),
    }


def deploy_request(call: Call, *, bulk: bool, count: int, **more: Any) -> DeployRequest:
    """Return the request of a deploy call with resolved ids. ``more`` contains parameters of some deploy calls."""
    arguments = call.arguments
    return DeployRequest(
        bulk=bulk,
        count=count,
        method=call.method,
        zone_id=arguments["zoneid"].id,
        service_offering_id=arguments["serviceofferingid"].id,
        template_id=arguments["templateid"].id,
        account=call.text("account"),
        domain_id=call.ref_id("domainid"),
        project_id=call.ref_id("projectid"),
        hypervisor=call.text("hypervisor"),
        disk_offering_id=call.ref_id("diskofferingid"),
        disk_size_gib=arguments.get("size"),
        root_disk_gib=read_root_disk_gib(arguments),
        root_disk_offering_id=call.ref_id("overridediskofferingid"),
        data_disks=data_disks(arguments),
        pod_id=call.ref_id("podid"),
        cluster_id=call.ref_id("clusterid"),
        network_ids=_network_ids(arguments),
        security_group_ids=_ids(arguments, "securitygroupids") or None,
        security_group_names=arguments.get("securitygroupnames") or None,
        affinity_group_ids=_ids(arguments, "affinitygroupids") or None,
        affinity_group_names=arguments.get("affinitygroupnames") or None,
        **_key_pairs(call),
        user_data=call.text("userdata"),
        registered_user_data=call.ref("userdataid"),
        user_data_details=_variables(arguments),
        group=call.text("group"),
        details=merge_details(arguments, "details"),
        **_of_image(call),
        flags={column: False for name, column in FLAGS.items() if not call.flag(name, default=True)},
        planner=call.text("deploymentplanner"),
        **lease_of(arguments),
        start_vm=call.flag("startvm", default=True),
        **_dry_run(call),
        plan_index=arguments.get("planindex"),
        uuids=_uuids(arguments),
        **(more if "fingerprint" in more else {**fingerprints(arguments), **more}),
    )


def _dry_run(call: Call) -> dict[str, Any]:
    """Return whether the call is a dry run, and the hosts about which it requests a report."""
    return {"dry_run": call.flag("dryrun"), "explain_host_ids": host_ids(call)}


def _key_pairs(call: Call) -> dict[str, Any]:
    """Return the names of the requested key pairs, and the parameter that contains them."""
    parameter = "keypairs" if "keypairs" in call.arguments else "keypair"
    return {"keypairs": key_pair_names(call), "keypairs_parameter": parameter}


def _of_image(call: Call) -> dict[str, Any]:
    """Return the fields of a request that describe the template's variant and the guests' boot mode."""
    kind, mode = call.text("boottype"), call.text("bootmode")
    return {
        "variant": Variant(call.text("templatevariant"), is_forced=call.flag("forcetemplatevariant")),
        "boot_type": None if kind is None else BootType(kind),
        "boot_mode": None if mode is None else BootMode(mode),
    }


def _network_ids(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    return _ids(arguments, "networkids") or tuple(entry["networkid"].id for entry in arguments.get(NICS, ()))


def _variables(arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the values of ``userdatadetails`` by the names of the variables.

    CloudStack's format and the pairs of key and value of cloudstack-go are both accepted. Terraform's provider
    repeats the parameter in the variable's name.
    """
    entries = [
        {entry["key"]: entry["value"]} if entry.keys() == {"key", "value"} else entry
        for entry in arguments.get("userdatadetails", ())
    ]
    return {REPEATED.sub("", name): value for entry in entries for name, value in entry.items()}


def _ids(arguments: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    refs: tuple[EntityRef, ...] | None = arguments.get(name)
    return None if refs is None else tuple(ref.id for ref in refs)


def _uuids(arguments: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """Return the uuids of all entities that the call names, by parameter and internal id."""
    return {name: {ref.id: str(ref.uuid) for ref in _refs(value)} for name, value in arguments.items()}


def _refs(value: Any) -> list[EntityRef]:
    if isinstance(value, EntityRef):
        return [value]
    parts = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else ()
    return [ref for part in parts for ref in _refs(part)]
