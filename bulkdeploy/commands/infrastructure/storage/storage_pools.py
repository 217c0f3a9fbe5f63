"""Commands of primary storage pools: list, create, update, delete and maintenance."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.constant_fields import OF_POOLS
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_ACCESS_GROUPS, NO_QUALITY_OF_SERVICE, NO_TAG_RULES
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import boolean, long, string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, flag, large_number, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, STORAGE_URL
from bulkdeploy.declare.value_rules import TAGS as TAGS_RULE
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import ResourceInUse, ResourceUnavailable
from bulkdeploy.domain.infrastructure.topology import HypervisorType, PoolScope
from bulkdeploy.services.infrastructure.storage import storage_pools as pool_service
from bulkdeploy.services.infrastructure.storage.storage_pools import SeenPool
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.infrastructure.storage import storage_pools
from bulkdeploy.store.rows.listing import Page

STORAGE_POOL = Response(
    "storagepool",
    (
        text("id", "the pool"),
        text("name", "the name of the pool"),
        text("type", "the type of the pool, such as NetworkFilesystem"),
        text("state", "the state: Up, or another state in which the pool accepts no new volumes"),
        text("scope", "the scope of the pool: ZONE, CLUSTER or HOST; hosts in this scope can use it"),
        text("hypervisor", "the hypervisor whose hosts can use the pool; only for scope ZONE"),
        text("zoneid", "the zone of the pool"),
        text("zonename", "the zone's name"),
        text("podid", "the pod of the pool"),
        text("podname", "the pod's name"),
        text("clusterid", "the cluster of the pool"),
        text("clustername", "the cluster's name"),
        text("ipaddress", "the address of the storage server"),
        text("path", "the path of the pool on the server"),
        text("provider", "DefaultPrimary"),
        flag("managed", "always false: storage systems do not create a separate volume for each disk"),
        flag("istagarule", "always false: tags are texts, not rules"),
        text("tags", "the tags of the pool, separated by commas"),
        large_number(
            "disksizetotal",
            "the size of the pool in bytes, as last measured by the hypervisor; capacitybytes if never measured",
        ),
        large_number("disksizeallocated", "the allocated size, in bytes"),
        large_number("disksizeused", "the used size in bytes, as last measured by the hypervisor"),
        large_number("capacitybytes", "the size of the pool before over-provisioning, in bytes"),
        text(
            "overprovisionfactor",
            "the over-provisioning factor: how many times the size of the pool may be allocated",
        ),
        moment("created", "the date and time at which it was added"),
        *OF_POOLS,
        HAS_ANNOTATIONS,
    ),
)


def list_storage_pools(call: Call) -> Page:
    """Return the primary storage pools that match the filters."""
    return storage_pools.list_storage_pools(call.connection, call.arguments, paging(call))


def look_at_storage_pool(call: Call) -> list[SeenPool]:
    """Query a driver for the size of a new pool, before the transaction of createStoragePool."""
    return pool_service.look_at_pools(call.connection, call.system, [call.arguments])


def create_storage_pool(call: Call, seen: Sequence[SeenPool]) -> Mapping[str, Any]:
    """Create a storage pool that ``look_at_storage_pool`` has measured, and return the pool."""
    (pool,) = pool_service.create_pools(call.connection, call.caller, seen)
    return _row(call, pool)


def update_storage_pool(call: Call) -> Mapping[str, Any]:
    """Change a storage pool, and return the pool."""
    pool = call.arguments["id"]
    pool_service.update_pools(call.connection, call.caller, [(pool, call.arguments)])
    return _row(call, pool)


def delete_storage_pool(call: Call) -> None:
    """Delete a storage pool that has no volumes."""
    pool_service.delete_pools(call.connection, call.caller, [call.arguments["id"]], forced=call.flag("forced"))


def enable_storage_maintenance(call: Call) -> JobTicket:
    """Put a storage pool into maintenance, so that it gets no volumes. The job's result is the pool."""
    return pool_service.enable_maintenance(call.connection, call.caller, call.arguments["id"])


def cancel_storage_maintenance(call: Call) -> JobTicket:
    """End the maintenance of a storage pool. The job's result is the pool."""
    return pool_service.cancel_maintenance(call.connection, call.caller, call.arguments["id"])


def _row(call: Call, pool: EntityRef) -> Mapping[str, Any]:
    return only_row(storage_pools.list_storage_pools(call.connection, {"id": pool}, ONE))


NO_DETAILS = "pools have no details"
TAGS = string("tags", "the tags of the pool, separated by commas", length=1024, rule=TAGS_RULE)
SIZE = long(
    "capacitybytes",
    "the size before over-provisioning, in bytes; default: the size that the driver reports",
    minimum=1,
    unit=1,
)

CREATE = Command(
    name="createStoragePool",
    description="Creates a primary storage pool for a cluster or a zone",
    handler=create_storage_pool,
    prepare=look_at_storage_pool,
    shape=Shape.OBJECT,
    response=STORAGE_POOL,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(ResourceUnavailable,),
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        uuid("podid", Entity.POD, "the pod, for scope CLUSTER"),
        uuid("clusterid", Entity.CLUSTER, "the cluster, for scope CLUSTER"),
        string("name", "the name, unique in the zone", required=True, rule=NAME),
        string(
            "url",
            "the address of the storage, such as nfs://10.1.1.9/export/primary, rbd://USER:SECRET@10.1.1.9/pool"
            " or clvm://localhost/vg-guests",
            required=True,
            length=2048,
            rule=STORAGE_URL,
        ),
        string(
            "scope",
            "the scope of the pool: CLUSTER or ZONE; default: CLUSTER if clusterid is given, otherwise ZONE",
            choices=("CLUSTER", "ZONE"),
        ),
        string(
            "hypervisor",
            "for scope ZONE: the hypervisor whose hosts can use the pool",
            choices=tuple(kind.value for kind in HypervisorType),
        ),
        string("provider", "DefaultPrimary", choices=("DefaultPrimary",)),
        TAGS,
        SIZE,
    ),
    unsupported={
        "capacityiops": NO_QUALITY_OF_SERVICE,
        "managed": "managed storage is not supported",
        "details": NO_DETAILS,
        "istagarule": NO_TAG_RULES,
        "storageaccessgroups": NO_ACCESS_GROUPS,
    },
)

UPDATE = Command(
    name="updateStoragePool",
    description=(
        "Changes a primary storage pool. A pool that is enabled or disabled is treated as such from the next "
        "deployment on."
    ),
    handler=update_storage_pool,
    shape=Shape.OBJECT,
    response=STORAGE_POOL,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.STORAGE_POOL, "the pool", required=True),
        string("name", "the new name, unique in the zone", rule=NAME),
        TAGS,
        boolean("enabled", "true: the pool accepts new volumes (state Up); false: it does not (state Disabled)"),
        SIZE,
    ),
    unsupported={
        "capacityiops": NO_QUALITY_OF_SERVICE,
        "details": NO_DETAILS,
        "istagarule": NO_TAG_RULES,
        "url": "the address of a pool cannot be changed",
    },
)

DELETE = Command(
    name="deleteStoragePool",
    description="Deletes a primary storage pool with no volumes in it",
    handler=delete_storage_pool,
    shape=Shape.SUCCESS,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(ResourceInUse,),
    parameters=(
        uuid("id", Entity.STORAGE_POOL, "the pool", required=True),
        boolean(
            "forced", "true: delete the pool even if it is not in maintenance; a pool with volumes is never deleted"
        ),
    ),
)

ENABLE_MAINTENANCE = Command(
    name="enableStorageMaintenance",
    description="Puts a primary storage pool into maintenance: it accepts no volumes. Its virtual"
    " machines must be stopped.",
    handler=enable_storage_maintenance,
    shape=Shape.JOB,
    response=STORAGE_POOL,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(ResourceInUse,),
    parameters=(uuid("id", Entity.STORAGE_POOL, "the pool", required=True),),
)

CANCEL_MAINTENANCE = Command(
    name="cancelStorageMaintenance",
    description="Ends the maintenance of a primary storage pool",
    handler=cancel_storage_maintenance,
    shape=Shape.JOB,
    response=STORAGE_POOL,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(uuid("id", Entity.STORAGE_POOL, "the pool", required=True),),
)

STATES = (
    *("Initial", "Initialized", "Creating", "Attaching", "Up", "Disabled", "PrepareForMaintenance"),
    *("ErrorInMaintenance", "CancelMaintenance", "Maintenance", "Removed"),
)
"""The states of pools in CloudStack. Some of them do not occur in this service."""

COMMANDS = (
    CREATE,
    UPDATE,
    DELETE,
    ENABLE_MAINTENANCE,
    CANCEL_MAINTENANCE,
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
            string("status", "only pools in this state, such as Up", choices=STATES),
            uuid("hostid", Entity.HOST, "only pools that this host can use"),
            *PAGING,
        ),
        unsupported={
            "storageaccessgroup": NO_ACCESS_GROUPS,
            "storagecustomstats": "pools report only their total and used sizes",
        },
    ),
)

NOUNS = (
    Noun(
        section="storagepools",
        entity=Entity.STORAGE_POOL,
        create=CREATE,
        create_many=pool_service.create_pools,
        prepare=pool_service.look_at_pools,
        update=UPDATE,
        update_many=pool_service.update_pools,
        read=storage_pools.read_storage_pools,
        key=by("zoneid", "name"),
        compare={"url": pool_service.storage_of},
        parent="clusterid",
    ),
)
