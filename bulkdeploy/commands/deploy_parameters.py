"""Parameters that both deploy commands declare, and how a bound call becomes a ``DeployAsk``."""

import hashlib
from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import Exclusive, Parameter, Rule, WireType, string, strings, uuid, uuids
from bulkdeploy.domain.deployment import DeployAsk
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.topology import HypervisorType

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
        security_group_ids=_ids(arguments, "securitygroupids"),
        security_group_names=arguments.get("securitygroupnames"),
        affinity_group_ids=_ids(arguments, "affinitygroupids"),
        affinity_group_names=arguments.get("affinitygroupnames"),
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
    """What tells one deploy call from another: every parameter but the token itself."""
    parts = [f"{name}={arguments[name]!r}" for name in sorted(arguments) if name not in NOT_FINGERPRINTED]
    return hashlib.sha256("\n".join(parts).encode()).digest()
