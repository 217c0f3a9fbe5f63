"""Last stage of a deployment: writes the rows of all VMs. Their jobs are sent after the commit."""

from collections.abc import Sequence
from functools import partial

import structlog
from sqlalchemy import Connection

from bulkdeploy.domain.deployments.deployment import DeploySpec
from bulkdeploy.drivers.abilities.starts import GuestPasswords
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage, bulk_queue
from bulkdeploy.services.abilities import has_ability
from bulkdeploy.services.deployments.deploying_calls import DeployingCall
from bulkdeploy.services.deployments.deployment_record import is_pinned, list_config, plan_record, shared_config
from bulkdeploy.services.passwords import new_guest_password
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import Configuration
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.deployments.deployment_rows import JobsOfCalls, write_deployments
from bulkdeploy.store.deployments.deployments import DeployedVms
from bulkdeploy.store.deployments.managed_deployments import insert_managed
from bulkdeploy.telemetry.request_id import working_for

log = structlog.get_logger(__name__)

JOBS = JobsOfCalls(DEPLOY.name, DEPLOY.command_class, DEPLOY.event_type, DEPLOY.describe(""))


def write(
    connection: Connection, system: System, configuration: Configuration, calls: Sequence[DeployingCall]
) -> list[DeployedVms]:
    """Write all rows of the calls, and register the sending of their jobs after the commit."""
    for each in calls:
        _add_passwords_and_records(system, configuration, each)
    queues = [bulk_queue(each.count) if each.call.shared.bulk else INTERACTIVE for each in calls]
    rows = write_deployments(connection, calls, queues, JOBS)
    deployed = []
    for each, row in zip(calls, rows, strict=True):
        if each.call.recorded is not None:
            insert_managed(connection, row.id, each.call.recorded, each.count)
        listed = list_config(each) if each.call.listed else {}
        deployed.append(DeployedVms(row.uuid, row.created, each.job_uuids, each.uuids, listed))
        after_commit(connection, partial(_log, each.call.request_id, str(row.uuid), each.count))
    messages = [
        JobMessage(job_id, DEPLOY.name, queue)
        for each, queue in zip(calls, queues, strict=True)
        for job_id in each.job_ids
    ]
    send_jobs(connection, system.job_queue, messages)
    return deployed


def _add_passwords_and_records(system: System, configuration: Configuration, each: DeployingCall) -> None:
    """Set the encrypted passwords and the deployment row of each part.

    The row of the first part describes the whole call and contains the plan and the list.
    """
    for at, part in enumerate(each.parts):
        is_first = at == 0
        listed = list_config(each) if is_first and each.call.listed else {}
        part.passwords_encrypted = _passwords(system, part.spec, part.count)
        part.record = {
            "vm_count": each.count if is_first else part.count,
            "asked_count": each.call.count if is_first else part.count,
            "pinned": is_pinned(configuration, part.spec),
            "config": {**shared_config(part.spec), **listed},
            "plan": plan_record(each.planned if is_first else None),
        }


def _passwords(system: System, spec: DeploySpec, count: int) -> list[bytes] | None:
    """Return a new password for each guest, or None if the template or hypervisor does not support them."""
    if not spec.template.password_enabled:
        return None
    if not has_ability(system.drivers, spec.hypervisor, GuestPasswords):
        return None
    return [new_guest_password(system.cipher) for _ in range(count)]


def _log(request_id: str | None, deployment: str, vms: int, _: object) -> None:
    with working_for(request_id):
        log.info("deployed", deployment=deployment, vms=vms)
