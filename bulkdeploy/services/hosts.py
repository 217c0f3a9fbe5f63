"""Adding, changing and deleting hosts (reference section 8.4).

What a host has is learnt from its driver, which reaches it before a row is written: a process that dies
in between leaves a machine that knows a uuid nobody will ever use.
"""

from collections.abc import Mapping
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
from bulkdeploy.drivers.driver import HostAccess, HostPromise
from bulkdeploy.services.done_jobs import done_with_object
from bulkdeploy.services.host_admission import checked_url, find_cluster, hardware, local_pool, reach, vms_limit
from bulkdeploy.services.inventory_values import host_name
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.system import System
from bulkdeploy.services.wire_values import checked, checked_tags
from bulkdeploy.store import host_rows, hosts
from bulkdeploy.store.dedications import release_place
from bulkdeploy.store.done_jobs import Instance
from bulkdeploy.store.engine import read_only, run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.listing import Page
from bulkdeploy.store.live_rows import change_row, insert_row

KIND = "Host"
OF_THE_ZONE = "another host of the zone"
RECONNECT = "org.apache.cloudstack.api.command.admin.host.ReconnectHostCmd"
SWITCHED = {"Enable": HostResourceState.ENABLED, "Disable": HostResourceState.DISABLED}


def add_host(system: System, caller: Caller, given: Arguments) -> Page:
    """Reach a machine, learn what it has, and add it to a cluster.

    Where the zone allows local storage, the host's own disks become a pool.

    Raises:
        InvalidParameter: places that do not belong together, a hypervisor that is not the cluster's or has no
            driver, a url that nobody can make a host of, or one whose name is taken.
        ResourceUnavailable: the host does not answer.
    """
    tags = checked_tags("hosttags", given.get("hosttags", ()))
    access = HostAccess(checked_url(given["url"]), given.get("username"), given.get("password"))
    state = given.get("allocationstate", HostResourceState.ENABLED.value)
    with read_only(system.engine) as connection:
        row = find_cluster(connection, given)
    cluster = EntityRef(Entity.CLUSTER, row["id"], row["uuid"], row["name"])
    uuid, hypervisor = uuid4(), row["hypervisor"]
    promise = HostPromise(row["cpu_overcommit"], row["memory_overcommit"], vms_limit(hypervisor))
    model = reach(system, uuid, hypervisor, access, promise)

    def work(connection: Connection) -> Page:
        hold(connection, cluster, "clusterid", shared=True)
        values = {
            "uuid": uuid,
            "zone_id": row["zone_id"],
            "pod_id": row["pod_id"],
            "cluster_id": cluster.id,
            "name": model.name,
            "hypervisor": hypervisor,
            "resource_state": state,
            "tags": tags,
            "url": access.url,
            **hardware(model),
        }
        with unique_name("url", access.url, f"{OF_THE_ZONE} ({model.name})"):
            host = insert_row(connection, Entity.HOST, values)
        host_rows.insert_capacity(connection, host.id, promise.guests_limit)
        if row["local_storage_enabled"] and model.local_disk_bytes:
            with unique_name("url", access.url, f"the pool of another host ({model.name}-local)"):
                insert_row(connection, Entity.STORAGE_POOL, local_pool(host, values, model))
        text = f"added host {host.name} to cluster {cluster.name}"
        return _told(connection, caller, EventType.HOST_CREATE, host, text)

    return run_transaction(system.engine, work)


def update_host(system: System, caller: Caller, host: EntityRef, given: Arguments) -> Mapping[str, Any]:
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

    def work(connection: Connection) -> Mapping[str, Any]:
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

    return run_transaction(system.engine, work)


def delete_host(system: System, caller: Caller, host: EntityRef, *, forced: bool) -> None:
    """Delete a host without VMs, and the pools of its own disks.

    Raises:
        InvalidParameter: it is not in maintenance, and the call is not ``forced``.
        ResourceInUse: VMs are, or are about to be, on it, or volumes on its disks; ``forced`` or not.
    """

    def work(connection: Connection) -> None:
        row = hold(connection, host)
        if not forced and row["resource_state"] != HostResourceState.MAINTENANCE:
            rule = f"host {host.name} is in resource state {row['resource_state']}, not Maintenance; see forced"
            raise InvalidParameter("id", str(host.uuid), rule)
        release_place(connection, host)  # before the claims: affinity groups come first in the order of locks
        vms, volumes = host_rows.lock_claims(connection, host.id)
        if vms or volumes:
            raise ResourceInUse(
                f"Host {host.name} can not be deleted: {vms} VM(s) and {volumes} volume(s) are on it"
            )
        host_rows.remove_with_pools(connection, host)
        record_event(connection, caller, EventType.HOST_DELETE, f"deleted host {host.name}", subject(KIND, host))

    run_transaction(system.engine, work)


def reconnect_host(system: System, caller: Caller, host: EntityRef) -> JobTicket:
    """Reach a host again and take over what it says it has now; the job's result is the host.

    Raises:
        InvalidParameter: it was deleted, or an inventory brought it: there is no url to reach it by.
        ResourceUnavailable: it does not answer.
    """
    with read_only(system.engine) as connection:
        facts = host_rows.reaching_facts(connection, host.id)
    if facts is None or facts["url"] is None:
        why = (
            "the host was deleted"
            if facts is None
            else "an inventory brought the host: it has no url to reach it by"
        )
        raise InvalidParameter("id", str(host.uuid), why)
    promise = HostPromise(facts["cpu_overcommit"], facts["memory_overcommit"], facts["vms_limit"])
    model = reach(system, host.uuid, facts["hypervisor"], HostAccess(facts["url"]), promise)

    def work(connection: Connection) -> JobTicket:
        hold(connection, host)
        change_row(connection, host, {"state": HostState.UP, **hardware(model)})
        host_rows.refresh_limits(connection, host.id)
        row = only_row(_told(connection, caller, EventType.HOST_RECONNECT, host, f"reconnected host {host.name}"))
        return done_with_object(connection, caller, RECONNECT, "host", row, Instance(KIND, host.id, host.uuid))

    return run_transaction(system.engine, work)


def _told(connection: Connection, caller: Caller, event: EventType, host: EntityRef, text: str) -> Page:
    record_event(connection, caller, event, text, subject(KIND, host))
    return hosts.list_hosts(connection, {"id": host}, ONE, with_capacity=True)
