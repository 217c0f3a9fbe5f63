"""Making, changing and deleting primary storage pools (reference section 8.17)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import PoolScope
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.services.infrastructure.host_admission import checked_url, driver_of, refused_by_driver
from bulkdeploy.services.inventory.inventory_values import name
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.system import System
from bulkdeploy.services.wire_values import checked, checked_tags
from bulkdeploy.store.configuration.configuration import read_configuration
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import clusters, storage_pools
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.live_rows import change_row, insert_row, remove_row

KIND = "StoragePool"
OF_THE_ZONE = "another pool of the zone"
UP, DISABLED, MAINTENANCE = "Up", "Disabled", "Maintenance"
COMMANDS = "org.apache.cloudstack.api.command.admin.storage."
TYPES = {
    "nfs": "NetworkFilesystem",
    "sharedmountpoint": "SharedMountPoint",
    "rbd": "RBD",
    "clvm": "CLVM",
    "presetup": "PreSetup",
    "vmfs": "VMFS",
    "datastorecluster": "DatastoreCluster",
    "fiberchannel": "FiberChannel",
    "powerflex": "PowerFlex",
}
"""Pool types by the scheme of the url, as CloudStack has them."""


def look_at_pool(connection: Connection, system: System, given: Arguments) -> Mapping[str, Any]:
    """The columns of a pool to make; its size, where the call gives none, as a driver sees it.

    For before the transaction.

    Raises:
        InvalidParameter, InvalidCombination: a value that breaks its rule, or places that do not belong together.
        ResourceUnavailable: the driver does not see it.
    """
    zone: EntityRef = given["zoneid"]
    values = {
        "zone_id": zone.id,
        "name": checked("name", given["name"], name()),
        "tags": checked_tags("tags", given.get("tags", "").split(",")),
        **_storage(given["url"]),
    }
    place, hypervisor = _place(connection, given)
    size = given.get("capacitybytes") or _seen_size(system, hypervisor, given["url"])
    return {**values, **place, "capacity_bytes": size}


def create_pool(
    connection: Connection, caller: Caller, given: Arguments, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Make a pool of a cluster or of the whole zone from the columns that ``look_at_pool`` found.

    Raises:
        InvalidParameter: a name that is taken, or storage that another pool of the zone is.
    """
    zone: EntityRef = given["zoneid"]
    hold(connection, zone, "zoneid")  # alone: of two pools at once on one storage, one must see the other
    if (cluster := given.get("clusterid")) is not None:
        hold(connection, cluster, "clusterid", shared=True)
    twin = storage_pools.pool_on(connection, zone.id, values["ip_address"], values["path"])
    if twin is not None:
        raise InvalidParameter("url", given["url"], f"it is the storage of pool {twin}")
    with unique_name("name", values["name"], OF_THE_ZONE):
        pool = insert_row(connection, Entity.STORAGE_POOL, values)
    text = f"created storage pool {pool.name} in zone {zone.name}"
    return _told(connection, caller, EventType.STORAGE_POOL_CREATE, pool, text)


def update_pool(connection: Connection, caller: Caller, pool: EntityRef, given: Arguments) -> Mapping[str, Any]:
    """Change a pool; the next plan sees whether it is enabled.

    Raises:
        InvalidParameter: a value that breaks its rule, a name that is taken, a state that is neither Up nor
            Disabled, or a size below what volumes were promised.
    """
    values: dict[str, Any] = {}
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    if "tags" in given:
        values["tags"] = checked_tags("tags", given["tags"].split(","))
    row = hold(connection, pool)
    if (wanted := given.get("enabled")) is not None:
        if row["state"] not in (UP, DISABLED):
            rule = f"pool {pool.name} is in state {row['state']}; only Up and Disabled change"
            raise InvalidParameter("enabled", str(wanted).lower(), rule)
        values["state"] = UP if wanted else DISABLED
    if (size := given.get("capacitybytes")) is not None:
        _check_size(connection, pool, row, size)
        values["capacity_bytes"] = size
    with unique_name("name", values.get("name"), OF_THE_ZONE):
        change_row(connection, pool, values)
    text = f"changed storage pool {pool.name}{changed(values)}"
    return _told(connection, caller, EventType.STORAGE_POOL_EDIT, pool, text)


def delete_pool(connection: Connection, caller: Caller, pool: EntityRef, *, forced: bool) -> None:
    """Delete a pool without volumes.

    Raises:
        InvalidParameter: it is not in maintenance, and the call is not ``forced``; or it is a host's own disks.
        ResourceInUse: volumes are in it, ``forced`` or not.
    """
    row = hold(connection, pool)
    if row["scope"] == PoolScope.HOST:
        raise InvalidParameter("id", str(pool.uuid), f"pool {pool.name} goes with its host, by deleteHost")
    if not forced and row["state"] != MAINTENANCE:
        rule = f"pool {pool.name} is in state {row['state']}, not Maintenance; see forced"
        raise InvalidParameter("id", str(pool.uuid), rule)
    if volumes := storage_pools.count_volumes(connection, pool.id):
        raise ResourceInUse(f"Storage pool {pool.name} can not be deleted: {volumes} volume(s) are in it")
    remove_row(connection, pool)
    text = f"deleted storage pool {pool.name}"
    record_event(connection, caller, EventType.STORAGE_POOL_DELETE, text, subject(KIND, pool))


def enable_maintenance(connection: Connection, caller: Caller, pool: EntityRef) -> JobTicket:
    """Let a pool take no volumes until maintenance is cancelled; the job's result is the pool.

    Raises:
        InvalidParameter: it is in maintenance, or was deleted.
        ResourceInUse: VMs that are on a host have volumes in it; CloudStack would stop them.
    """
    if hold(connection, pool)["state"] not in (UP, DISABLED):
        raise InvalidParameter("id", str(pool.uuid), f"pool {pool.name} is in maintenance already")
    if vms := storage_pools.count_vms_on_hosts(connection, pool.id):
        raise ResourceInUse(f"Storage pool {pool.name} is in use by {vms} VM(s) that run; stop them first")
    return _switched(connection, caller, pool, MAINTENANCE)


def cancel_maintenance(connection: Connection, caller: Caller, pool: EntityRef) -> JobTicket:
    """Let a pool in maintenance take volumes again; the job's result is the pool.

    Raises:
        InvalidParameter: it is not in maintenance, or was deleted.
    """
    state = hold(connection, pool)["state"]
    if state in (UP, DISABLED):
        raise InvalidParameter("id", str(pool.uuid), f"pool {pool.name} is in state {state}, not in maintenance")
    return _switched(connection, caller, pool, UP)


def _switched(connection: Connection, caller: Caller, pool: EntityRef, state: str) -> JobTicket:
    change_row(connection, pool, {"state": state})
    begins = state == MAINTENANCE
    event = (
        EventType.MAINTENANCE_PREPARE_PRIMARY_STORAGE if begins else EventType.MAINTENANCE_CANCEL_PRIMARY_STORAGE
    )
    text = f"{'began' if begins else 'ended'} maintenance of storage pool {pool.name}"
    row = _told(connection, caller, event, pool, text)
    cmd = (
        f"{COMMANDS}{'PreparePrimaryStorageForMaintenanceCmd' if begins else 'CancelPrimaryStorageMaintenanceCmd'}"
    )
    return done_with_object(connection, caller, cmd, "storagepool", row, Instance(KIND, pool.id, pool.uuid))


def _storage(url: str) -> dict[str, Any]:
    """Type, server and path of the storage behind a url."""
    parts = urlsplit(checked_url(url))
    if parts.scheme.lower() not in TYPES:
        raise InvalidParameter("url", url, f"its scheme should be one of {', '.join(TYPES)}")
    return {
        "pool_type": TYPES[parts.scheme.lower()],
        "ip_address": parts.hostname or "localhost",
        "path": unquote(parts.path) or "/",
    }


def _place(connection: Connection, given: Arguments) -> tuple[dict[str, Any], str]:
    """Where a pool stands, as columns, and the hypervisor that reaches it."""
    zone, pod, cluster = given["zoneid"], given.get("podid"), given.get("clusterid")
    scope = given.get("scope", PoolScope.ZONE.value if cluster is None else PoolScope.CLUSTER.value)
    if scope == PoolScope.ZONE:
        if pod is not None or cluster is not None:
            raise InvalidCombination(("scope", "clusterid"), "a pool of scope ZONE has neither podid nor clusterid")
        if "hypervisor" not in given:
            raise InvalidCombination(("scope", "hypervisor"), "a pool of scope ZONE needs hypervisor beside it")
        return {"scope": scope, "hypervisor": given["hypervisor"]}, given["hypervisor"]
    if pod is None or cluster is None:
        raise InvalidCombination(("scope", "clusterid"), "a pool of scope CLUSTER needs podid and clusterid")
    facts = clusters.facts(connection, cluster_id=cluster.id)
    if facts is None or (facts["zone_id"], facts["pod_id"]) != (zone.id, pod.id):
        raise InvalidParameter("clusterid", str(cluster.uuid), "it is no cluster of this zone and pod")
    if given.get("hypervisor", facts["hypervisor"]) != facts["hypervisor"]:
        raise InvalidParameter("hypervisor", given["hypervisor"], f"the cluster's is {facts['hypervisor']}")
    return {"scope": scope, "pod_id": pod.id, "cluster_id": cluster.id}, facts["hypervisor"]


def _seen_size(system: System, hypervisor: str, url: str) -> int:
    try:
        return driver_of(system, hypervisor).pool_size_bytes(url, timeout_s=system.driver_timeout_s)
    except DriverError as error:
        raise refused_by_driver(error, url) from error


def _check_size(connection: Connection, pool: EntityRef, row: Mapping[str, Any], size: int) -> None:
    factor = 1.0
    if row["scope"] != PoolScope.HOST:
        factor = read_configuration(connection).decimal(storage_pools.FACTOR, Scope.STORAGE_POOL, pool.id)
    if size * factor < row["allocated_bytes"]:
        promised = f"{row['allocated_bytes']} bytes are promised, {factor:g} times its size at most"
        raise InvalidParameter("capacitybytes", size, promised)


def _told(
    connection: Connection, caller: Caller, event: EventType, pool: EntityRef, text: str
) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(KIND, pool))
    return only_row(storage_pools.list_storage_pools(connection, {"id": pool}, ONE))
