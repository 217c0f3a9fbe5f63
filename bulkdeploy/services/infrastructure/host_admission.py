"""Which cluster a host is added to, and what the machine says it has."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceUnavailable
from bulkdeploy.domain.inventory import OTHER_VMS_LIMIT, VMS_LIMIT
from bulkdeploy.domain.topology import HypervisorType, PoolScope
from bulkdeploy.drivers.driver import DriverError, HypervisorDriver
from bulkdeploy.drivers.hosts import HostAccess, HostModel, HostPromise, NewHost
from bulkdeploy.services.abilities import require_driver
from bulkdeploy.services.inventory.inventory_hosts import LOCAL_POOL_TYPES
from bulkdeploy.services.system import System
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import clusters

LOCAL = "local"


def checked_url(written: str, parameter: str = "url") -> str:
    """A url with a scheme, and with a host or a path.

    Raises:
        InvalidParameter: it is none.
    """
    rule = "it should be a url such as http://10.1.1.5 or nfs://10.1.1.9/export/primary"
    try:
        parts = urlsplit(written)
        names_something = bool(parts.hostname or parts.path.strip("/"))
        is_written_well = "://" in written and written == "".join(written.split()) and parts.port != 0
    except ValueError as error:
        raise InvalidParameter(parameter, written, rule) from error
    if not (parts.scheme and names_something and is_written_well):
        raise InvalidParameter(parameter, written, rule)
    if parts.password is not None:
        raise InvalidParameter(parameter, f"{parts.scheme}://...", "a password should be in a parameter of its own")
    return written


def find_cluster(connection: Connection, given: Arguments) -> Mapping[str, Any]:
    """The cluster that a host is to join (``store.infrastructure.clusters.facts``).

    Raises:
        InvalidParameter: there is no such cluster, or zone, pod, cluster and hypervisor do not belong together.
    """
    zone: EntityRef = given["zoneid"]
    pod: EntityRef = given["podid"]
    if (ref := given.get("clusterid")) is not None:
        parameter, shown = "clusterid", str(ref.uuid)
        row = clusters.facts(connection, cluster_id=ref.id)
    else:
        parameter, shown = "clustername", given["clustername"]
        row = clusters.facts(connection, pod_id=pod.id, name=shown)
    if row is None:
        raise InvalidParameter(
            parameter, shown, f"there is no such cluster in pod {pod.name}; addCluster makes one"
        )
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
    """The driver of a hypervisor.

    Raises:
        InvalidParameter: the settings name none.
    """
    require_driver(system.drivers, hypervisor, "hypervisor", hypervisor)
    return system.drivers.driver_for(hypervisor)


def reach(system: System, uuid: UUID, hypervisor: str, access: HostAccess, promise: HostPromise) -> HostModel:
    """Let a machine know that it is a host, and learn what it has.

    Raises:
        InvalidParameter: there is no driver for it, or the url names nothing that could be one.
        ResourceUnavailable: it does not answer.
    """
    driver = driver_of(system, hypervisor)
    try:
        return driver.admit_host(NewHost(uuid, hypervisor, access, promise), timeout_s=system.driver_timeout_s)
    except DriverError as error:
        raise refused_by_driver(error, access.url) from error


def refused_by_driver(error: DriverError, url: str) -> Exception:
    """What a driver's refusal means to the caller: a url that is wrong for good, or nobody there just now."""
    if error.transient:
        return ResourceUnavailable(f"Nothing answers at {url}: {error.reason}")
    return InvalidParameter("url", url, error.reason)


def vms_limit(hypervisor: str) -> int:
    """How many VMs a host of this hypervisor holds at most."""
    kind = HypervisorType.parse(hypervisor)
    return OTHER_VMS_LIMIT if kind is None else VMS_LIMIT.get(kind, OTHER_VMS_LIMIT)


def hardware(model: HostModel) -> dict[str, Any]:
    """What a host says it has, as columns."""
    return {
        "ip_address": model.ip_address,
        "cpu_sockets": model.cpu_sockets,
        "cpu_cores": model.cpu_cores,
        "cpu_mhz": model.cpu_mhz,
        "memory_mib": model.memory_mib,
        "hypervisor_version": model.hypervisor_version,
    }


def local_pool(host: EntityRef, values: Mapping[str, Any], model: HostModel) -> dict[str, Any]:
    """The pool of a host's own disks, named as inventories name it."""
    kind = HypervisorType.parse(values["hypervisor"])
    return {
        **{column: values[column] for column in ("zone_id", "pod_id", "cluster_id", "ip_address")},
        "host_id": host.id,
        "name": f"{host.name}-{LOCAL}",
        "scope": PoolScope.HOST.value,
        "pool_type": "Filesystem" if kind is None else LOCAL_POOL_TYPES.get(kind, "Filesystem"),
        "capacity_bytes": model.local_disk_bytes,
    }
