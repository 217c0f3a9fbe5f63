"""listClusters."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.capacity_fields import CLUSTER_CAPACITY
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.topology import AllocationState
from bulkdeploy.store import clusters
from bulkdeploy.store.listing import Page

CLUSTER = Response(
    "cluster",
    (
        text("id", "the cluster"),
        text("name", "its name"),
        text("podid", "its pod"),
        text("podname", "the pod's name"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("hypervisortype", "the hypervisor of its hosts"),
        text("clustertype", "CloudManaged or ExternalManaged"),
        text("managedstate", "Managed"),
        text("allocationstate", "Enabled, or Disabled when it takes no new VMs"),
        text("cpuovercommitratio", "times its CPU that it may promise"),
        text("memoryovercommitratio", "times its memory that it may promise"),
        CLUSTER_CAPACITY,
    ),
)


def list_clusters(call: Call) -> Page:
    """Clusters, by pod, by zone or all."""
    return clusters.list_clusters(call.connection, call.arguments, paging(call))


COMMANDS = (
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
            string(
                "allocationstate",
                "only clusters in this state",
                choices=tuple(state.value for state in AllocationState),
            ),
            boolean("showcapacities", "whether to say what each cluster holds"),
            *PAGING,
        ),
    ),
)
