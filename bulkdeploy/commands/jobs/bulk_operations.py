"""listBulkOperations and cancelBulkOperation."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT, sort_by
from bulkdeploy.declare.parameters import Parameter, WireType, string
from bulkdeploy.declare.response_fields import OWNER_FIELDS, fraction, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.jobs.bulk_operations import cancel_bulk_operation, list_bulk_operations
from bulkdeploy.store.jobs.bulk_operations import ORDERS
from bulkdeploy.store.rows.listing import Page

BULK_OPERATION = Response(
    "bulkoperation",
    (
        text("id", "the operation, or the bulk deployment"),
        text("operation", "the command that started it"),
        *OWNER_FIELDS,
        moment("created", "when the call was made"),
        text("state", "InProgress, Completed or Cancelled"),
        number("count", "the number of jobs of the call, one for each virtual machine"),
        number("maxparallel", "the maximum number of jobs in progress at the same time"),
        number("maxfailures", "the number of jobs that may fail before the operation is cancelled"),
        number("queued", "the number of jobs that no worker has begun; cancelBulkOperation cancels these jobs"),
        number("running", "the number of jobs in progress; they continue after a cancellation"),
        number("succeeded", "the number of jobs that succeeded"),
        number("failed", "the number of jobs that failed"),
        moment("completed", "when the latest of the finished jobs ended"),
        fraction("rate", "finished jobs per second since the call"),
        number("secondsleft", "seconds until the unfinished jobs end at that rate"),
        objects(
            "failures",
            "the first 100 failed jobs",
            (
                text("jobid", "the job"),
                text("virtualmachineid", "the virtual machine that the job works on"),
                number("errorcode", "the error code of its result"),
                text("errortext", "the error text of its result"),
            ),
        ),
        objects(
            "slowest",
            "the five finished jobs that took longest; only if the operation is requested by id",
            (
                text("jobid", "the job"),
                text("virtualmachineid", "the virtual machine that the job works on"),
                text("name", "the name of its virtual machine"),
                text("hostname", "the host of its virtual machine", ROOT_ADMIN_ONLY),
                fraction("seconds", "seconds from the call to the end of the job"),
            ),
        ),
    ),
)

OPERATIONS = (Entity.BULK_OPERATION, Entity.DEPLOYMENT)


def _list(call: Call) -> Page:
    return list_bulk_operations(call.connection, visible(call), call.arguments, paging(call))


def _cancel(call: Call) -> Mapping[str, Any]:
    return cancel_bulk_operation(call.connection, call.system, call.caller, call.arguments["id"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listBulkOperations",
        description="Lists operations on many virtual machines and bulk deployments, with their jobs by state",
        shape=Shape.LIST,
        response=BULK_OPERATION,
        parameters=(
            Parameter("id", WireType.UUID, "the operation, or the bulk deployment", entity=OPERATIONS),
            string("operation", "only operations that this command started"),
            *OWNER,
            *PROJECT,
            sort_by(ORDERS),
            *PAGING,
        ),
        errors=(PermissionDenied,),
        handler=_list,
    ),
    Command(
        name="cancelBulkOperation",
        description="Cancels the queued jobs of an operation on many virtual machines, or of a bulk deployment",
        shape=Shape.OBJECT,
        response=BULK_OPERATION,
        changes_state=True,
        parameters=(
            Parameter(
                "id", WireType.UUID, "the operation, or the bulk deployment", required=True, entity=OPERATIONS
            ),
        ),
        errors=(PermissionDenied,),
        handler=_cancel,
    ),
)
