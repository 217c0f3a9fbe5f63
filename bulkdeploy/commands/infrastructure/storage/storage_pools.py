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
from bulkdeploy.declare.response_fields import flag, large_number, moment, text
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
        text("provider", "DefaultPrimary"),
        flag("managed", "whether a storage system makes a volume of its own for each disk; always false"),
        flag("istagarule", "whether its tags are a rule; always false"),
        text("tags", "its tags, separated by commas"),
        large_number("disksizetotal", "its size as its hypervisor measured it last, or else capacitybytes, bytes"),
        large_number("disksizeallocated", "what is promised of it, bytes"),
        large_number("disksizeused", "what is used of it, as its hypervisor measured it last, bytes"),
        large_number("capacitybytes", "its size before over-provisioning, bytes"),
        text("overprovisionfactor", "times its size that it may promise"),
        moment("created", "when it was added"),
        *OF_POOLS,
    ),
)


def list_storage_pools(call: Call) -> Page:
    """Return the primary storage pools of a place, or all pools."""
    return storage_pools.list_storage_pools(call.connection, call.arguments, paging(call))


def look_at_storage_pool(call: Call) -> list[SeenPool]:
    """Query a driver for the storage of a new pool, before the transaction that creates the pool."""
    return pool_service.look_at_pools(call.connection, call.system, [call.arguments])


def create_storage_pool(call: Call, seen: Sequence[SeenPool]) -> Mapping[str, Any]:
    """Create a storage pool from storage that ``prepare`` has checked, and return the pool."""
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
    """Put a storage pool into maintenance, so that no volumes are placed in it."""
    return pool_service.enable_maintenance(call.connection, call.caller, call.arguments["id"])


def cancel_storage_maintenance(call: Call) -> JobTicket:
    """End the maintenance of a storage pool."""
    return pool_service.cancel_maintenance(call.connection, call.caller, call.arguments["id"])


def _row(call: Call, pool: EntityRef) -> Mapping[str, Any]:
    return only_row(storage_pools.list_storage_pools(call.connection, {"id": pool}, ONE))


NO_DETAILS = "pools have no details"
TAGS = string("tags", "its tags, separated by commas", length=1024, rule=TAGS_RULE)
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
        string("name", "its name, unique in the zone", required=True, rule=NAME),
        string(
            "url",
            "the address of the storage, such as nfs://10.1.1.9/export/primary, rbd://USER:SECRET@10.1.1.9/pool"
            " or clvm://localhost/vg-guests",
            required=True,
            length=2048,
            rule=STORAGE_URL,
        ),
        string("scope", "CLUSTER or ZONE; default CLUSTER where a cluster is given", choices=("CLUSTER", "ZONE")),
        string(
            "hypervisor",
            "the only hypervisor that reaches it, for scope ZONE",
            choices=tuple(kind.value for kind in HypervisorType),
        ),
        string("provider", "DefaultPrimary", choices=("DefaultPrimary",)),
        TAGS,
        SIZE,
    ),
    unsupported={
        "capacityiops": NO_QUALITY_OF_SERVICE,
        "managed": "volumes are kept in pools, not made as storage of their own",
        "details": NO_DETAILS,
        "istagarule": NO_TAG_RULES,
        "storageaccessgroups": NO_ACCESS_GROUPS,
    },
)

UPDATE = Command(
    name="updateStoragePool",
    description="Changes a primary storage pool. Whether it is enabled is seen by the next deployment.",
    handler=update_storage_pool,
    shape=Shape.OBJECT,
    response=STORAGE_POOL,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.STORAGE_POOL, "the pool", required=True),
        string("name", "its new name, unique in the zone", rule=NAME),
        TAGS,
        boolean("enabled", "true: Up; false: Disabled (no new volumes)"),
        SIZE,
    ),
    unsupported={
        "capacityiops": NO_QUALITY_OF_SERVICE,
        "details": NO_DETAILS,
        "istagarule": NO_TAG_RULES,
        "url": "volumes stay where they are",
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
        boolean("forced", "delete it though it is not in maintenance; never with volumes in it"),
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
"""The states of CloudStack's pools, some of which do not occur here."""

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
            uuid("hostid", Entity.HOST, "only pools that this host reaches"),
            *PAGING,
        ),
        unsupported={
            "storageaccessgroup": NO_ACCESS_GROUPS,
            "storagecustomstats": "pools tell nothing but their size and what is taken",
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
