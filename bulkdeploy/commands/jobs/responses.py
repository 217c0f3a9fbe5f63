"""The response fields of an async job in bulkDeployVirtualMachine, listAsyncJobs and queryAsyncJobResult."""

from bulkdeploy.commands.constant_fields import BY_THE_SERVICE
from bulkdeploy.commands.placement_fields import EXCLUDED
from bulkdeploy.declare.response_fields import flag, moment, number, text
from bulkdeploy.declare.responses import Field, FieldType, Response

JOB_RESULT = Field("jobresult", FieldType.OBJECT, "the result, or errorcode and errortext")
"""``commands.registry`` gives it the fields that the commands' declarations say it has."""

FAILURE_FIELDS: tuple[Field, ...] = (
    flag("success", "true, where there is nothing to show"),
    number("errorcode", "of a failed job: why, as a number"),
    text("errortext", "of a failed job: why"),
    EXCLUDED,
)

JOB_FIELDS: tuple[Field, ...] = (
    text("jobid", "the job"),
    text("accountid", "the account that made the call"),
    text("account", "the name of that account"),
    text("domainid", "the domain of that account"),
    text("domainpath", "the names of that domain and of those above it, from ROOT down"),
    text("userid", "the user who made the call"),
    text("cmd", "the command that the job runs"),
    number("jobstatus", "0 in progress, 1 succeeded, 2 failed"),
    number("jobprocstatus", "always 0"),
    number("jobresultcode", "0 while in progress or succeeded, 530 when failed"),
    text("jobresulttype", "object, once there is a result"),
    JOB_RESULT,
    text("jobinstancetype", "the kind of thing that the job works on"),
    text("jobinstanceid", "the thing that the job works on"),
    text("deploymentid", "the deploy call that the job belongs to"),
    moment("created", "when the job was made"),
    moment("completed", "when it was finished"),
    *BY_THE_SERVICE,
)

ASYNC_JOB = Response("asyncjobs", JOB_FIELDS)
