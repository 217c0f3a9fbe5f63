"""The parameters by which bulk operations select VMs, and the responses of bulk operations."""

from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.virtual_machines import virtual_machines as lists
from bulkdeploy.declare.parameters import Parameter, boolean, integer, string, uuid, uuids
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity

FILTERS = (
    *("ids", "groupid", "affinitygroupid", "zoneid", "podid", "clusterid", "hostid", "state", "tags", "keyword"),
    *("templateid", "serviceofferingid", "networkid", "account", "domainid", "projectid"),
)
"""The filters of listVirtualMachines that select VMs here, with the same meaning."""

NAMING = ("ids", "deploymentid")
"""Filters that name VMs of any account that the caller may see, as ``id`` does in single calls."""

_LISTED = {parameter.name: parameter for command in lists.COMMANDS for parameter in command.parameters}

SELECTION: tuple[Parameter, ...] = (
    *(_LISTED[name] for name in FILTERS),
    uuid("deploymentid", Entity.DEPLOYMENT, "only VMs of this bulk deployment"),
    *(_LISTED[name] for name in ("isrecursive", "listall")),
    uuids("excludeids", Entity.VIRTUAL_MACHINE, "VMs that are not selected, although the filters match"),
    integer("expectedcount", "reject the call unless it selects exactly this number of VMs", minimum=0),
    boolean("partial", "leave out VMs that cannot be processed, instead of rejecting the call"),
    integer("maxparallel", "the maximum number of jobs that run at the same time; default: no maximum", minimum=1),
    string(
        "maxfailures",
        "cancel the jobs that have not begun if more jobs fail than this number, or percentage such as 10%",
    ),
    boolean("dryrun", "check only, and answer the selected VMs and why some cannot be processed"),
    boolean(
        "summary",
        "with dryrun: name only the first 40 of the VMs that would be processed, and answer the VMs that cannot be"
        " processed once for each reason",
    ),
    string("requesttoken", "a repeated call with the same token and parameters returns the same jobs"),
)

FAILED_FIELDS = (
    text("virtualmachineid", "the VM"),
    text("name", "its name"),
    number("errorcode", "the error code that the single call would answer"),
    text("errortext", "why it cannot be processed"),
)

STARTED = Response(
    "bulkoperation",
    (
        text("operationid", "the operation; listBulkOperations shows its progress"),
        number("count", "the number of jobs, one for each VM"),
        objects("asyncjobs", "the jobs, by the age of their VMs", ASYNC_JOB.fields),
        objects("failed", "with partial: VMs that were left out", FAILED_FIELDS),
    ),
)

CHECKED = Response(
    "bulkoperation",
    (
        number("count", "the number of VMs that would be processed"),
        objects(
            "virtualmachines",
            "the VMs that would be processed",
            (
                text("id", "the VM"),
                text("name", "its name"),
                text("state", "its state"),
                text("hostid", "the host that it would get, of starts and moves", ROOT_ADMIN_ONLY),
                text("hostname", "the name of that host", ROOT_ADMIN_ONLY),
            ),
        ),
        number("failedcount", "the number of VMs that cannot be processed"),
        objects(
            "failed",
            "VMs that cannot be processed; with summary: the oldest VM of each of the 100 most frequent reasons",
            (*FAILED_FIELDS, number("count", "with summary: the number of VMs with this reason")),
        ),
    ),
)
