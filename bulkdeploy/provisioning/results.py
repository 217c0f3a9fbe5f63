"""Results of jobs that workers end (reference section 3)."""

from collections.abc import Sequence

import orjson
from sqlalchemy import Connection

from bulkdeploy.domain.jobs import HOST_KINDS, SUCCESS_KINDS
from bulkdeploy.provisioning.outcome import Failed
from bulkdeploy.store.hosts import host_rows
from bulkdeploy.store.job_results import SUCCESS_RESULT, object_result
from bulkdeploy.store.jobs import LeasedJob
from bulkdeploy.store.virtual_machines import virtual_machine_rows


def failure_result(failed: Failed) -> str:
    """A failure: the code and the reason."""
    return orjson.dumps({"errorcode": failed.error_code, "errortext": failed.text}).decode()


def success_results(connection: Connection, jobs: Sequence[LeasedJob]) -> dict[int, str]:
    """By job id, the VM or the host as it is now; a bare success for what is gone, and for SUCCESS_KINDS."""
    vms = virtual_machine_rows(connection, [job.vm_id for job in jobs if job.kind not in HOST_KINDS])
    hosts = [job.vm_id for job in jobs if job.kind in HOST_KINDS]
    shown = {True: ("host", host_rows(connection, hosts) if hosts else {}), False: ("virtualmachine", vms)}
    results = {job.id: SUCCESS_RESULT for job in jobs}
    for job in jobs:
        key, rows = shown[job.kind in HOST_KINDS]
        row = rows.get(job.vm_id)
        if row is not None and job.kind not in SUCCESS_KINDS:
            results[job.id] = object_result(key, row)
    return results
