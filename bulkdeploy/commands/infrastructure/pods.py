"""listPods, createPod, updatePod, deletePod."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.allocation_policy import ALLOCATION_POLICY
from bulkdeploy.commands.infrastructure.responses import POD_CAPACITY
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_ACCESS_GROUPS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, objects, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import IP_ADDRESS, NAME, NETMASK
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import ALLOCATION_POLICIES, AllocationState
from bulkdeploy.services.infrastructure import pods as pod_service
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.infrastructure import pods
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.live_rows import reader

POD = Response(
    "pod",
    (
        text("id", "the pod"),
        text("name", "the name of the pod"),
        text("zoneid", "the zone of the pod"),
        text("zonename", "the zone's name"),
        text("gateway", "the gateway of the management network of the pod"),
        text("netmask", "the netmask of the management network of the pod"),
        texts("startip", "the first address of each range of the pod"),
        texts("endip", "the last address of each range of the pod"),
        texts("forsystemvms", "0: the ranges of the pod are not reserved for system VMs"),
        texts("vlanid", "the VLAN of each range of the pod: vlan://untagged"),
        objects(
            "ipranges",
            "the ranges of the pod",
            (
                text("startip", "the first address"),
                text("endip", "the last address"),
                text("forsystemvms", "0: the range is not reserved for system VMs"),
                text("vlanid", "vlan://untagged"),
                text("gateway", "the gateway"),
                text("cidr", "the CIDR of the network that contains the range"),
            ),
        ),
        text("allocationstate", "Enabled, or Disabled: the pod gets no new VMs"),
        text(
            "allocpolicy",
            "whether the pod gets new VMs: preferred (normally), last_resort (only VMs that fit nowhere "
            "else) or unallocable (never)",
        ),
        POD_CAPACITY,
        HAS_ANNOTATIONS,
    ),
)


def list_pods(call: Call) -> Page:
    """Return the pods that match the filters."""
    return pods.list_pods(call.connection, call.arguments, paging(call))


def create_pod(call: Call) -> Mapping[str, Any]:
    """Create a pod, and return the pod."""
    (pod,) = pod_service.create_pods(call.connection, call.caller, [call.arguments])
    return _row(call, pod)


def update_pod(call: Call) -> Mapping[str, Any]:
    """Change a pod, and return the pod."""
    pod = call.arguments["id"]
    pod_service.update_pods(call.connection, call.caller, [(pod, call.arguments)])
    return _row(call, pod)


def delete_pod(call: Call) -> None:
    """Delete a pod that has no clusters and no address ranges."""
    pod_service.delete_pods(call.connection, call.caller, [call.arguments["id"]])


def _row(call: Call, pod: EntityRef) -> Mapping[str, Any]:
    return only_row(pods.list_pods(call.connection, {"id": pod}, ONE))


NETWORK = (
    ALLOCATION_POLICY,
    string(
        "gateway",
        "the gateway of the management network of the pod; the network must not overlap that of another pod",
        rule=IP_ADDRESS,
    ),
    string("netmask", "the netmask of the management network of the pod", rule=NETMASK),
    string("startip", "the first IP address of the range for system VMs", rule=IP_ADDRESS),
    string(
        "endip",
        "the last IP address of the range for system VMs; default: the last one of the management network",
        rule=IP_ADDRESS,
    ),
    string(
        "allocationstate",
        "Enabled, or Disabled: the pod gets no new VMs",
        choices=tuple(state.value for state in AllocationState),
    ),
)

CREATE = Command(
    name="createPod",
    description="Creates a pod in a zone",
    handler=create_pod,
    shape=Shape.OBJECT,
    response=POD,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        string("name", "the name, unique in the zone", required=True, rule=NAME),
        *NETWORK,
    ),
    unsupported={"storageaccessgroups": NO_ACCESS_GROUPS},
)

UPDATE = Command(
    name="updatePod",
    description="Changes a pod. A changed allocation state applies from the next deployment on.",
    handler=update_pod,
    shape=Shape.OBJECT,
    response=POD,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.POD, "the pod", required=True),
        string("name", "the new name, unique in the zone", rule=NAME),
        *NETWORK,
    ),
)

DELETE = Command(
    name="deletePod",
    description="Deletes a pod that has no clusters and no address ranges",
    handler=delete_pod,
    shape=Shape.SUCCESS,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(uuid("id", Entity.POD, "the pod", required=True),),
)

COMMANDS = (
    CREATE,
    UPDATE,
    DELETE,
    Command(
        name="listPods",
        description="Lists pods",
        handler=list_pods,
        shape=Shape.LIST,
        response=POD,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("id", Entity.POD, "only this pod"),
            string("name", "only pods of this name"),
            uuid("zoneid", Entity.ZONE, "only pods of this zone"),
            string(
                "allocationstate",
                "only pods in this state",
                choices=tuple(state.value for state in AllocationState),
            ),
            string("allocpolicy", "only pods with this allocation policy", choices=ALLOCATION_POLICIES),
            boolean("showcapacities", "whether the response includes the capacity of each pod"),
            *PAGING,
        ),
        unsupported={"storageaccessgroup": NO_ACCESS_GROUPS},
    ),
)

NOUNS = (
    Noun(
        section="pods",
        entity=Entity.POD,
        create=CREATE,
        create_many=pod_service.create_pods,
        update=UPDATE,
        update_many=pod_service.update_pods,
        read=reader(Entity.POD, pods.FIELDS),
        key=by("zoneid", "name"),
        parent="zoneid",
    ),
)
