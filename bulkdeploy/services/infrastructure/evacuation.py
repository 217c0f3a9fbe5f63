"""The evacuation of dead hosts: requests are checked here, and a job restarts the VMs on other hosts."""

from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.domain.jobs import PLANNED
from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.hosts import address_of
from bulkdeploy.provisioning.kinds.infrastructure.evacuate_host import BY_DRIVER, EVACUATE_HOST, MODE
from bulkdeploy.scheduling.moves import STARTING
from bulkdeploy.services.abilities import require_driver
from bulkdeploy.services.planned_moves import MovePlan, PlanWanted, moves_off
from bulkdeploy.services.sending import submit_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.availability.out_of_band_management import read_used_bmc
from bulkdeploy.store.infrastructure.host_maintenance import lock_host
from bulkdeploy.store.infrastructure.host_migration import read_address, set_host_state
from bulkdeploy.store.jobs.done_jobs import Instance


def host_answers(connection: Connection, system: System, host: EntityRef) -> bool | None:
    """Return whether a host responds to its driver now, or None if the driver cannot tell. No transaction is open.

    Raises:
        InvalidParameter: there is no driver for the host's hypervisor.
    """
    row = read_address(connection, host.id)
    require_driver(system.drivers, row.hypervisor, "id", str(host.uuid))
    return system.drivers.driver_for(row.hypervisor).answers(address_of(row), timeout_s=system.driver_timeout_s)


def evacuate_host(
    connection: Connection,
    system: System,
    caller: Caller,
    host: EntityRef,
    *,
    answers: bool | None,
    force: bool,
    mode: str,
    plan: PlanWanted | None = None,
) -> JobTicket | MovePlan:
    """Mark a dead host as Down, and create the job that fences the host and starts its VMs on other hosts.

    If ``force`` is true, a host that still responds is fenced, too; if neither the management controller nor the
    driver can fence the host, ``force`` means that the caller confirms that the host is off. ``mode`` is one of
    ``evacuate_host.MODES``. If ``plan`` requests a dry run, the planned moves are returned.

    Raises:
        InvalidParameter: the host was removed, it responds and ``force`` is not given or it cannot be fenced, or
            nothing confirms that it is off; or under the same conditions as ``plan_moves``.
        PlanStale: under the same conditions as ``plan_moves``.
        ResourceUnavailable: under the same conditions as ``moves_off``.
    """
    row = lock_host(connection, host.id)
    uuid = str(host.uuid)
    if row.removed is not None:
        raise InvalidParameter("id", uuid, "the host was removed")
    driver = require_driver(system.drivers, row.hypervisor, "id", uuid)
    has_bmc = read_used_bmc(connection, host.id) is not None
    by_driver = has_bmc or HostFencing in driver.abilities
    if answers and not (force and by_driver):
        way = "force must be true, which fences it" if by_driver else f"driver {driver.name!r} cannot fence it"
        raise InvalidParameter(
            "id", uuid, f"host {row.name} answers, so migrateHost can move its VMs; to evacuate it, {way}"
        )
    if not (by_driver or force):
        rule = (
            f"must be true, which confirms that host {row.name} is off: driver {driver.name!r} cannot fence it, and"
            " out-of-band management is not enabled for it"
        )
        raise InvalidParameter("force", force, rule)
    params: dict[str, Any] = {BY_DRIVER: by_driver, MODE: mode}
    shown = moves_off(connection, caller, host.id, STARTING, plan)
    if shown is not None:
        if plan is not None and plan.dry_run:
            return shown
        params[PLANNED] = shown.hosts()
    set_host_state(connection, host.id, HostState.DOWN)
    job = EVACUATE_HOST.new_job(
        Instance(EVACUATE_HOST.instance_type, host.id, host.uuid),
        f"asked to evacuate host {row.name}",
        account_id=caller.owner.account_id,
        user_id=caller.user_id,
        params=params,
    )
    (ticket,) = submit_jobs(connection, system.job_queue, [job])
    return ticket
