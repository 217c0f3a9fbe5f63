"""Telling hypervisors how much of themselves the hosts of a cluster may promise."""

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import ResourceUnavailable
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.registry import NoDriverFor
from bulkdeploy.services.system import System
from bulkdeploy.store.clusters import CPU_FACTOR, MEMORY_FACTOR, hosts_of, overcommit_of
from bulkdeploy.store.engine import read_only


def tell_hosts(system: System, cluster: EntityRef) -> None:
    """Let a cluster's hosts promise what its over-commit says now; called after the commit that changed it.

    Between the two, or where a process dies there, hosts refuse starts that need the new room, and those are
    tried elsewhere. Saying it again is harmless, so that repeating the call mends it.

    Raises:
        ResourceUnavailable: the hypervisor does not answer; the setting holds all the same.
    """
    with read_only(system.engine) as connection:
        hypervisor, uuids = hosts_of(connection, cluster.id)
        factors = overcommit_of(connection, cluster.id)
    if not uuids:
        return
    try:
        driver = system.drivers.driver_for(hypervisor)
    except NoDriverFor:
        return
    try:
        driver.ensure_overcommit(
            uuids, factors[CPU_FACTOR], factors[MEMORY_FACTOR], timeout_s=system.driver_timeout_s
        )
    except DriverError as error:
        raise ResourceUnavailable(
            f"Cluster {cluster.name} has its new over-commit, but its hosts were not told ({error.reason});"
            " repeat the call"
        ) from error
