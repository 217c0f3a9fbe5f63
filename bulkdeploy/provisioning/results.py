"""Results of jobs that workers end (reference section 3)."""

from collections.abc import Sequence

import orjson
from sqlalchemy import Connection

from bulkdeploy.domain.jobs import HOST_KINDS, SUCCESS_KINDS, VOLUME_KINDS
from bulkdeploy.provisioning.outcome import Failed
from bulkdeploy.store.hosts import host_rows
from bulkdeploy.store.job_results import SUCCESS_RESULT, object_result
from bulkdeploy.store.jobs import LeasedJob
from bulkdeploy.store.virtual_machines import virtual_machine_rows
from bulkdeploy.store.volumes import volume_rows


def failure_result(failed: Failed) -> str:
    """A failure: the code and the reason."""
    return orjson.dumps({"errorcode": failed.error_code, "errortext": failed.text}).decode()


def success_results(connection: Connection, jobs: Sequence[LeasedJob]) -> dict[int, str]:
    """By job id, the VM, host or volume as it is now; a bare success for what is gone, and for SUCCESS_KINDS."""
    vms, hosts, volumes = [], [], []
    for job in jobs:
        if job.kind in HOST_KINDS:
            hosts.append(job.vm_id)
        elif job.kind in VOLUME_KINDS:
            volumes.append(job.params["volume_id"])
        else:
            vms.append(job.vm_id)
    shown = {
        "virtualmachine": virtual_machine_rows(connection, vms),
        "host": host_rows(connection, hosts) if hosts else {},
        "volume": volume_rows(connection, volumes),
    }
    results = {job.id: SUCCESS_RESULT for job in jobs}
    for job in jobs:
        key, about = "virtualmachine", job.vm_id
        if job.kind in HOST_KINDS:
            key = "host"
        elif job.kind in VOLUME_KINDS:
            key, about = "volume", job.params["volume_id"]
        row = shown[key].get(about)
        if row is not None and job.kind not in SUCCESS_KINDS:
            results[job.id] = object_result(key, row)
    return results
