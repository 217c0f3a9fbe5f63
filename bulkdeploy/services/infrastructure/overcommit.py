"""Telling hypervisors how much of themselves the hosts of a cluster may promise."""

from collections.abc import Iterable
from functools import partial

from sqlalchemy import Connection

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import ResourceUnavailable
from bulkdeploy.drivers.driver import DriverError, HypervisorDriver
from bulkdeploy.drivers.registry import NoDriverFor
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.infrastructure.clusters import PromisingCluster, promising_clusters


def register_hosts(connection: Connection, system: System, clusters: Iterable[EntityRef]) -> None:
    """Let hosts of clusters promise, once the transaction is committed, what the over-commit says in it.

    Between the two, or where a process dies there, hosts refuse starts that need the new room, and those are
    tried elsewhere. Saying it again is harmless, so that repeating the call mends it. A hypervisor that does not
    answer fails the call with ``ResourceUnavailable``; the setting holds all the same.
    """
    for cluster in promising_clusters(connection, [ref.id for ref in clusters]):
        try:
            driver = system.drivers.driver_for(cluster.hypervisor)
        except NoDriverFor:
            continue
        after_commit(connection, partial(_tell, driver, cluster, system.driver_timeout_s))


def _tell(driver: HypervisorDriver, cluster: PromisingCluster, timeout_s: float, _: object) -> None:
    try:
        driver.ensure_overcommit(cluster.host_uuids, cluster.cpu, cluster.memory, timeout_s=timeout_s)
    except DriverError as error:
        raise ResourceUnavailable(
            f"Cluster {cluster.name} has its new over-commit, but its hosts did not get it ({error.reason});"
            " repeat the call"
        ) from error
