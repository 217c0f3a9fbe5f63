"""The over-commit factors of clusters, sent to their hypervisors."""

from collections.abc import Iterable
from functools import partial

from sqlalchemy import Connection

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import ResourceUnavailable
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.registry import NoDriverFor
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.infrastructure.clusters import ClusterOvercommit, clusters_with_hosts


def register_hosts(connection: Connection, system: System, clusters: Iterable[EntityRef]) -> None:
    """Send the over-commit factors of clusters to their hypervisors after the transaction is committed.

    Between the commit and this call, or if the process dies in between, hosts reject starts that need the new
    capacity; those starts are retried on other hosts. The call can be repeated to repair this. If a hypervisor does
    not respond, the call fails with ``ResourceUnavailable``, and the setting stays changed.
    """
    for cluster in clusters_with_hosts(connection, [ref.id for ref in clusters]):
        try:
            driver = system.drivers.driver_for(cluster.hypervisor)
        except NoDriverFor:
            continue
        after_commit(connection, partial(_send_overcommit, driver, cluster, system.driver_timeout_s))


def _send_overcommit(driver: HypervisorDriver, cluster: ClusterOvercommit, timeout_s: float, _: object) -> None:
    try:
        driver.ensure_overcommit(cluster.host_uuids, cluster.cpu, cluster.memory, timeout_s=timeout_s)
    except DriverError as error:
        raise ResourceUnavailable(
            f"Cluster {cluster.name} has its new over-commit, but the hypervisor did not receive it "
            f"({error.reason}); repeat the call"
        ) from error
