"""Operations on hosts: add, update, reconnect and delete.

The hardware of a host is read by its driver, which registers the host before a row is written. If the process dies
in between, the machine stores a uuid that is never used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import HostResourceState, HostState
from bulkdeploy.drivers.hosts import HostAccess, HostModel, HostPromise, NewHost
from bulkdeploy.services.infrastructure.host_admission import (
    end_leftovers,
    find_clusters,
    hardware,
    local_pool,
    reach,
    vms_limit,
)
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.live_entities import (
    ONE,
    changed_events,
    deleted_events,
    lock_entities,
    lock_entity,
    only_row,
    subject,
    unique_name,
)
from bulkdeploy.services.system import System
from bulkdeploy.store.hypervisors.watching import evacuation_of
from bulkdeploy.store.infrastructure import host_rows, hosts
from bulkdeploy.store.infrastructure.dedications import release_places
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_row, change_rows, columns_of, insert_rows

KIND = "Host"
OF_THE_ZONE = "another host of the zone"
RECONNECT = "org.apache.cloudstack.api.command.admin.host.ReconnectHostCmd"
SWITCHED = {
    **dict.fromkeys(("Enable", "Enabled"), HostResourceState.ENABLED.value),
    **dict.fromkeys(("Disable", "Disabled"), HostResourceState.DISABLED.value),
}


@dataclass(frozen=True, slots=True)
class ReachedHost:
    """A machine that was registered as a host and whose hardware was read. Its row is not written yet.

    Attributes:
        values: the columns of the host's row.
        vms_limit: the maximum number of VMs on the host.
        has_pool: whether the host's own disks become a storage pool.
    """

    cluster: EntityRef
    values: Mapping[str, Any]
    vms_limit: int
    model: HostModel
    has_pool: bool


@dataclass(frozen=True, slots=True)
class HostReachedAgain:
    """The hardware that a host reports after a reconnection, and the time of its fencing before it, or None."""

    model: HostModel
    fenced: datetime | None


def reach_new_hosts(connection: Connection, system: System, batch: Sequence[Arguments]) -> list[ReachedHost]:
    """Connect to machines that will be added to clusters, and read their hardware, before rows are written.

    If the zone allows local storage, the disks of each host become a storage pool.

    Raises:
        InvalidParameter: zone, pod and cluster do not match, a hypervisor is not the cluster's or has no driver, or
            a driver rejects a URL.
        ResourceUnavailable: a host does not respond.
    """
    rows = find_clusters(connection, batch)
    hardware_of = host_rows.guest_hardware(connection, [row["id"] for row in rows])
    requested = [
        NewHost(
            uuid4(),
            row["hypervisor"],
            HostAccess(given["url"], given.get("username"), given.get("password")),
            HostPromise(row["cpu_overcommit"], row["memory_overcommit"], vms_limit(row["hypervisor"])),
            hardware_of.get(row["id"], frozenset()),
        )
        for given, row in zip(batch, rows, strict=True)
    ]
    models = reach(system, requested)
    return [_reached(*facts) for facts in zip(batch, rows, requested, models, strict=True)]


def _reached(given: Arguments, row: Mapping[str, Any], requested: NewHost, model: HostModel) -> ReachedHost:
    values = {
        "uuid": requested.uuid,
        "zone_id": row["zone_id"],
        "pod_id": row["pod_id"],
        "cluster_id": row["id"],
        "name": model.name,
        "hypervisor": requested.hypervisor,
        "resource_state": given.get("allocationstate", HostResourceState.ENABLED.value),
        "tags": list(given.get("hosttags", ())),
        "url": given["url"],
        **hardware(model),
    }
    cluster = EntityRef(Entity.CLUSTER, row["id"], row["uuid"], row["name"])
    has_pool = row["local_storage_enabled"] and model.local_disk_bytes > 0
    return ReachedHost(cluster, values, requested.promise.guests_limit, model, has_pool)


def add_hosts(connection: Connection, caller: Caller, batch: Sequence[ReachedHost]) -> list[EntityRef]:
    """Write the rows of registered machines as hosts of their clusters, and return the hosts.

    Raises:
        InvalidParameter: a name is taken, or a cluster was deleted.
    """
    first = batch[0]
    url, name = first.values["url"], first.model.name
    lock_entities(connection, list(dict.fromkeys(host.cluster for host in batch)), "clusterid", shared=True)
    with unique_name("url", url, f"{OF_THE_ZONE} ({name})"):
        made = insert_rows(connection, Entity.HOST, [host.values for host in batch])
    host_rows.insert_capacity(connection, {ref.id: host.vms_limit for ref, host in zip(made, batch, strict=True)})
    with unique_name("url", url, f"the pool of another host ({name}-local)"):
        pools = [
            local_pool(ref, host.values, host.model) for ref, host in zip(made, batch, strict=True) if host.has_pool
        ]
        insert_rows(connection, Entity.STORAGE_POOL, pools)
    record_events(connection, caller, map(_added, made, batch))
    return made


def _added(ref: EntityRef, host: ReachedHost) -> Happened:
    text = f"added host {ref.name} to cluster {host.cluster.name}"
    return Happened(EventType.HOST_CREATE, text, subject(KIND, ref))


def update_hosts(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change hosts. Later placements respect whether the hosts are enabled.

    Raises:
        InvalidParameter: a name is already used, or a host in maintenance would be enabled or disabled.
    """
    rows = lock_entities(connection, [host for host, _ in changes])
    written = [(host, _changed_columns(host, rows[host.id], given)) for host, given in changes]
    with unique_name("name", changes[0][1].get("name"), OF_THE_ZONE):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.HOST_EDIT, KIND, written))


def _changed_columns(host: EntityRef, row: Mapping[str, Any], given: Arguments) -> dict[str, Any]:
    values = columns_of(hosts.FIELDS, given)
    if "annotation" in given:
        values["annotated"] = datetime.now(UTC)
    if (word := given.get("allocationstate")) is not None:
        if row["resource_state"] not in hosts.SWITCHABLE:
            rule = f"host {host.name} is in state {row['resource_state']}; only Enabled and Disabled change"
            raise InvalidParameter("allocationstate", word, rule)
        values["resource_state"] = SWITCHED[word]
    return values


def delete_hosts(connection: Connection, caller: Caller, refs: Sequence[EntityRef], *, forced: bool) -> None:
    """Delete hosts without VMs, and the pools of their own disks.

    Raises:
        InvalidParameter: a host is not in maintenance, and ``forced`` is false.
        ResourceInUse: VMs are on a host or about to start there, or volumes are on its disks, even if ``forced`` is
            true.
    """
    rows = lock_entities(connection, refs)
    for host in refs:
        state = rows[host.id]["resource_state"]
        if not forced and state != HostResourceState.MAINTENANCE:
            rule = f"host {host.name} is in resource state {state}; it must be Maintenance, unless forced=true"
            raise InvalidParameter("id", str(host.uuid), rule)
    release_places(connection, refs)  # before the claims: affinity groups come first in the order of locks
    claims = host_rows.lock_claims(connection, [host.id for host in refs])
    for host in refs:
        if host.id in claims:
            vms, volumes = claims[host.id]
            rule = f"{vms} VM(s) and {volumes} volume(s) are on it"
            raise ResourceInUse(f"Host {host.name} cannot be deleted: {rule}")
    host_rows.remove_with_pools(connection, [host.id for host in refs])
    record_events(connection, caller, deleted_events(EventType.HOST_DELETE, KIND, refs))


def reach_again(connection: Connection, system: System, host: EntityRef) -> HostReachedAgain:
    """Connect to a host again and read its present hardware, before the transaction.

    If the host was declared off, guests that still run on it are stopped first, because they may run on other
    hosts.

    Raises:
        InvalidParameter: the host was deleted, is being evacuated, or has no URL.
        ResourceUnavailable: the host does not respond, or a guest that is not registered on it may still run there.
    """
    facts = host_rows.reaching_facts(connection, host.id)
    if facts is None or facts["url"] is None:
        why = "the host was deleted" if facts is None else "the host has no url to reach it by"
        raise InvalidParameter("id", str(host.uuid), why)
    _require_not_evacuated(connection, host)
    promise = HostPromise(facts["cpu_overcommit"], facts["memory_overcommit"], facts["vms_limit"])
    cluster = facts["cluster_id"]
    of_others = host_rows.guest_hardware(connection, [cluster], without=host.id).get(cluster, frozenset())
    known = NewHost(host.uuid, facts["hypervisor"], HostAccess(facts["url"]), promise, of_others)
    (model,) = reach(system, [known])
    if facts["fenced"] is not None:
        end_leftovers(connection, system, host)
    return HostReachedAgain(model, facts["fenced"])


def reconnect_host(connection: Connection, caller: Caller, host: EntityRef, reached: HostReachedAgain) -> JobTicket:
    """Write the hardware that a reconnected host reports, and set the host to Up; the job's result is the host.

    Raises:
        InvalidParameter: the host was deleted, is being evacuated, or was fenced after ``reach_again``.
    """
    row = lock_entity(connection, host)
    _require_not_evacuated(connection, host)
    if row["fenced"] != reached.fenced:
        raise InvalidParameter("id", str(host.uuid), "the host was fenced during this call: repeat the call")
    change_row(connection, host, {"state": HostState.UP, "fenced": None, **hardware(reached.model)})
    host_rows.refresh_limits(connection, [host.id])
    record_event(connection, caller, EventType.HOST_RECONNECT, f"reconnected host {host.name}", subject(KIND, host))
    row = only_row(hosts.list_hosts(connection, {"id": host}, ONE, with_capacity=True))
    return done_with_object(connection, caller, RECONNECT, "host", row, Instance(KIND, host.id, host.uuid))


def _require_not_evacuated(connection: Connection, host: EntityRef) -> None:
    """Raise InvalidParameter if a job evacuates the host.

    The job will fence the host, so VMs must not be started on it even if it responds.
    """
    job = evacuation_of(connection, host.id)
    if job is not None:
        raise InvalidParameter(
            "id", str(host.uuid), f"job {job} evacuates the host: reconnect the host when this job has ended"
        )
