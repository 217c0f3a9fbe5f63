"""listStoragePools."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import large_number, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.topology import PoolScope
from bulkdeploy.store import storage_pools
from bulkdeploy.store.listing import Page

STORAGE_POOL = Response(
    "storagepool",
    (
        text("id", "the pool"),
        text("name", "its name"),
        text("type", "its type, such as NetworkFilesystem"),
        text("state", "Up, or another state when it takes no new volumes"),
        text("scope", "what reaches it: ZONE, CLUSTER or HOST"),
        text("hypervisor", "the only hypervisor that reaches a zone-wide pool"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("podid", "its pod"),
        text("podname", "the pod's name"),
        text("clusterid", "its cluster"),
        text("clustername", "the cluster's name"),
        text("ipaddress", "the address of its server"),
        text("path", "its path on the server"),
        text("tags", "its tags, separated by commas"),
        large_number("disksizetotal", "its size before over-provisioning, bytes"),
        large_number("disksizeallocated", "what is promised of it, bytes"),
        text("overprovisionfactor", "times its size that it may promise"),
        moment("created", "when it was added"),
    ),
)


def list_storage_pools(call: Call) -> Page:
    """Primary storage pools, by place or all."""
    return storage_pools.list_storage_pools(call.connection, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listStoragePools",
        description="Lists primary storage pools",
        handler=list_storage_pools,
        shape=Shape.LIST,
        response=STORAGE_POOL,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("id", Entity.STORAGE_POOL, "only this pool"),
            string("name", "only pools of this name"),
            uuid("zoneid", Entity.ZONE, "only pools of this zone"),
            uuid("podid", Entity.POD, "only pools of this pod"),
            uuid("clusterid", Entity.CLUSTER, "only pools of this cluster"),
            string("ipaddress", "only pools on the server of this address"),
            string("path", "only pools of this path"),
            string("scope", "only pools of this scope", choices=tuple(scope.value for scope in PoolScope)),
            string("status", "only pools in this state, such as Up"),
            *PAGING,
        ),
    ),
)
