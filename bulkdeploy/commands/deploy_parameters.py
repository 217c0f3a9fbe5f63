"""Parameters that both deploy commands declare, and how a bound call becomes a ``DeployAsk``."""

import hashlib
from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import Exclusive, Parameter, Rule, WireType, string, strings, uuid, uuids
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.deployment import DeployAsk
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.topology import HypervisorType
from bulkdeploy.scheduling.catalog import planners

NOT_FINGERPRINTED = frozenset({"requesttoken", "injectedjobid"})

SHARED: tuple[Parameter, ...] = (
    uuid("zoneid", Entity.ZONE, "the zone to deploy in", required=True),
    uuid("serviceofferingid", Entity.SERVICE_OFFERING, "the service offering of each VM", required=True),
    Parameter(
        "templateid",
        WireType.UUID,
        "the template or ISO that each VM is made from",
        required=True,
        entity=(Entity.TEMPLATE, Entity.ISO),
    ),
    string("account", "the account that will own the VMs; domainid says whose account it is"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account"),
    uuid("projectid", Entity.PROJECT, "the project that will own the VMs, instead of an account"),
    string(
        "hypervisor",
        "the hypervisor to deploy on; needed where the template names none",
        choices=tuple(kind.value for kind in HypervisorType),
    ),
    string("keypair", "the owner's SSH key pair to log in with"),
    uuids("networkids", Entity.NETWORK, "the networks of each VM, the default one first; Advanced zones only"),
    uuid(
        "diskofferingid",
        Entity.DISK_OFFERING,
        "the disk offering of the root disk where an ISO is given, else of a data disk",
    ),
    uuids(
        "securitygroupids",
        Entity.SECURITY_GROUP,
        "the security groups of each VM, only where the zone has them; not with securitygroupnames",
    ),
    strings("securitygroupnames", "the security groups by name; not with securitygroupids"),
    uuids("affinitygroupids", Entity.AFFINITY_GROUP, "the affinity groups of each VM; not with affinitygroupnames"),
    strings("affinitygroupnames", "the affinity groups by name; not with affinitygroupids"),
)

SHARED_RULES: tuple[Rule, ...] = (
    Exclusive(("securitygroupids", "securitygroupnames")),
    Exclusive(("affinitygroupids", "affinitygroupnames")),
)


def deployment_planner(description: str) -> Parameter:
    """The planner that a call names; from others than root admins it is ignored (reference section 5.1)."""
    return Parameter("deploymentplanner", WireType.STRING, description, choices=planners(), roles=ROOT_ADMIN_ONLY)


def require_root_admin(call: Call, *names: str) -> None:
    """Only root admins say where VMs go, and see what the infrastructure holds (reference section 5.1).

    Raises:
        PermissionDenied: another caller gave one of these parameters.
    """
    for name in names:
        if name in call.arguments and not call.caller.is_root_admin:
            raise PermissionDenied(f"Parameter {name} can only be specified by a Root Admin, permission denied")


def deploy_ask(call: Call, *, bulk: bool, count: int, **more: Any) -> DeployAsk:
    """What the call asks for, ids resolved; ``more`` is what only one of the commands declares."""
    arguments = call.arguments
    return DeployAsk(
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
        pod_id=call.ref_id("podid"),
        cluster_id=call.ref_id("clusterid"),
        network_ids=_ids(arguments, "networkids") or (),
        security_group_ids=_ids(arguments, "securitygroupids") or None,
        security_group_names=arguments.get("securitygroupnames") or None,
        affinity_group_ids=_ids(arguments, "affinitygroupids") or None,
        affinity_group_names=arguments.get("affinitygroupnames") or None,
        user_data=call.text("userdata"),
        start_vm=call.flag("startvm", default=True),
        fingerprint=_fingerprint(arguments),
        uuids=_uuids(arguments),
        **more,
    )


def _ids(arguments: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    refs: tuple[EntityRef, ...] | None = arguments.get(name)
    return None if refs is None else tuple(ref.id for ref in refs)


def _uuids(arguments: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """By parameter and internal id: the uuids of all entities that the call names."""
    found: dict[str, dict[int, str]] = {}
    for name, value in arguments.items():
        refs = value if isinstance(value, tuple) else (value,)
        found[name] = {ref.id: str(ref.uuid) for ref in refs if isinstance(ref, EntityRef)}
    return found


def _fingerprint(arguments: Mapping[str, Any]) -> bytes:
    """What tells one deploy call from another: every parameter but the token itself.

    Entities count by their ids: one that was renamed or deleted meanwhile is still the one that the call named.
    """
    parts = [f"{name}={_plain(arguments[name])!r}" for name in sorted(arguments) if name not in NOT_FINGERPRINTED]
    return hashlib.sha256("\n".join(parts).encode()).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    return (value.entity.name, value.id) if isinstance(value, EntityRef) else value
