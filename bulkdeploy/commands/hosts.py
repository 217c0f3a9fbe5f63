"""listHosts, addHost, updateHost, deleteHost, reconnectHost (reference section 8.4)."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.host_response import HOST
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_ACCESS_GROUPS, NO_EXTENSIONS, NO_TAG_RULES
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import ExactlyOne, boolean, string, strings, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse, ResourceUnavailable
from bulkdeploy.domain.topology import AllocationState, HypervisorType
from bulkdeploy.services import hosts as host_service
from bulkdeploy.store import hosts
from bulkdeploy.store.listing import Page

DETAILS = ("all", "capacity", "events", "stats", "min")
WITH_CAPACITY = frozenset({"all", "capacity"})


def list_hosts(call: Call) -> Page:
    """Hosts, by place or all.

    Raises:
        InvalidParameter: an unknown word in ``details``.
    """
    details = call.arguments.get("details", ("all",))
    for word in details:
        if word.lower() not in DETAILS:
            raise InvalidParameter("details", word, f"it should be one of: {', '.join(DETAILS)}")
    if call.arguments.get("type", hosts.HOST_TYPE).lower() != hosts.HOST_TYPE.lower():
        return Page((), 0)
    with_capacity = any(word.lower() in WITH_CAPACITY for word in details)
    return hosts.list_hosts(call.connection, call.arguments, paging(call), with_capacity=with_capacity)


def add_host(call: Call) -> Page:
    """Add a host to a cluster."""
    return host_service.add_host(call.system, call.caller, call.arguments)


def update_host(call: Call) -> Mapping[str, Any]:
    """Change a host."""
    return host_service.update_host(call.system, call.caller, call.arguments["id"], call.arguments)


def delete_host(call: Call) -> None:
    """Delete a host without VMs."""
    host_service.delete_host(call.system, call.caller, call.arguments["id"], forced=call.flag("forced"))


def reconnect_host(call: Call) -> JobTicket:
    """Ask a host again what it has."""
    return host_service.reconnect_host(call.system, call.caller, call.arguments["id"])


ALLOCATION_STATES = tuple(state.value for state in AllocationState)
INFRASTRUCTURE_ADMINS = frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN})

ADD = Command(
    name="addHost",
    description="Adds a host to a cluster. What it has is what its hypervisor says; where the zone allows local "
    "storage, its own disks become a storage pool.",
    handler=add_host,
    shape=Shape.LIST,
    response=HOST,
    roles=INFRASTRUCTURE_ADMINS,
    changes_state=True,
    errors=(ResourceUnavailable,),
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        uuid("podid", Entity.POD, "the pod", required=True),
        uuid("clusterid", Entity.CLUSTER, "the cluster"),
        string("clustername", "the cluster, by its name in the pod"),
        string(
            "hypervisor",
            "its hypervisor, the cluster's",
            required=True,
            choices=tuple(kind.value for kind in HypervisorType),
        ),
        string(
            "url",
            "where its driver reaches it. A simulated host is what its url says: "
            "http://rack1/host7?cpu_cores=64&cpu_mhz=2500&memory_mib=262144&local_disk_gib=500",
            required=True,
        ),
        string("username", "whom its driver logs in as"),
        string("password", "that user's password; never kept"),
        strings("hosttags", "its tags"),
        string("allocationstate", "Enabled, or Disabled: no new VMs; default Enabled", choices=ALLOCATION_STATES),
    ),
    rules=(ExactlyOne(("clusterid", "clustername")),),
    unsupported={"externaldetails": NO_EXTENSIONS, "storageaccessgroups": NO_ACCESS_GROUPS},
)

UPDATE = Command(
    name="updateHost",
    description="Changes a host. Whether it is enabled is seen by the next deployment.",
    handler=update_host,
    shape=Shape.OBJECT,
    response=HOST,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.HOST, "the host", required=True),
        string("name", "its new name, unique in the zone"),
        string("allocationstate", "Enable, or Disable: no new VMs", choices=("Enable", "Disable")),
        strings("hosttags", "its tags, instead of those it has; empty: none", may_be_empty=True),
        string("annotation", "a remark; empty: none"),
    ),
    unsupported={
        "url": "it is for secondary storage",
        "oscategoryid": "hosts have no preferred operating system",
        "istagarule": NO_TAG_RULES,
        "externaldetails": NO_EXTENSIONS,
        "cleanupexternaldetails": NO_EXTENSIONS,
    },
)

DELETE = Command(
    name="deleteHost",
    description="Deletes a host that no VM is on, and the storage pools of its own disks",
    handler=delete_host,
    shape=Shape.SUCCESS,
    roles=INFRASTRUCTURE_ADMINS,
    changes_state=True,
    errors=(ResourceInUse,),
    parameters=(
        uuid("id", Entity.HOST, "the host", required=True),
        boolean("forced", "delete it though it is not in maintenance; never with VMs on it"),
    ),
    unsupported={"forcedestroylocalstorage": "volumes on the host's disks are not destroyed with it"},
)

RECONNECT = Command(
    name="reconnectHost",
    description="Reaches a host again and takes over what it says it has now",
    handler=reconnect_host,
    shape=Shape.JOB,
    response=HOST,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(ResourceUnavailable,),
    parameters=(uuid("id", Entity.HOST, "the host", required=True),),
)

COMMANDS = (
    ADD,
    UPDATE,
    DELETE,
    RECONNECT,
    Command(
        name="listHosts",
        description="Lists hosts and what is promised of each",
        handler=list_hosts,
        shape=Shape.LIST,
        response=HOST,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("id", Entity.HOST, "only this host"),
            string("name", "only hosts of this name"),
            uuid("zoneid", Entity.ZONE, "only hosts of this zone"),
            uuid("podid", Entity.POD, "only hosts of this pod"),
            uuid("clusterid", Entity.CLUSTER, "only hosts of this cluster"),
            string("hypervisor", "only hosts of this hypervisor"),
            string("state", "only hosts in this state, such as Up"),
            string("resourcestate", "only hosts in this resource state, such as Enabled"),
            string("type", "only hosts of this type; hosts that run VMs are of type Routing"),
            strings("details", f"what to say of each host: {', '.join(DETAILS)}; default all"),
            *PAGING,
        ),
    ),
)
