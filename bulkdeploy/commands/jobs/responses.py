"""The response fields of a job, for all commands that return jobs."""

from bulkdeploy.commands.constant_fields import BY_THE_SERVICE
from bulkdeploy.commands.placement_fields import EXCLUDED
from bulkdeploy.declare.response_fields import flag, moment, number, text
from bulkdeploy.declare.responses import Field, FieldType, Response

JOB_RESULT = Field(
    "jobresult", FieldType.OBJECT, "the result of the job; if the job failed, errorcode and errortext"
)
"""The result of a job. ``commands.registry`` adds the fields that the commands' declarations define."""

FAILURE_FIELDS: tuple[Field, ...] = (
    flag("success", "true, if the job succeeded and returns no object"),
    number("errorcode", "the error code of a failed job"),
    text("errortext", "the error message of a failed job"),
    EXCLUDED,
)

JOB_FIELDS: tuple[Field, ...] = (
    text("jobid", "the job"),
    text("accountid", "the account that made the call"),
    text("account", "the name of the account that made the call"),
    text("domainid", "the domain of the account that made the call"),
    text("domainpath", "the names of all domains from ROOT down to that of the account that made the call"),
    text("userid", "the user who made the call"),
    text("cmd", "the command that the job runs"),
    number("jobstatus", "the status of the job: 0 in progress, 1 succeeded, 2 failed"),
    number("jobprocstatus", "always 0"),
    number("jobresultcode", "0 while in progress or succeeded, 530 when failed"),
    text("jobresulttype", "the type of the result: object; absent while there is no result"),
    JOB_RESULT,
    text("jobinstancetype", "the type of the resource that the job works on"),
    text("jobinstanceid", "the resource that the job works on"),
    text("deploymentid", "the deploy call that the job belongs to"),
    moment("created", "when the job was created"),
    moment("completed", "when the job finished"),
    *BY_THE_SERVICE,
)

ASYNC_JOB = Response("asyncjobs", JOB_FIELDS)
