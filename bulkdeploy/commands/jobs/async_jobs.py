"""queryAsyncJobResult and listAsyncJobs (cloudstack-protocol.md 3)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, sort_by
from bulkdeploy.declare.parameters import ExactlyOne, Needs, Parameter, WireType, string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, UnknownEntity
from bulkdeploy.services.virtual_machines import guest_passwords
from bulkdeploy.store.accounts.callers import KeyHolder
from bulkdeploy.store.accounts.callers_of_jobs import holder_and_job
from bulkdeploy.store.jobs import async_jobs
from bulkdeploy.store.jobs.async_jobs import FoundJob
from bulkdeploy.store.rows.known_entities import knows_owner
from bulkdeploy.store.rows.listing import Page

VIRTUAL_MACHINE_TYPE = "VirtualMachine"

RESOURCE: tuple[Parameter, ...] = (
    uuid("resourceid", Entity.VIRTUAL_MACHINE, "the VM that the job works on", since="4.22"),
    string("resourcetype", "the type of the resource", choices=(VIRTUAL_MACHINE_TYPE,), since="4.22"),
)


NOBODY = 0
"""An account id that no account has."""

CANONICAL = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""The pattern of uuids in responses."""


def query_async_job_result(call: Call) -> Mapping[str, Any]:
    """Return one job, with its result if it is finished.

    If ``resourceid`` is given, return the VM's newest job.

    Thousands of clients poll this command, so the job is read in the same query as the caller.

    Raises:
        UnknownEntity: the job expired, or belongs to an account whose jobs the caller may not see.
    """
    job_id = call.text("jobid")
    if job_id is None:
        return _newest_job(call)
    if job_id in call.found:
        found = call.found[job_id]
    elif job_id.isdecimal() and not call.caller.is_root_admin:
        found = None
    else:
        found = async_jobs.find_job(call.connection, job_id)
    job = _own(call, found)
    if job is None:
        raise UnknownEntity(call.command.name, "jobid", job_id)
    return job


def _find_with_caller(
    connection: Connection, api_key: str, sent: Callable[[str], str | None]
) -> tuple[KeyHolder | None, Mapping[str, FoundJob | None]] | None:
    job_id = sent("jobid")
    if job_id is None or not CANONICAL.fullmatch(job_id):
        return None
    holder, job = holder_and_job(connection, api_key, UUID(job_id))
    return holder, {job_id: job}


def _newest_job(call: Call) -> Mapping[str, Any]:
    job_id = async_jobs.newest_job_of(call.connection, VIRTUAL_MACHINE_TYPE, call.arguments["resourceid"].id)
    job = None if job_id is None else _own(call, async_jobs.find_job(call.connection, str(job_id)))
    if job is None:
        raise InvalidParameter("resourceid", str(call.ref_uuid("resourceid")), "there is no job for this resource")
    return job


def _own(call: Call, found: FoundJob | None) -> Mapping[str, Any] | None:
    """Return the job, or None if it does not exist or the caller may not see it.

    Both cases run the same SQL statements, so that the response time does not reveal jobs of other accounts.
    """
    account_id, row = (NOBODY, None) if found is None else found
    mine = call.caller.is_root_admin or account_id == call.caller.owner.account_id
    if row is None and mine:
        return None
    known = mine or knows_owner(call.connection, call.caller, account_id)
    return guest_passwords.reported(row, call.system.cipher) if row is not None and known else None


def list_async_jobs(call: Call) -> Page:
    """Return the jobs of the visible accounts that have not expired.

    Passwords are omitted; only queryAsyncJobResult returns them.
    """
    page = async_jobs.list_async_jobs(call.connection, visible(call), call.arguments, paging(call))
    return Page([guest_passwords.reported(row, None) for row in page.rows], page.count)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="queryAsyncJobResult",
        description="Returns the state of a job, and its result once it is finished",
        handler=query_async_job_result,
        shape=Shape.BARE,
        response=replace(ASYNC_JOB, key="asyncjob"),
        parameters=(uuid("jobid", Entity.JOB, "the job", resolved=False), *RESOURCE),
        rules=(ExactlyOne(("jobid", "resourceid")), Needs("resourceid", "resourcetype")),
        find_with_caller=_find_with_caller,
    ),
    Command(
        name="listAsyncJobs",
        description="Lists unfinished jobs and recently finished jobs",
        handler=list_async_jobs,
        shape=Shape.LIST,
        response=ASYNC_JOB,
        errors=(PermissionDenied,),
        parameters=(
            Parameter("startdate", WireType.TZDATE, "only jobs that were created at this time or later"),
            uuid("deploymentid", Entity.DEPLOYMENT, "only the jobs of this deploy call"),
            uuid(
                "hostid",
                Entity.HOST,
                "only the jobs of VMs that belong to the newest maintenance, migrateHost or evacuateHost of "
                "this host",
                roles=ROOT_ADMIN_ONLY,
            ),
            string("managementserverid", "only jobs of this management server; all jobs belong to the only one"),
            *RESOURCE,
            *OWNER,
            sort_by(async_jobs.ORDERS),
            *PAGING,
        ),
    ),
)
