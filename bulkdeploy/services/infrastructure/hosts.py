"""Adding, changing and deleting hosts (reference section 8.4).

What a host has is learnt from its driver, which reaches it before a row is written: a process that dies
in between leaves a machine that knows a uuid nobody will ever use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import HostResourceState, HostState
from bulkdeploy.drivers.hosts import HostAccess, HostModel, HostPromise
from bulkdeploy.services.infrastructure.host_admission import (
    checked_url,
    find_cluster,
    hardware,
    local_pool,
    reach,
    vms_limit,
)
from bulkdeploy.services.inventory.inventory_values import host_name
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.system import System
from bulkdeploy.services.wire_values import checked, checked_tags
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import host_rows, hosts
from bulkdeploy.store.infrastructure.dedications import release_place
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Page
from bulkdeploy.store.live_rows import change_row, insert_row

KIND = "Host"
OF_THE_ZONE = "another host of the zone"
RECONNECT = "org.apache.cloudstack.api.command.admin.host.ReconnectHostCmd"
SWITCHED = {"Enable": HostResourceState.ENABLED, "Disable": HostResourceState.DISABLED}


@dataclass(frozen=True, slots=True)
class ReachedHost:
    """A machine that was told that it is a host, and said what it has; its row is not written yet.

    Attributes:
        values: its columns.
        has_pool: whether its own disks become a storage pool.
    """

    cluster: EntityRef
    values: Mapping[str, Any]
    promise: HostPromise
    model: HostModel
    has_pool: bool


def reach_new_host(connection: Connection, system: System, given: Arguments) -> ReachedHost:
    """Reach a machine that is to be added to a cluster, and learn what it has; before the transaction.

    Where the zone allows local storage, the host's own disks become a pool.

    Raises:
        InvalidParameter: places that do not belong together, a hypervisor that is not the cluster's or has no
            driver, or a url that nobody can make a host of.
        ResourceUnavailable: the host does not answer.
    """
    tags = checked_tags("hosttags", given.get("hosttags", ()))
    access = HostAccess(checked_url(given["url"]), given.get("username"), given.get("password"))
    state = given.get("allocationstate", HostResourceState.ENABLED.value)
    row = find_cluster(connection, given)
    uuid, hypervisor = uuid4(), row["hypervisor"]
    promise = HostPromise(row["cpu_overcommit"], row["memory_overcommit"], vms_limit(hypervisor))
    model = reach(system, uuid, hypervisor, access, promise)
    values = {
        "uuid": uuid,
        "zone_id": row["zone_id"],
        "pod_id": row["pod_id"],
        "cluster_id": row["id"],
        "name": model.name,
        "hypervisor": hypervisor,
        "resource_state": state,
        "tags": tags,
        "url": access.url,
        **hardware(model),
    }
    cluster = EntityRef(Entity.CLUSTER, row["id"], row["uuid"], row["name"])
    return ReachedHost(cluster, values, promise, model, row["local_storage_enabled"] and model.local_disk_bytes > 0)


def add_host(connection: Connection, caller: Caller, reached: ReachedHost) -> Page:
    """Add a machine that was reached to its cluster.

    Raises:
        InvalidParameter: its name is taken, or the cluster was deleted.
    """
    cluster, url, model = reached.cluster, reached.values["url"], reached.model
    hold(connection, cluster, "clusterid", shared=True)
    with unique_name("url", url, f"{OF_THE_ZONE} ({model.name})"):
        host = insert_row(connection, Entity.HOST, reached.values)
    host_rows.insert_capacity(connection, host.id, reached.promise.guests_limit)
    if reached.has_pool:
        with unique_name("url", url, f"the pool of another host ({model.name}-local)"):
            insert_row(connection, Entity.STORAGE_POOL, local_pool(host, reached.values, model))
    text = f"added host {host.name} to cluster {cluster.name}"
    return _told(connection, caller, EventType.HOST_CREATE, host, text)


def update_host(connection: Connection, caller: Caller, host: EntityRef, given: Arguments) -> Mapping[str, Any]:
    """Change a host; the next plan sees whether it is enabled.

    Raises:
        InvalidParameter: a value that breaks its rule, a name that is taken, or a host in maintenance, which is
            neither enabled nor disabled.
    """
    values: dict[str, Any] = {}
    if "name" in given:
        values["name"] = checked("name", given["name"], host_name())
    if "hosttags" in given:
        values["tags"] = checked_tags("hosttags", given["hosttags"])
    if "annotation" in given:
        values["annotation"] = given["annotation"] or None
        values["annotated"] = datetime.now(UTC)
    row = hold(connection, host)
    if (word := given.get("allocationstate")) is not None:
        if row["resource_state"] not in SWITCHED.values():
            rule = f"host {host.name} is in state {row['resource_state']}; only Enabled and Disabled change"
            raise InvalidParameter("allocationstate", word, rule)
        values["resource_state"] = SWITCHED[word]
    with unique_name("name", values.get("name"), OF_THE_ZONE):
        change_row(connection, host, values)
    text = f"changed host {host.name}{changed(values)}"
    return only_row(_told(connection, caller, EventType.HOST_EDIT, host, text))


def delete_host(connection: Connection, caller: Caller, host: EntityRef, *, forced: bool) -> None:
    """Delete a host without VMs, and the pools of its own disks.

    Raises:
        InvalidParameter: it is not in maintenance, and the call is not ``forced``.
        ResourceInUse: VMs are, or are about to be, on it, or volumes on its disks; ``forced`` or not.
    """
    row = hold(connection, host)
    if not forced and row["resource_state"] != HostResourceState.MAINTENANCE:
        rule = f"host {host.name} is in resource state {row['resource_state']}, not Maintenance; see forced"
        raise InvalidParameter("id", str(host.uuid), rule)
    release_place(connection, host)  # before the claims: affinity groups come first in the order of locks
    vms, volumes = host_rows.lock_claims(connection, host.id)
    if vms or volumes:
        raise ResourceInUse(f"Host {host.name} can not be deleted: {vms} VM(s) and {volumes} volume(s) are on it")
    host_rows.remove_with_pools(connection, host)
    record_event(connection, caller, EventType.HOST_DELETE, f"deleted host {host.name}", subject(KIND, host))


def reach_again(connection: Connection, system: System, host: EntityRef) -> HostModel:
    """Reach a host again and learn what it has now; before the transaction.

    Raises:
        InvalidParameter: it was deleted, or an inventory brought it: there is no url to reach it by.
        ResourceUnavailable: it does not answer.
    """
    facts = host_rows.reaching_facts(connection, host.id)
    if facts is None or facts["url"] is None:
        why = (
            "the host was deleted"
            if facts is None
            else "an inventory brought the host: it has no url to reach it by"
        )
        raise InvalidParameter("id", str(host.uuid), why)
    promise = HostPromise(facts["cpu_overcommit"], facts["memory_overcommit"], facts["vms_limit"])
    return reach(system, host.uuid, facts["hypervisor"], HostAccess(facts["url"]), promise)


def reconnect_host(connection: Connection, caller: Caller, host: EntityRef, model: HostModel) -> JobTicket:
    """Take over what a host that was reached again says it has; the job's result is the host.

    Raises:
        InvalidParameter: it was deleted.
    """
    hold(connection, host)
    change_row(connection, host, {"state": HostState.UP, **hardware(model)})
    host_rows.refresh_limits(connection, host.id)
    row = only_row(_told(connection, caller, EventType.HOST_RECONNECT, host, f"reconnected host {host.name}"))
    return done_with_object(connection, caller, RECONNECT, "host", row, Instance(KIND, host.id, host.uuid))


def _told(connection: Connection, caller: Caller, event: EventType, host: EntityRef, text: str) -> Page:
    record_event(connection, caller, event, text, subject(KIND, host))
    return hosts.list_hosts(connection, {"id": host}, ONE, with_capacity=True)
