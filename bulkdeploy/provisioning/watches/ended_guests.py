"""The jobs for VMs whose guests ended without a call: a stop, or a restart if the VM is highly available.

A guest that was shut down from inside, or that an operator powered off on the host, stays off. A crashed guest is
started again on its host ``vm.ha.restart.attempts`` times within an hour, then as often on other hosts. After that
its VM is stopped with an alert, because a guest that crashes on every host needs an operator.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.jobs import CRASHES, GUEST_ENDED, LEAVES_HOST
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.queue.job_queue import INTERACTIVE
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.hypervisors import watching as store
from bulkdeploy.store.jobs.alerts import record_alerts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import NewJob, insert_jobs


def stop_or_restart(
    connection: Connection, *, host_uuids: Sequence[UUID], vm_uuids: frozenset[UUID], crashed: frozenset[UUID]
) -> int:
    """Create jobs that stop or restart the VMs of ended guests, and return the number of jobs.

    Each job runs in the name of the VM's owner.

    Args:
        connection: has an open transaction.
        host_uuids: the hosts that were queried.
        vm_uuids: the VMs that have no running guest there. VMs that now have an unfinished job are skipped.
        crashed: the VMs whose guests crashed.
    """
    vms = store.lock_settled_vms(connection, host_uuids, vm_uuids)
    if not vms:
        return 0
    configuration = read_configuration(connection)
    attempts = configuration.number("vm.ha.restart.attempts") if configuration.flag("vm.ha.enabled") else 0
    restarts = _restarts(connection, [vm.id for vm in vms if vm.uuid in crashed]) if attempts else {}
    jobs: list[NewJob] = []
    alerts: list[Alert] = []
    for vm in vms:
        restarted = restarts.get(vm.id)
        if restarted is not None and restarted < 2 * attempts:
            jobs.append(_restart_job(vm, restarted, attempts))
            continue
        jobs.append(_stop_job(vm))
        if restarted is not None:
            alerts.append(_crashes_too_often(vm, restarted))
    record_alerts(connection, alerts)
    insert_jobs(connection, jobs, INTERACTIVE)
    return len(jobs)


def _restarts(connection: Connection, vm_ids: Sequence[int]) -> dict[int, int]:
    """Return how often each highly available VM was restarted after crashes within the last hour."""
    available = store.highly_available(connection, vm_ids) if vm_ids else set()
    return {**dict.fromkeys(available, 0), **store.restarts_of_late(connection, available)} if available else {}


def _restart_job(vm: Row[Any], restarts: int, attempts: int) -> NewJob:
    crashes = restarts + 1
    leaves = restarts >= attempts
    place = "elsewhere" if leaves else "on its host"
    return REBOOT.new_job(
        Instance(REBOOT.instance_type, vm.id, vm.uuid),
        f"starting Vm {vm.name} again {place}: its guest crashed, {crashes} times within an hour",
        account_id=vm.account_id,
        user_id=vm.user_id,
        params={"forced": True, CRASHES: crashes, LEAVES_HOST: leaves},
    )


def _stop_job(vm: Row[Any]) -> NewJob:
    return STOP.new_job(
        Instance(STOP.instance_type, vm.id, vm.uuid),
        f"stopping Vm {vm.name}, whose guest has ended",
        account_id=vm.account_id,
        user_id=vm.user_id,
        params={"forced": True, GUEST_ENDED: True},
    )


def _crashes_too_often(vm: Row[Any], restarts: int) -> Alert:
    return Alert(
        AlertType.USER_VM,
        f"Virtual machine {vm.name} is stopped: its guest crashed {restarts + 1} times within an hour, on its host"
        " and on others (vm.ha.restart.attempts). Look for the reason in the guest, then call startVirtualMachine",
    )
