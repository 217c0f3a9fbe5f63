"""The cluster to which a host is added, and the hardware that the host reports."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceUnavailable
from bulkdeploy.domain.infrastructure.topology import LOCAL_POOL_TYPES, OTHER_VMS_LIMIT, VMS_LIMIT, PoolScope
from bulkdeploy.domain.urls import redact_url
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost, address_of
from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.services.abilities import require_driver
from bulkdeploy.services.infrastructure.host_files import push
from bulkdeploy.services.live_entities import given_refs
from bulkdeploy.services.system import System
from bulkdeploy.store.infrastructure import clusters
from bulkdeploy.store.infrastructure.host_migration import guests_kept_on, read_address
from bulkdeploy.store.rows.filters import Arguments

LOCAL = "local"


def find_clusters(connection: Connection, batch: Sequence[Arguments]) -> list[Mapping[str, Any]]:
    """Return the cluster for each new host (``store.infrastructure.clusters.facts``), in the order of ``batch``.

    Raises:
        InvalidParameter: there is no such cluster, or zone, pod, cluster and hypervisor do not match.
    """
    by_id = clusters.facts_by_id(connection, {ref.id for ref in given_refs(batch, "clusterid")})
    pods = {given["podid"].id for given in batch if "clusterid" not in given}
    by_name = clusters.facts_of_pods(connection, pods) if pods else {}
    return [_cluster(given, by_id, by_name) for given in batch]


def _cluster(
    given: Arguments,
    by_id: Mapping[int, Mapping[str, Any]],
    by_name: Mapping[tuple[int, str], Mapping[str, Any]],
) -> Mapping[str, Any]:
    zone: EntityRef = given["zoneid"]
    pod: EntityRef = given["podid"]
    if (ref := given.get("clusterid")) is not None:
        parameter, shown, row = "clusterid", str(ref.uuid), by_id.get(ref.id)
    else:
        parameter, shown = "clustername", given["clustername"]
        row = by_name.get((pod.id, shown))
    if row is None:
        raise InvalidParameter(parameter, shown, f"pod {pod.name} has no such cluster; create it with addCluster")
    if row["pod_id"] != pod.id:
        raise InvalidParameter(parameter, shown, f"cluster {row['name']} is not in pod {pod.name}")
    if row["zone_id"] != zone.id:
        raise InvalidParameter("podid", str(pod.uuid), f"pod {pod.name} is not in zone {zone.name}")
    if given["hypervisor"] != row["hypervisor"]:
        raise InvalidParameter(
            "hypervisor", given["hypervisor"], f"the hosts of cluster {row['name']} run {row['hypervisor']}"
        )
    return row


def driver_of(system: System, hypervisor: str) -> HypervisorDriver:
    """Return the driver of a hypervisor.

    Raises:
        InvalidParameter: the settings name no driver for it.
    """
    require_driver(system.drivers, hypervisor, "hypervisor", hypervisor)
    return system.drivers.driver_for(hypervisor)


def reach(system: System, hosts: Sequence[NewHost]) -> list[HostModel]:
    """Connect to machines, register them as hosts, read their hardware, and write the files that all hosts need.

    Returns the hardware of each host.

    Raises:
        InvalidParameter: there is no driver for a hypervisor, or a driver rejects a URL.
        ResourceUnavailable: a host does not respond.
    """
    models: dict[UUID, HostModel] = {}
    for hypervisor in dict.fromkeys(host.hypervisor for host in hosts):
        alike = [host for host in hosts if host.hypervisor == hypervisor]
        answers = driver_of(system, hypervisor).admit_hosts(alike, timeout_s=system.driver_timeout_s)
        for host, answer in zip(alike, answers, strict=True):
            if isinstance(answer, DriverError):
                raise refused_by_driver(answer, host.access.url) from answer
            models[host.uuid] = answer
    _push_files(system, hosts, models)
    return [models[host.uuid] for host in hosts]


def end_leftovers(connection: Connection, system: System, host: EntityRef) -> None:
    """Stop the guests that still run on a host that was declared off, except guests whose rows are on the host.

    The call can be repeated. It changes no row.

    Raises:
        ResourceUnavailable: the host does not respond, or a guest may still run there.
    """
    address = address_of(read_address(connection, host.id))
    kept = guests_kept_on(connection, host.id)
    driver = system.drivers.driver_for(address.hypervisor)
    failpoints.before(Failpoint.DRIVER_LEFTOVERS)
    try:
        driver.end_leftovers(address, kept, timeout_s=system.driver_timeout_s)
    except DriverError as error:
        rule = "the host takes no virtual machines before the guests that were started elsewhere have ended on it"
        raise ResourceUnavailable(f"{error}; {rule}") from error
    failpoints.after(Failpoint.DRIVER_LEFTOVERS)


def _push_files(system: System, hosts: Sequence[NewHost], models: Mapping[UUID, HostModel]) -> None:
    """Write the service's files to new hosts.

    A host to which the files cannot be written is rejected, because it would differ from the other hosts.
    """
    addresses = [
        HostAddress(
            host.uuid, models[host.uuid].name, models[host.uuid].ip_address, host.hypervisor, host.access.url
        )
        for host in hosts
    ]
    try:
        files = system.host_files()
    except DriverSettingError as error:
        raise ResourceUnavailable(str(error)) from error
    for pushed in push(system.drivers, addresses, files, timeout_s=system.driver_timeout_s):
        if pushed.problem is not None:
            raise ResourceUnavailable(f"Files of the setting host_files: {pushed.problem}")


def refused_by_driver(error: DriverError, url: str) -> Exception:
    """Return the error of addHost: ResourceUnavailable for a transient driver error, else InvalidParameter."""
    if error.transient:
        return ResourceUnavailable(f"Nothing answers at {redact_url(url)}: {error.reason}")
    return InvalidParameter("url", url, error.reason)


def vms_limit(hypervisor: str) -> int:
    """Return the maximum number of VMs on a host of this hypervisor."""
    return VMS_LIMIT.get(hypervisor, OTHER_VMS_LIMIT)


def hardware(model: HostModel) -> dict[str, Any]:
    """Convert the hardware that a host reports to columns of its row."""
    return {
        "ip_address": model.ip_address,
        "cpu_sockets": model.cpu_sockets,
        "cpu_cores": model.cpu_cores,
        "cpu_mhz": model.cpu_mhz,
        "memory_mib": model.memory_mib,
        "hypervisor_version": model.hypervisor_version,
        "guest_hardware": model.guest_hardware,
    }


def local_pool(host: EntityRef, values: Mapping[str, Any], model: HostModel) -> dict[str, Any]:
    """Return the row of the storage pool for a host's own disks, which is called ``<host>-local``."""
    return {
        **{column: values[column] for column in ("zone_id", "pod_id", "cluster_id", "ip_address")},
        "host_id": host.id,
        "name": f"{host.name}-{LOCAL}",
        "scope": PoolScope.HOST.value,
        "pool_type": LOCAL_POOL_TYPES.get(values["hypervisor"], "Filesystem"),
        "capacity_bytes": model.local_disk_bytes,
    }
