"""The jobs that one call creates for many VMs, in the format of API responses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.jobs import InstanceType, JobStatus, class_for


def new_job_fields(caller: Caller, command_class: str, created: datetime) -> dict[str, Any]:
    """Return the fields that all new jobs of one call for VMs share. ``command_class`` is that of ``JobKind``."""
    return {
        "accountid": caller.owner.account_uuid,
        "userid": caller.user_uuid,
        "cmd": class_for(command_class, is_root_admin=caller.is_root_admin),
        "jobstatus": JobStatus.IN_PROGRESS.value,
        "jobprocstatus": 0,
        "jobresultcode": 0,
        "jobinstancetype": InstanceType.VIRTUAL_MACHINE.value,
        "created": created,
    }


def operation_state(row: Mapping[str, Any], jobs: Mapping[str, Any]) -> str:
    """Return the state of a bulk call: Cancelled, InProgress or Completed.

    ``jobs`` has the number of the call's jobs by state.
    """
    if row["cancel_requested"] is not None:
        return "Cancelled"
    return "InProgress" if jobs.get("queued", 0) + jobs.get("running", 0) > 0 else "Completed"


def failure_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the API row of a failed job, with the error code and text of its result."""
    result = orjson.loads(row["result"])
    return {
        "jobid": row["jobid"],
        "virtualmachineid": row["virtualmachineid"],
        "errorcode": result["errorcode"],
        "errortext": result["errortext"],
    }
