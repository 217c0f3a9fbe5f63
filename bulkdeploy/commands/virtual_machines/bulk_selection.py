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
"""Filters of listVirtualMachines that also select the VMs of bulk operations."""

NAMING = ("ids", "deploymentid")
"""Filters that select VMs of any account that the caller may see, like ``id`` in commands for a single VM."""

_LISTED = {parameter.name: parameter for command in lists.COMMANDS for parameter in command.parameters}

SELECTION: tuple[Parameter, ...] = (
    *(_LISTED[name] for name in FILTERS),
    uuid("deploymentid", Entity.DEPLOYMENT, "only VMs of this bulk deployment"),
    *(_LISTED[name] for name in ("isrecursive", "listall")),
    uuids("excludeids", Entity.VIRTUAL_MACHINE, "VMs that are not selected, although the filters match"),
    integer("expectedcount", "reject the call unless it selects exactly this number of VMs", minimum=0),
    boolean("partial", "true: skip VMs that cannot be processed, instead of rejecting the whole call"),
    integer("maxparallel", "the maximum number of jobs that run at the same time; default: no maximum", minimum=1),
    string(
        "maxfailures",
        "cancel all jobs that have not begun as soon as more jobs have failed than this number, or than this "
        "percentage, such as 10%",
    ),
    boolean(
        "dryrun", "true: only return the selected VMs, and why some of them cannot be processed; nothing is changed"
    ),
    boolean(
        "summary",
        "with dryrun: true shortens the response to the first 40 VMs that would be processed, and to one VM "
        "for each reason why VMs cannot be processed",
    ),
    string("requesttoken", "a repeated call with the same token and parameters returns the same jobs"),
)

FAILED_FIELDS = (
    text("virtualmachineid", "the VM"),
    text("name", "the name of the virtual machine"),
    number("errorcode", "the error code that a call for this VM alone would return"),
    text("errortext", "why the VM cannot be processed"),
)

STARTED = Response(
    "bulkoperation",
    (
        text("operationid", "the operation; listBulkOperations shows its progress"),
        number("count", "the number of jobs, one for each VM"),
        objects("asyncjobs", "the jobs, in the order of the age of their VMs", ASYNC_JOB.fields),
        objects("failed", "with partial: the VMs that were left out", FAILED_FIELDS),
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
                text("name", "the name of the virtual machine"),
                text("state", "the state of the virtual machine"),
                text("hostid", "the host that the VM would be started on or moved to", ROOT_ADMIN_ONLY),
                text(
                    "hostname", "the name of the host that the VM would be started on or moved to", ROOT_ADMIN_ONLY
                ),
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
