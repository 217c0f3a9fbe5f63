"""The sweeper's health checks of guests whose VMs were replaced."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Engine, Row

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestCheck
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.security.guest_networks import GuestNetworks
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.deployments import guest_health as store

log = structlog.get_logger(__name__)

ANSWER_S = 5.0
"""Seconds for which a guest may take to answer."""

BATCH = 1000
"""Guests that are checked before the results are written. Results of silent guests must not be old by then."""


class GuestHealthWatch:
    """The check of guests that were replaced in managed deployments, while the replacement is in progress.

    A guest is checked every ``store.CHECK_EVERY_S`` seconds, regardless of the number of sweepers. Guests that
    cannot be checked have no result: their replacement waits, and no VM is destroyed.

    Args:
        engine: the database.
        drivers: the hypervisors' drivers.
        timeout_s: the timeout of a driver call in seconds.
        networks: the networks to which checks of TCP ports may connect.
    """

    def __init__(self, engine: Engine, drivers: FindsDrivers, timeout_s: float, networks: GuestNetworks) -> None:
        self._engine, self._drivers, self._timeout_s = engine, drivers, min(timeout_s, ANSWER_S)
        self._networks = networks

    def check_guests(self) -> None:
        """Check all guests that are due, and write for each batch which guests answered."""
        after = 0
        while True:
            with read_only(self._engine) as connection:
                due = store.due_checks(connection, after, BATCH)
            self._check_batch(due)
            if len(due) < BATCH:
                return
            after = max(vm.id for vm in due)

    def _check_batch(self, due: Sequence[Row[Any]]) -> None:
        by_hypervisor: dict[str, list[Row[Any]]] = defaultdict(list)
        for vm in due:
            by_hypervisor[vm.hypervisor].append(vm)
        for hypervisor, vms in by_hypervisor.items():
            try:
                answers = self._query_guests(hypervisor, vms)
            except (DriverError, NoDriverFor) as error:
                log.warning("guests_not_checked", hypervisor=hypervisor, guests=len(vms), why=str(error))
                continue
            found = {vm.id: answers[vm.uuid] for vm in vms if vm.uuid in answers}
            write = partial(store.note_answers, began=vms[0].began, answers=found)
            run_transaction(self._engine, write, Failpoint.SWEEP_HEALTH)

    def _query_guests(self, hypervisor: str, vms: Sequence[Row[Any]]) -> Mapping[UUID, bool]:
        driver = self._drivers.driver_for(hypervisor)
        connectable = self._networks.connectable({vm.guest_address for vm in vms if vm.guest_address is not None})
        checks, excluded = [], 0
        for vm in vms:
            check = HealthCheck.read(vm.health_check)
            host = HostAddress(vm.host_uuid, vm.host_name, vm.ip_address, vm.hypervisor, vm.url)
            if check is not None and check.port is not None and vm.guest_address not in connectable:
                excluded += 1
            elif check is not None:
                checks.append(GuestCheck(host, vm.uuid, vm.guest_address, check))
        if excluded:
            why = "their addresses must not be connected to (guest_health_networks)"
            log.warning("guests_not_checked", hypervisor=hypervisor, guests=excluded, why=why)
        return driver.answers_of_guests(checks, timeout_s=self._timeout_s) if checks else {}
