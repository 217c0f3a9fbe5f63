"""Operations on clusters: create, update and delete."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.infrastructure.places import delete_places
from bulkdeploy.services.live_entities import changed_events, given_refs, lock_entities, subject, unique_name
from bulkdeploy.store.configuration.configurations import CPU_FACTOR, MEMORY_FACTOR, read_configuration
from bulkdeploy.store.infrastructure import clusters
from bulkdeploy.store.infrastructure.dedications import zones_of
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows, parents_in_use

KIND = "Cluster"
OF_THE_POD = "another cluster of the pod"
STATES = {"allocationstate", "allocpolicy", "managedstate"}


def add_clusters(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create clusters, with the over-commit factors that the settings define for new clusters.

    Raises:
        InvalidParameter: a pod is in another zone, or a name is already used.
    """
    pods = lock_entities(connection, given_refs(batch, "podid"), "podid", shared=True)
    for given in batch:
        zone, pod = given["zoneid"], given["podid"]
        if pods[pod.id]["zone_id"] != zone.id:
            raise InvalidParameter("podid", str(pod.uuid), f"pod {pod.name} is not in zone {zone.name}")
    configuration = read_configuration(connection)
    overcommit = {
        "cpu_overcommit": configuration.decimal(CPU_FACTOR),
        "memory_overcommit": configuration.decimal(MEMORY_FACTOR),
    }
    rows = [{**overcommit, **columns_of(clusters.FIELDS, given)} for given in batch]
    with unique_name("clustername", rows[0]["name"], OF_THE_POD):
        made = insert_rows(connection, Entity.CLUSTER, rows)
    record_events(connection, caller, map(_added, made, batch))
    return made


def _added(cluster: EntityRef, given: Arguments) -> Happened:
    text = f"added cluster {cluster.name} to pod {given['podid'].name} of zone {given['zoneid'].name}"
    return Happened(EventType.CLUSTER_CREATE, text, subject(KIND, cluster))


def update_clusters(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change clusters. Later placements respect whether the clusters are enabled and managed.

    Raises:
        InvalidParameter: a name is already used, or the hypervisor would change while the cluster has hosts.
    """
    switched = [cluster for cluster, given in changes if given.keys() & STATES]
    if switched:
        change_zone_rules(connection, {zone.id for zone in zones_of(connection, switched).values()})
    rows = lock_entities(connection, [cluster for cluster, _ in changes])
    others = {
        cluster: given["hypervisor"]
        for cluster, given in changes
        if given.get("hypervisor", rows[cluster.id]["hypervisor"]) != rows[cluster.id]["hypervisor"]
    }
    with_hosts = parents_in_use(connection, clusters.HOSTS, [cluster.id for cluster in others])
    for cluster, hypervisor in others.items():
        if cluster.id in with_hosts:
            rule = f"cluster {cluster.name} has hosts of {rows[cluster.id]['hypervisor']}"
            raise InvalidParameter("hypervisor", hypervisor, rule)
    written = [(cluster, columns_of(clusters.FIELDS, given)) for cluster, given in changes]
    with unique_name("clustername", changes[0][1].get("clustername"), OF_THE_POD):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.CLUSTER_EDIT, KIND, written))


def delete_clusters(connection: Connection, caller: Caller, places: Sequence[EntityRef]) -> None:
    """Delete empty clusters.

    Raises:
        InvalidParameter: a cluster still has hosts or pools.
    """
    delete_places(connection, caller, places, clusters.CONTENTS, EventType.CLUSTER_DELETE, KIND)
