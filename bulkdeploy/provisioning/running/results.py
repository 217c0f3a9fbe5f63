"""Results of jobs that workers end (cloudstack-protocol.md 3)."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection

from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.job_kind import JobResult
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.provisioning.outcome import Failed
from bulkdeploy.scheduling.reasons import excluded_rows
from bulkdeploy.store.catalog.templates import template_rows
from bulkdeploy.store.infrastructure.host_migration import host_migration_rows
from bulkdeploy.store.infrastructure.hosts import host_rows
from bulkdeploy.store.jobs.job_results import ENCRYPTED_PASSWORD, SUCCESS_RESULT, object_result
from bulkdeploy.store.jobs.jobs import LeasedJob
from bulkdeploy.store.ledger.balance_rows import balancing_rows
from bulkdeploy.store.virtual_machines.guests import encrypted_passwords
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows
from bulkdeploy.store.virtual_machines.vm_snapshots import vm_snapshot_rows
from bulkdeploy.store.volumes.snapshots import snapshot_rows
from bulkdeploy.store.volumes.volumes import volume_rows


def failure_result(failed: Failed) -> str:
    """Return the job result of a failure as JSON text: the error code and the reason.

    If placement found no host, the result also lists the hosts that each placement rule excluded.
    """
    result: dict[str, Any] = {"errorcode": failed.error_code, "errortext": failed.text}
    if failed.excluded:
        result["excluded"] = excluded_rows(failed.excluded)
    return orjson.dumps(result).decode()


READERS: Mapping[JobResult, Callable[[Connection, list[int]], Mapping[int, Mapping[str, Any]]]] = {
    JobResult.VIRTUAL_MACHINE: virtual_machine_rows,
    JobResult.HOST: host_rows,
    JobResult.VOLUME: volume_rows,
    JobResult.VM_SNAPSHOT: vm_snapshot_rows,
    JobResult.SNAPSHOT: snapshot_rows,
    JobResult.TEMPLATE: template_rows,
    JobResult.BALANCE: balancing_rows,
    JobResult.HOST_MIGRATION: host_migration_rows,
}
"""What results show, by wire names, as it is now, by id."""

OF_JOBS = frozenset({JobResult.BALANCE, JobResult.HOST_MIGRATION})
"""Those that are read by the job's own id."""

NAMED = {
    JobResult.VOLUME: "volume_id",
    JobResult.VM_SNAPSHOT: "snapshot_id",
    JobResult.SNAPSHOT: "snapshot_id",
    JobResult.TEMPLATE: "template_id",
}
"""Params of jobs that name what is shown; others show what the job worked on."""


def success_results(connection: Connection, jobs: Sequence[LeasedJob]) -> dict[int, str]:
    """Return the result that the kind of each job declares, by job id.

    If the object was deleted, the result is a plain success.

    The result of an expunged VM is an empty object, as in CloudStack.
    """
    shown: dict[JobResult, dict[int, int]] = defaultdict(dict)
    for job in jobs:
        result = job_kinds()[job.kind].result
        if result in OF_JOBS:
            shown[result][job.id] = job.id
        else:
            shown[result][job.id] = job.params[NAMED[result]] if result in NAMED else job.instance_id
    results = {job.id: SUCCESS_RESULT for job in jobs}
    deployed = [job.instance_id for job in jobs if job.kind == DEPLOY.name]
    passwords = encrypted_passwords(connection, deployed) if deployed else {}
    for result, instances in shown.items():
        rows = READERS[result](connection, list(instances.values())) if result in READERS else {}
        for job_id, instance_id in instances.items():
            if instance_id in rows:
                row = rows[instance_id]
                if row.get("state") == VmState.EXPUNGING.value:
                    row = {}
                if result is JobResult.VIRTUAL_MACHINE and instance_id in passwords:
                    row = {**row, ENCRYPTED_PASSWORD: passwords[instance_id].decode()}
                results[job_id] = object_result(result.value, row)
    return results
