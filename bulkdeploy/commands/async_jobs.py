"""queryAsyncJobResult and listAsyncJobs (reference section 3)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.job_response import ASYNC_JOB
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING
from bulkdeploy.declare.parameters import ExactlyOne, Needs, Parameter, WireType, string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, UnknownEntity
from bulkdeploy.services import guest_passwords
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store import async_jobs
from bulkdeploy.store.listing import Page

VIRTUAL_MACHINE_TYPE = "VirtualMachine"

RESOURCE: tuple[Parameter, ...] = (
    uuid("resourceid", Entity.VIRTUAL_MACHINE, "the VM that the job works on", since="4.22"),
    string("resourcetype", "the kind of the resource", choices=(VIRTUAL_MACHINE_TYPE,), since="4.22"),
)


def query_async_job_result(call: Call) -> Mapping[str, Any]:
    """One job, with its result once it is finished; by a VM, the job that was made for it last.

    Thousands of clients ask this again and again, so it is one statement besides the caller's.

    Raises:
        UnknownEntity: the job expired.
        PermissionDenied: somebody else made it.
    """
    job_id = call.text("jobid")
    if job_id is None:
        return _newest_job(call)
    found = async_jobs.find_job(call.connection, job_id)
    if found is None:
        raise UnknownEntity(call.command.name, "jobid", job_id)
    return _permitted(call, *found, what=f"job {job_id}")


def _newest_job(call: Call) -> Mapping[str, Any]:
    job_id = async_jobs.newest_job_of(call.connection, VIRTUAL_MACHINE_TYPE, call.arguments["resourceid"].id)
    found = None if job_id is None else async_jobs.find_job(call.connection, str(job_id))
    if found is None:
        raise InvalidParameter("resourceid", str(call.ref_uuid("resourceid")), "no job is known that works on it")
    return _permitted(call, *found, what=f"virtual machine {call.ref_uuid('resourceid')}")


def _permitted(call: Call, account_id: int, row: Mapping[str, Any], *, what: str) -> Mapping[str, Any]:
    """The job, where it is the caller's; ``what`` says what was named: a refusal tells nothing more."""
    if account_id != call.caller.owner.account_id:
        require_access(call.connection, call.caller, account_id, what)
    return guest_passwords.told(row, call.system.cipher)


def list_async_jobs(call: Call) -> Page:
    """Jobs that have not expired, of the accounts shown; passwords are told to who asks for the job itself."""
    page = async_jobs.list_async_jobs(call.connection, visible(call), call.arguments, paging(call))
    return Page([guest_passwords.told(row, None) for row in page.rows], page.count)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="queryAsyncJobResult",
        description="Answers a job's state, and its result once it is finished",
        handler=query_async_job_result,
        shape=Shape.BARE,
        response=replace(ASYNC_JOB, key="asyncjob"),
        errors=(PermissionDenied,),
        parameters=(uuid("jobid", Entity.JOB, "the job", resolved=False), *RESOURCE),
        rules=(ExactlyOne(("jobid", "resourceid")), Needs("resourceid", "resourcetype")),
    ),
    Command(
        name="listAsyncJobs",
        description="Lists jobs that are under way or were finished not long ago",
        handler=list_async_jobs,
        shape=Shape.LIST,
        response=ASYNC_JOB,
        errors=(PermissionDenied,),
        parameters=(
            Parameter("startdate", WireType.TZDATE, "only jobs made at this time or later"),
            uuid("deploymentid", Entity.DEPLOYMENT, "only the jobs of this deploy call"),
            string("managementserverid", "only jobs of this management server; it is the one of all"),
            *RESOURCE,
            *OWNER,
            *PAGING,
        ),
    ),
)
