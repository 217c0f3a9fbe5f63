"""Making, changing and deleting clusters (reference section 8.3)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.infrastructure.places import delete_place
from bulkdeploy.services.inventory.inventory_values import name
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.wire_values import checked
from bulkdeploy.store.configuration.configuration import read_configuration
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import clusters
from bulkdeploy.store.infrastructure.dedications import zone_of
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.listing import Page
from bulkdeploy.store.live_rows import change_row, has_live, insert_row

KIND = "Cluster"
OF_THE_POD = "another cluster of the pod"
COLUMNS = {
    "clustertype": "cluster_type",
    "allocationstate": "allocation_state",
    "managedstate": "managed_state",
    "hypervisor": "hypervisor",
}
STATES = {"allocation_state", "managed_state"}


def add_cluster(connection: Connection, caller: Caller, given: Arguments) -> Page:
    """Make a cluster, with the over-commit that the settings say for clusters that are added.

    Raises:
        InvalidParameter: a value that breaks its rule, a pod of another zone, or a name that is taken.
    """
    zone, pod = given["zoneid"], given["podid"]
    if hold(connection, pod, "podid", shared=True)["zone_id"] != zone.id:
        raise InvalidParameter("podid", str(pod.uuid), f"pod {pod.name} is not in zone {zone.name}")
    configuration = read_configuration(connection)
    values = {
        "zone_id": zone.id,
        "pod_id": pod.id,
        "cpu_overcommit": configuration.decimal(clusters.CPU_FACTOR),
        "memory_overcommit": configuration.decimal(clusters.MEMORY_FACTOR),
        **_columns(given),
    }
    with unique_name("clustername", values["name"], OF_THE_POD):
        cluster = insert_row(connection, Entity.CLUSTER, values)
    text = f"added cluster {cluster.name} to pod {pod.name} of zone {zone.name}"
    return _told(connection, caller, EventType.CLUSTER_CREATE, cluster, text)


def update_cluster(
    connection: Connection, caller: Caller, cluster: EntityRef, given: Arguments
) -> Mapping[str, Any]:
    """Change a cluster; the next plan sees whether it is enabled and managed.

    Raises:
        InvalidParameter: a value that breaks its rule, a name that is taken, or another hypervisor while
            there are hosts.
    """
    values = _columns(given)
    if values.keys() & STATES:
        change_zone_rules(connection, zone_of(connection, cluster).id)
    row = hold(connection, cluster)
    other = values.get("hypervisor", row["hypervisor"]) != row["hypervisor"]
    if other and has_live(connection, clusters.HOSTS, cluster.id):
        raise InvalidParameter(
            "hypervisor", values["hypervisor"], f"cluster {cluster.name} has hosts of {row['hypervisor']}"
        )
    with unique_name("clustername", values.get("name"), OF_THE_POD):
        change_row(connection, cluster, values)
    text = f"changed cluster {cluster.name}{changed(values)}"
    return only_row(_told(connection, caller, EventType.CLUSTER_EDIT, cluster, text))


def delete_cluster(connection: Connection, caller: Caller, cluster: EntityRef) -> None:
    """Delete a cluster that is empty.

    Raises:
        InvalidParameter: hosts or pools are still in it.
    """
    delete_place(connection, caller, cluster, clusters.CONTENTS, EventType.CLUSTER_DELETE, KIND)


def _columns(given: Arguments) -> dict[str, Any]:
    values = {column: given[parameter] for parameter, column in COLUMNS.items() if parameter in given}
    if "clustername" in given:
        values["name"] = checked("clustername", given["clustername"], name())
    return values


def _told(connection: Connection, caller: Caller, event: EventType, cluster: EntityRef, text: str) -> Page:
    record_event(connection, caller, event, text, subject(KIND, cluster))
    return clusters.list_clusters(connection, {"id": cluster}, ONE)
