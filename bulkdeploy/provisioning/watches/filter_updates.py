"""The sweeper's updates of the packet filters of running guests when security group rules change.

The rules that a guest has are recorded as a digest. The rules of a guest change not only by calls about rules, but
also when a VM joins or leaves a peer group. Therefore the current rules are compared with the recorded digests, and
calls do not announce changes. A host that rejects the rules is tried again in the next round, and so is a host
whose guest has no filter.
"""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from sqlalchemy import Engine, Row

from bulkdeploy.drivers.abilities.security_groups import SecurityGroupFilters
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.parallel_calls import HOSTS_AT_ONCE
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.driver_calls import PATIENCE_S
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.hypervisors import security_rules as store
from bulkdeploy.store.hypervisors.watching import hypervisors_in_use
from bulkdeploy.telemetry import metrics

log = structlog.get_logger(__name__)


class FilterUpdates:
    """The sweeper's pass that updates packet filters.

    Args:
        engine: the database.
        drivers: the drivers of hypervisors.
        timeout_s: the timeout for one host in seconds, at most PATIENCE_S.
    """

    def __init__(self, engine: Engine, drivers: FindsDrivers, timeout_s: float) -> None:
        self._engine, self._drivers, self._timeout_s = engine, drivers, min(timeout_s, PATIENCE_S)

    def update_filters(self) -> None:
        """Apply the current security group rules to all running guests whose filters are outdated."""
        with read_only(self._engine) as connection:
            filtering = [kind for kind in hypervisors_in_use(connection) if self._filters(kind)]
            vms = store.outdated(connection, filtering) if filtering else []
        by_host: dict[HostAddress, list[Row[Any]]] = defaultdict(list)
        for vm in vms:
            by_host[HostAddress(vm.host_uuid, vm.host_name, vm.ip_address, vm.hypervisor, vm.url)].append(vm)
        if by_host:
            with ThreadPoolExecutor(min(HOSTS_AT_ONCE, len(by_host))) as threads:
                updated = sum(threads.map(self._update, by_host.keys(), by_host.values()))
            metrics.SWEPT.labels("filters").inc(updated)
            if updated:
                log.info("filters_updated", guests=updated)

    def _filters(self, hypervisor: str) -> bool:
        try:
            return SecurityGroupFilters in self._drivers.driver_for(hypervisor).abilities
        except NoDriverFor:
            return False

    def _update(self, host: HostAddress, vms: Sequence[Row[Any]]) -> int:
        """Update the packet filters of one host's guests.

        Returns how many guests now have their current rules.
        """
        try:
            driver = SecurityGroupFilters.of(self._drivers.driver_for(host.hypervisor), "filter", host)
            filtered = set(driver.ensure_filters(host, [vm.uuid for vm in vms], timeout_s=self._timeout_s))
        except DriverError as error:
            log.warning("filters_not_updated", host=host.name, guests=len(vms), why=str(error))
            return 0
        given = [vm for vm in vms if vm.uuid in filtered]
        if given:
            run_transaction(
                self._engine, lambda connection: store.note_filters(connection, given), Failpoint.SWEEP_FILTERS
            )
        return len(given)
