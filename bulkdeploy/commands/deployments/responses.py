"""The response that describes a bulk deployment."""

from bulkdeploy.commands.deployments.deploy_calls import PLAN_FIELDS
from bulkdeploy.declare.response_fields import OWNER_FIELDS, flag, fraction, moment, number, objects, text
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    OwnerDisabled,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)

REPLACEMENT_FIELDS = (
    text("method", "Restore or Recreate"),
    text("state", "InProgress, Paused, Failed, Completed or Superseded"),
    number("count", "the number of VMs to replace when the replacement began"),
    number("replaced", "the number of VMs that have the new parameters"),
    number("failed", "the number of VMs whose replacement failed"),
    number("unanswered", "the number of replaced VMs whose guests did not answer the newest health check"),
    number("maxsurge", "the number of VMs that may exist beyond the desired number"),
    number("maxunavailable", "the number of VMs that may be unavailable at the same time"),
    number("maxfailures", "the number of VMs that may fail before the replacement stops"),
    moment("created", "when the call was made"),
    moment("completed", "when the last VM was replaced"),
    objects(
        "clusters",
        "the VMs of the deployment, by cluster",
        (
            text("clusterid", "the cluster"),
            text("clustername", "the name of the cluster"),
            number("count", "the number of VMs of the deployment in the cluster"),
            number("replaced", "the number of VMs in the cluster that have the new parameters"),
        ),
        ROOT_ADMIN_ONLY,
    ),
)

DEPLOYMENT_ERRORS = (
    PermissionDenied,
    OwnerDisabled,
    ResourceLimitExceeded,
    InsufficientCapacity,
    InsufficientAddresses,
    ResourceUnavailable,
)
"""Errors that every call that deploys VMs can return, in addition to those of all calls."""

BULK_DEPLOYMENT = Response(
    "bulkdeployment",
    (
        text("id", "the id of the deployment, which its jobs have as deploymentid"),
        text("zoneid", "the zone"),
        text("zonename", "the zone's name"),
        *OWNER_FIELDS,
        moment("created", "when the call was made"),
        text("state", "InProgress, Completed or Cancelled"),
        number("asked", "the number of VMs that the call requests"),
        number("count", "the number of VMs that are deployed"),
        number("queued", "the number of jobs that no worker has begun; cancelBulkDeployment cancels these jobs"),
        number("running", "the number of jobs in progress; they continue after a cancellation"),
        number("succeeded", "the number of jobs that succeeded"),
        number("failed", "the number of jobs that failed"),
        moment("completed", "when the latest finished job ended"),
        number("desiredcount", "the desired number of VMs; only of a managed deployment"),
        number(
            "actualcount",
            "the present number of VMs, without those that are being destroyed; only of a managed deployment",
        ),
        text("scaleinpolicy", "the order in which VMs are removed; only of a managed deployment"),
        text("lasterror", "why the last attempt to add or remove VMs failed; only of a managed deployment"),
        flag("autoheal", "whether broken VMs are started again or replaced; only of a managed deployment"),
        number("healafter", "the seconds after which a Stopped VM counts as broken; only of a managed deployment"),
        number("healtries", "the number of consecutive attempts that healed no VM; only of a managed deployment"),
        text(
            "healthcheck", "the health check that guests of replaced VMs must answer; only of a managed deployment"
        ),
        number(
            "healthtimeout",
            "the timeout of healthcheck: the seconds after the start of a VM within which its guest must answer",
        ),
        objects(
            "replacement",
            "the newest rolling replacement of the VMs; only of a managed deployment",
            REPLACEMENT_FIELDS,
        ),
        *PLAN_FIELDS,
        objects(
            "slowest",
            "the five finished jobs that took longest; only if the deployment is requested by id",
            (
                text("jobid", "the job"),
                text("virtualmachineid", "the VM that the job deploys"),
                text("name", "the VM's name"),
                text("hostname", "the VM's host", ROOT_ADMIN_ONLY),
                fraction("seconds", "seconds from the call to the job's end"),
            ),
        ),
        objects(
            "failures",
            "the first 100 failed jobs",
            (
                text("jobid", "the job"),
                text("virtualmachineid", "the VM that the job deploys"),
                number("errorcode", "the error code"),
                text("errortext", "the error message"),
            ),
        ),
    ),
)
