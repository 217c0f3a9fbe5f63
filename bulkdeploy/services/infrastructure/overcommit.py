"""Telling hypervisors how much of themselves the hosts of a cluster may promise."""

from sqlalchemy import Connection

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import ResourceUnavailable
from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.registry import NoDriverFor
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configuration import CPU_FACTOR, MEMORY_FACTOR
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.infrastructure.clusters import hosts_of, overcommit_of


def register_hosts(connection: Connection, system: System, cluster: EntityRef) -> None:
    """Let a cluster's hosts promise, once the transaction is committed, what its over-commit says in it.

    Between the two, or where a process dies there, hosts refuse starts that need the new room, and those are
    tried elsewhere. Saying it again is harmless, so that repeating the call mends it. A hypervisor that does not
    answer fails the call with ``ResourceUnavailable``; the setting holds all the same.
    """
    hypervisor, uuids = hosts_of(connection, cluster.id)
    if not uuids:
        return
    try:
        driver = system.drivers.driver_for(hypervisor)
    except NoDriverFor:
        return
    factors = overcommit_of(connection, cluster.id)
    cpu, memory, timeout_s = factors[CPU_FACTOR], factors[MEMORY_FACTOR], system.driver_timeout_s

    def tell(_: object) -> None:
        try:
            driver.ensure_overcommit(uuids, cpu, memory, timeout_s=timeout_s)
        except DriverError as error:
            raise ResourceUnavailable(
                f"Cluster {cluster.name} has its new over-commit, but its hosts were not told ({error.reason});"
                " repeat the call"
            ) from error

    after_commit(connection, tell)
