"""Operations on primary storage pools: create, update and delete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.storage_urls import (
    StorageUrl,
    StorageUrlError,
    read_storage_url,
    show_storage_url,
)
from bulkdeploy.domain.infrastructure.topology import PoolScope
from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.services.infrastructure.host_admission import driver_of, refused_by_driver
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.live_entities import (
    ONE,
    changed_events,
    deleted_events,
    given_refs,
    lock_entities,
    lock_entity,
    only_row,
    subject,
    unique_name,
)
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.hypervisors.image_sizes import forget_copies
from bulkdeploy.store.infrastructure import clusters
from bulkdeploy.store.infrastructure.storage import storage_pools
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_row, change_rows, insert_rows, remove_rows

KIND = "StoragePool"
OF_THE_ZONE = "another pool of the zone"
UP, DISABLED, MAINTENANCE = storage_pools.UP, storage_pools.DISABLED, "Maintenance"
COMMANDS = "org.apache.cloudstack.api.command.admin.storage."


@dataclass(frozen=True, slots=True)
class SeenPool:
    """Storage that a driver reported, or whose size the caller gave. The row of the pool is not written yet."""

    zone: EntityRef
    cluster: EntityRef | None
    url: str
    values: Mapping[str, Any]


def look_at_pools(connection: Connection, system: System, batch: Sequence[Arguments]) -> list[SeenPool]:
    """Return the pools to create with their sizes.

    A driver measures sizes that the call does not give, before rows are written.

    Raises:
        InvalidParameter, InvalidCombination: a URL does not name storage, or zone, pod and cluster do not match.
        ResourceUnavailable: the driver cannot access the storage.
    """
    found = clusters.facts_by_id(connection, {ref.id for ref in given_refs(batch, "clusterid")})
    return [_requested_pool(system, given, found) for given in batch]


def _requested_pool(system: System, given: Arguments, found: Mapping[int, Mapping[str, Any]]) -> SeenPool:
    place, hypervisor = _place(given, found)
    values = {
        "zone_id": given["zoneid"].id,
        "name": given["name"],
        "tags": _tags(given),
        **storage_of(given["url"]),
        **_login_of(system, given["url"]),
        **place,
        "capacity_bytes": given.get("capacitybytes") or _seen_size(system, hypervisor, given["url"]),
    }
    return SeenPool(given["zoneid"], given.get("clusterid"), show_storage_url(given["url"]), values)


def create_pools(connection: Connection, caller: Caller, batch: Sequence[SeenPool]) -> list[EntityRef]:
    """Create storage pools of clusters or whole zones from storage that was checked before the transaction.

    Raises:
        InvalidParameter: a name is already used, or another pool of the zone uses the same storage.
    """
    zones = list(dict.fromkeys(pool.zone for pool in batch))
    lock_entities(connection, zones, "zoneid")  # alone: of two pools at once on one storage, one must see the other
    in_clusters = list(dict.fromkeys(pool.cluster for pool in batch if pool.cluster is not None))
    lock_entities(connection, in_clusters, "clusterid", shared=True)
    in_use = storage_pools.storage_in_use(connection, [zone.id for zone in zones])
    for pool in batch:
        storage = (pool.zone.id, pool.values["ip_address"], pool.values["path"])
        if (twin := in_use.setdefault(storage, pool.values["name"])) != pool.values["name"]:
            raise InvalidParameter("url", pool.url, f"the url is already used by pool {twin}")
    with unique_name("name", batch[0].values["name"], OF_THE_ZONE):
        made = insert_rows(connection, Entity.STORAGE_POOL, [pool.values for pool in batch])
    record_events(connection, caller, map(_made, made, batch))
    return made


def _made(ref: EntityRef, pool: SeenPool) -> Happened:
    text = f"created storage pool {ref.name} in zone {pool.zone.name}"
    return Happened(EventType.STORAGE_POOL_CREATE, text, subject(KIND, ref))


def update_pools(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change storage pools. Later placements respect whether the pools are enabled.

    Raises:
        InvalidParameter: a name is already used, a pool is neither Up nor Disabled, or a size is below the claims
            of volumes.
    """
    rows = lock_entities(connection, [pool for pool, _ in changes])
    configuration = read_configuration(connection)
    written = [(pool, _changed_columns(configuration, pool, rows[pool.id], given)) for pool, given in changes]
    with unique_name("name", changes[0][1].get("name"), OF_THE_ZONE):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.STORAGE_POOL_EDIT, KIND, written))


def _changed_columns(
    configuration: Configuration, pool: EntityRef, row: Mapping[str, Any], given: Arguments
) -> dict[str, Any]:
    values: dict[str, Any] = {"name": given["name"]} if "name" in given else {}
    if "tags" in given:
        values["tags"] = _tags(given)
    if (wanted := given.get("enabled")) is not None:
        if row["state"] not in (UP, DISABLED):
            rule = f"pool {pool.name} is in state {row['state']}; only Up and Disabled change"
            raise InvalidParameter("enabled", str(wanted).lower(), rule)
        values["state"] = UP if wanted else DISABLED
    if (size := given.get("capacitybytes")) is not None:
        _check_size(configuration, pool, row, size)
        values["capacity_bytes"] = size
    return values


def _tags(given: Arguments) -> list[str]:
    return [tag for tag in given.get("tags", "").split(",") if tag]


def delete_pools(
    connection: Connection, caller: Caller, pools: Sequence[EntityRef], *, forced: bool, with_local: bool = False
) -> None:
    """Delete pools without volumes. Pools of hosts' own disks are deleted only if ``with_local`` is true.

    Raises:
        InvalidParameter: a pool is not in maintenance and ``forced`` is false, or a pool is a host's own disks.
        ResourceInUse: a pool has volumes, even if ``forced`` is true.
    """
    rows = lock_entities(connection, pools)
    volumes = storage_pools.count_volumes(connection, [pool.id for pool in pools])
    for pool in pools:
        row = rows[pool.id]
        if row["scope"] == PoolScope.HOST and not with_local:
            raise InvalidParameter("id", str(pool.uuid), f"pool {pool.name} is deleted with its host by deleteHost")
        if not forced and row["state"] != MAINTENANCE:
            rule = f"pool {pool.name} is in state {row['state']}; it must be Maintenance, unless forced=true"
            raise InvalidParameter("id", str(pool.uuid), rule)
        if pool.id in volumes:
            rule = f"{volumes[pool.id]} volume(s) are in it"
            raise ResourceInUse(f"Storage pool {pool.name} cannot be deleted: {rule}")
    forget_copies(connection, [pool.id for pool in pools])
    remove_rows(connection, pools)
    record_events(connection, caller, deleted_events(EventType.STORAGE_POOL_DELETE, KIND, pools))


def enable_maintenance(connection: Connection, caller: Caller, pool: EntityRef) -> JobTicket:
    """Put a pool into maintenance, so that no volumes are placed in it. The result of the job is the pool.

    Raises:
        InvalidParameter: the pool is in maintenance, or was deleted.
        ResourceInUse: VMs that are on a host have volumes in the pool. CloudStack would stop these VMs.
    """
    if lock_entity(connection, pool)["state"] not in (UP, DISABLED):
        raise InvalidParameter("id", str(pool.uuid), f"pool {pool.name} is in maintenance already")
    if vms := storage_pools.count_vms_on_hosts(connection, pool.id):
        raise ResourceInUse(f"Storage pool {pool.name} is in use by {vms} VM(s) that run; stop them first")
    return _switched(connection, caller, pool, MAINTENANCE)


def cancel_maintenance(connection: Connection, caller: Caller, pool: EntityRef) -> JobTicket:
    """End the maintenance of a pool, so that volumes can be placed in it again; the job's result is the pool.

    Raises:
        InvalidParameter: the pool is not in maintenance, or was deleted.
    """
    state = lock_entity(connection, pool)["state"]
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
    record_event(connection, caller, event, text, subject(KIND, pool))
    row = only_row(storage_pools.list_storage_pools(connection, {"id": pool}, ONE))
    cmd = (
        f"{COMMANDS}{'PreparePrimaryStorageForMaintenanceCmd' if begins else 'CancelPrimaryStorageMaintenanceCmd'}"
    )
    return done_with_object(connection, caller, cmd, "storagepool", row, Instance(KIND, pool.id, pool.uuid))


def storage_of(url: str) -> dict[str, Any]:
    """Return type, server and path of the storage behind a URL, as columns. Credentials are left out.

    Raises:
        InvalidParameter: the URL does not describe a storage pool.
    """
    found = _read_url(url)
    return {"pool_type": found.pool_type, "ip_address": found.server, "path": found.path}


def _read_url(url: str) -> StorageUrl:
    try:
        return read_storage_url(url)
    except StorageUrlError as error:
        raise InvalidParameter("url", show_storage_url(url), str(error)) from error


def _login_of(system: System, url: str) -> dict[str, Any]:
    """Return the credentials of a URL as columns; the secret is encrypted."""
    found = _read_url(url)
    if found.secret is None:
        return {}
    return {"user_name": found.user, "secret_encrypted": system.cipher.encrypt(found.secret)}


def _place(given: Arguments, found: Mapping[int, Mapping[str, Any]]) -> tuple[dict[str, Any], str]:
    """Return the columns that describe the location of a pool, and the hypervisor that can access the pool."""
    zone, pod, cluster = given["zoneid"], given.get("podid"), given.get("clusterid")
    scope = given.get("scope", PoolScope.ZONE.value if cluster is None else PoolScope.CLUSTER.value)
    if scope == PoolScope.ZONE:
        if pod is not None or cluster is not None:
            raise InvalidCombination(("scope", "clusterid"), "a pool of scope ZONE has neither podid nor clusterid")
        if "hypervisor" not in given:
            raise InvalidCombination(("scope", "hypervisor"), "a pool of scope ZONE requires hypervisor")
        return {"scope": scope, "hypervisor": given["hypervisor"]}, given["hypervisor"]
    if pod is None or cluster is None:
        raise InvalidCombination(("scope", "clusterid"), "a pool of scope CLUSTER needs podid and clusterid")
    facts = found.get(cluster.id)
    if facts is None or (facts["zone_id"], facts["pod_id"]) != (zone.id, pod.id):
        raise InvalidParameter("clusterid", str(cluster.uuid), "it is not a cluster of this zone and pod")
    if given.get("hypervisor", facts["hypervisor"]) != facts["hypervisor"]:
        raise InvalidParameter("hypervisor", given["hypervisor"], f"the cluster's is {facts['hypervisor']}")
    return {"scope": scope, "pod_id": pod.id, "cluster_id": cluster.id}, facts["hypervisor"]


def _seen_size(system: System, hypervisor: str, url: str) -> int:
    try:
        size = driver_of(system, hypervisor).pool_size_bytes(url, timeout_s=system.driver_timeout_s)
    except DriverError as error:
        raise refused_by_driver(error, show_storage_url(url)) from error
    if size is None:
        unseen = DriverError("connect", ANY_HOST, "the driver cannot read the size of pools", transient=False)
        raise refused_by_driver(unseen, show_storage_url(url))
    return size


def _check_size(configuration: Configuration, pool: EntityRef, row: Mapping[str, Any], size: int) -> None:
    factor = 1.0
    if row["scope"] != PoolScope.HOST:
        factor = configuration.decimal(storage_pools.FACTOR, Scope.STORAGE_POOL, pool.id)
    if size * factor < row["allocated_bytes"]:
        promised = f"{row['allocated_bytes']} bytes are claimed; at most {factor:g} times the size may be claimed"
        raise InvalidParameter("capacitybytes", size, promised)
