"""The sweeper's health checks of guests whose VMs were replaced."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Engine, Row

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.drivers.driver import DriverError, GuestCheck
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import FindsDrivers, NoDriverFor
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.deployments import guest_health as store

log = structlog.get_logger(__name__)

ANSWER_S = 5.0
"""Seconds for which a guest may take to answer."""


class GuestHealthWatch:
    """The check of guests that were replaced in managed deployments, while the replacement is in progress.

    A guest is checked every ``store.CHECK_EVERY_S`` seconds, however many sweepers there are. A guest whose
    hypervisor has no driver counts as answering.
    """

    def __init__(self, engine: Engine, drivers: FindsDrivers, timeout_s: float) -> None:
        self._engine, self._drivers, self._timeout_s = engine, drivers, min(timeout_s, ANSWER_S)

    def check_guests(self) -> None:
        """Check all guests that are due, and write which of them answered."""
        with read_only(self._engine) as connection:
            due = store.due_checks(connection)
        by_hypervisor: dict[str, list[Row[Any]]] = defaultdict(list)
        for vm in due:
            by_hypervisor[vm.hypervisor].append(vm)
        for hypervisor, vms in by_hypervisor.items():
            try:
                answers = self._query_guests(hypervisor, vms)
            except DriverError as error:
                log.warning("guests_not_checked", hypervisor=hypervisor, guests=len(vms), why=str(error))
                continue
            found = {vm.id: answers[vm.uuid] for vm in vms if vm.uuid in answers}
            write = partial(store.note_answers, began=vms[0].began, answers=found)
            run_transaction(self._engine, write, Failpoint.SWEEP_HEALTH)

    def _query_guests(self, hypervisor: str, vms: Sequence[Row[Any]]) -> Mapping[UUID, bool]:
        try:
            driver = self._drivers.driver_for(hypervisor)
        except NoDriverFor:
            return {vm.uuid: True for vm in vms}
        checks = []
        for vm in vms:
            check = HealthCheck.read(vm.health_check)
            host = HostAddress(vm.host_uuid, vm.host_name, vm.ip_address, vm.hypervisor, vm.url)
            if check is not None:
                checks.append(GuestCheck(host, vm.uuid, vm.guest_address, check))
        return driver.answers_of_guests(checks, timeout_s=self._timeout_s)
