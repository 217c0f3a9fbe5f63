"""The response that describes a bulk deployment as a whole."""

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
    number("count", "the VMs that were to be replaced when it began"),
    number("replaced", "the VMs that have the new parameters"),
    number("failed", "the VMs that failed"),
    number("unanswered", "the replaced VMs whose guests did not answer the newest health check"),
    number("maxsurge", "the VMs that there may be beyond the desired number"),
    number("maxunavailable", "the VMs that may be unavailable"),
    number("maxfailures", "the replacement stops if more VMs fail"),
    moment("created", "when the call was answered"),
    moment("completed", "when the last VM was replaced"),
    objects(
        "clusters",
        "its VMs by cluster",
        (
            text("clusterid", "the cluster"),
            text("clustername", "the name of the cluster"),
            number("count", "the VMs that the deployment has there"),
            number("replaced", "those of them that have the new parameters"),
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
"""Errors of every call that deploys VMs, beyond those of all calls."""

BULK_DEPLOYMENT = Response(
    "bulkdeployment",
    (
        text("id", "the deployment; ``deploymentid`` of its jobs"),
        text("zoneid", "the zone"),
        text("zonename", "the zone's name"),
        *OWNER_FIELDS,
        moment("created", "when the call was answered"),
        text("state", "InProgress, Completed or Cancelled"),
        number("asked", "VMs asked for"),
        number("count", "VMs made"),
        number("queued", "jobs that no worker has leased yet; cancelBulkDeployment cancels exactly these"),
        number("running", "jobs that a worker has leased; they continue after a cancellation"),
        number("succeeded", "jobs that succeeded"),
        number("failed", "jobs that failed"),
        moment("completed", "when the latest of them ended"),
        number("desiredcount", "of a managed deployment: the VMs that it is to have"),
        number("actualcount", "of a managed deployment: the VMs that it has, without those being destroyed"),
        text("scaleinpolicy", "of a managed deployment: the VMs that are removed first"),
        text("lasterror", "of a managed deployment: why VMs could not be added or removed at the last try"),
        flag("autoheal", "of a managed deployment: whether broken VMs are healed"),
        number("healafter", "of a managed deployment: seconds for which a VM is Stopped until it is broken"),
        number("healtries", "of a managed deployment: the tries in a row that healed nothing"),
        text("healthcheck", "of a managed deployment: the check that guests of replaced VMs must answer"),
        number(
            "healthtimeout", "with ``healthcheck``: seconds after its start within which a guest must answer once"
        ),
        objects("replacement", "of a managed deployment: its newest rolling replacement", REPLACEMENT_FIELDS),
        *PLAN_FIELDS,
        objects(
            "slowest",
            "of a deployment asked for by id: its 5 finished jobs that took longest",
            (
                text("jobid", "the job"),
                text("virtualmachineid", "its VM"),
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
                text("virtualmachineid", "its VM"),
                number("errorcode", "why, as a number"),
                text("errortext", "why"),
            ),
        ),
    ),
)
