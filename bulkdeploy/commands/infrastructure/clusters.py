"""listClusters, addCluster, updateCluster, deleteCluster."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.constant_fields import OF_CLUSTERS
from bulkdeploy.commands.infrastructure.allocation_policy import ALLOCATION_POLICY
from bulkdeploy.commands.infrastructure.responses import CLUSTER_CAPACITY
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_ACCESS_GROUPS, NO_EXTENSIONS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import ALLOCATION_POLICIES, AllocationState, HypervisorType
from bulkdeploy.services.infrastructure import clusters as cluster_service
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.infrastructure import clusters
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.live_rows import reader

CLUSTER = Response(
    "cluster",
    (
        text("id", "the cluster"),
        text("name", "the name of the cluster"),
        text("podid", "the pod of the cluster"),
        text("podname", "the pod's name"),
        text("zoneid", "the zone of the cluster"),
        text("zonename", "the zone's name"),
        text("hypervisortype", "the hypervisor of the cluster's hosts"),
        text("clustertype", "the type of the cluster: CloudManaged or ExternalManaged"),
        text("managedstate", "Managed, or Unmanaged: the cluster gets no new VMs"),
        text("allocationstate", "Enabled, or Disabled: the cluster gets no new VMs"),
        text(
            "allocpolicy",
            "whether the cluster gets new VMs: preferred (normally), last_resort (only VMs that fit nowhere "
            "else) or unallocable (never)",
        ),
        text("cpuovercommitratio", "the CPU over-commit factor: how many times the physical CPU may be allocated"),
        text(
            "memoryovercommitratio",
            "the memory over-commit factor: how many times the physical memory may be allocated",
        ),
        CLUSTER_CAPACITY,
        *OF_CLUSTERS,
        HAS_ANNOTATIONS,
    ),
)


def list_clusters(call: Call) -> Page:
    """Return the clusters that match the filters."""
    return clusters.list_clusters(call.connection, call.arguments, paging(call))


def add_cluster(call: Call) -> Page:
    """Create a cluster, and return the cluster as a list of one row."""
    (cluster,) = cluster_service.add_clusters(call.connection, call.caller, [call.arguments])
    return _page(call, cluster)


def update_cluster(call: Call) -> Mapping[str, Any]:
    """Change a cluster, and return the cluster."""
    cluster = call.arguments["id"]
    cluster_service.update_clusters(call.connection, call.caller, [(cluster, call.arguments)])
    return only_row(_page(call, cluster))


def delete_cluster(call: Call) -> None:
    """Delete a cluster without hosts and storage pools."""
    cluster_service.delete_clusters(call.connection, call.caller, [call.arguments["id"]])


def _page(call: Call, cluster: EntityRef) -> Page:
    return clusters.list_clusters(call.connection, {"id": cluster}, ONE)


CLUSTER_TYPES = ("CloudManaged", "ExternalManaged")
ALLOCATION_STATES = tuple(state.value for state in AllocationState)
HYPERVISORS = tuple(kind.value for kind in HypervisorType)
ARCHITECTURE = string(
    "arch", "the CPU architecture of the cluster's hosts; only x86_64 is supported", choices=("x86_64",)
)
SWITCHES = (
    *("guestvswitchname", "guestvswitchtype", "publicvswitchname", "publicvswitchtype"),
    *("vsmipaddress", "vsmpassword", "vsmusername"),
)
ADDED_ONE_BY_ONE = "hosts are added one by one, by addHost"

ADD = Command(
    name="addCluster",
    description="Creates a cluster in a pod, with the over-commit factors of the settings for new clusters",
    handler=add_cluster,
    shape=Shape.LIST,
    response=CLUSTER,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        uuid("podid", Entity.POD, "the pod", required=True),
        string("clustername", "the name of the cluster, unique in the pod", required=True, rule=NAME),
        string(
            "clustertype",
            "the type of the cluster: CloudManaged or ExternalManaged",
            required=True,
            choices=CLUSTER_TYPES,
        ),
        string("hypervisor", "the hypervisor of the cluster's hosts", required=True, choices=HYPERVISORS),
        string(
            "allocationstate",
            "Enabled (default), or Disabled: the service places no new VMs here",
            choices=ALLOCATION_STATES,
        ),
        ALLOCATION_POLICY,
        ARCHITECTURE,
    ),
    unsupported={
        "url": ADDED_ONE_BY_ONE,
        "username": ADDED_ONE_BY_ONE,
        "password": ADDED_ONE_BY_ONE,
        "extensionid": NO_EXTENSIONS,
        "externaldetails": NO_EXTENSIONS,
        "storageaccessgroups": NO_ACCESS_GROUPS,
        **dict.fromkeys(SWITCHES, "virtual switches are configured on the hypervisor"),
        **dict.fromkeys(("ovm3cluster", "ovm3pool", "ovm3vip"), "hosts of OVM3 are not supported as pools"),
    },
)

UPDATE = Command(
    name="updateCluster",
    description=(
        "Changes a cluster. A changed allocation state or managed state applies from the next deployment on."
    ),
    handler=update_cluster,
    shape=Shape.OBJECT,
    response=CLUSTER,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.CLUSTER, "the cluster", required=True),
        string("clustername", "the new name of the cluster, unique in the pod", rule=NAME),
        string("clustertype", "the type of the cluster: CloudManaged or ExternalManaged", choices=CLUSTER_TYPES),
        string(
            "hypervisor",
            "the hypervisor of the cluster's hosts; can be changed only while the cluster has no hosts",
            choices=HYPERVISORS,
        ),
        string("allocationstate", "Enabled, or Disabled: the cluster gets no new VMs", choices=ALLOCATION_STATES),
        ALLOCATION_POLICY,
        string(
            "managedstate", "Managed, or Unmanaged: the cluster gets no new VMs", choices=("Managed", "Unmanaged")
        ),
        ARCHITECTURE,
    ),
    unsupported={"externaldetails": NO_EXTENSIONS},
)

DELETE = Command(
    name="deleteCluster",
    description="Deletes a cluster without hosts and storage pools",
    handler=delete_cluster,
    shape=Shape.SUCCESS,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(uuid("id", Entity.CLUSTER, "the cluster", required=True),),
)

COMMANDS = (
    ADD,
    UPDATE,
    DELETE,
    Command(
        name="listClusters",
        description="Lists clusters",
        handler=list_clusters,
        shape=Shape.LIST,
        response=CLUSTER,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("id", Entity.CLUSTER, "only this cluster"),
            string("name", "only clusters of this name"),
            uuid("zoneid", Entity.ZONE, "only clusters of this zone"),
            uuid("podid", Entity.POD, "only clusters of this pod"),
            string("hypervisor", "only clusters of this hypervisor"),
            string("clustertype", "only clusters of this type"),
            string("managedstate", "only clusters in this state of management"),
            string("arch", "only clusters of this CPU architecture; all here are x86_64"),
            string(
                "allocationstate",
                "only clusters in this state",
                choices=tuple(state.value for state in AllocationState),
            ),
            string("allocpolicy", "only clusters with this allocation policy", choices=ALLOCATION_POLICIES),
            boolean("showcapacities", "whether the response includes the capacity of each cluster"),
            *PAGING,
        ),
        unsupported={"storageaccessgroup": NO_ACCESS_GROUPS},
    ),
)

NOUNS = (
    Noun(
        section="clusters",
        entity=Entity.CLUSTER,
        create=ADD,
        create_many=cluster_service.add_clusters,
        update=UPDATE,
        update_many=cluster_service.update_clusters,
        read=reader(Entity.CLUSTER, clusters.FIELDS),
        key=by("podid", "clustername"),
        name="clustername",
        parent="podid",
    ),
)
