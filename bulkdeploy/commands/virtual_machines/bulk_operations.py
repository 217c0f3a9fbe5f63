"""bulkStartVirtualMachine, bulkStopVirtualMachine and the other operations on many virtual machines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.jobs.responses import ASYNC_JOB
from bulkdeploy.commands.plan_indexes import fingerprints
from bulkdeploy.commands.virtual_machines import virtual_machines as lists
from bulkdeploy.declare.command import Command, Instead
from bulkdeploy.declare.parameters import Parameter, boolean, integer, string, uuid, uuids
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.expunge_virtual_machine import EXPUNGE
from bulkdeploy.provisioning.kinds.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.start_virtual_machine import START
from bulkdeploy.provisioning.kinds.stop_virtual_machine import STOP
from bulkdeploy.services.jobs.bulk_jobs import new_job_fields
from bulkdeploy.services.ownership import OwnerParameters, visibility
from bulkdeploy.services.virtual_machines.bulk_operations import (
    BulkDryRun,
    BulkRequest,
    FindRefused,
    VmSelection,
    run_bulk_operation,
)
from bulkdeploy.services.virtual_machines.virtual_machines import find_undestroyable, require_right

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
    integer("maxparallel", "the number of jobs that may be under way at once; default: all of them", minimum=1),
    string(
        "maxfailures",
        "cancel the jobs that have not begun if more jobs fail than this number, or percentage such as 10%",
    ),
    boolean("dryrun", "check only, and answer the selected VMs and why some cannot be processed"),
    string("requesttoken", "the same token with the same parameters answers the same jobs again"),
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
            (text("id", "the VM"), text("name", "its name"), text("state", "its state")),
        ),
        objects("failed", "VMs that cannot be processed", FAILED_FIELDS),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation on many VMs, as it is declared.

    Attributes:
        name: the command.
        description: the command's text.
        kind: the kind of the jobs.
        parameters: those of the single command besides its id.
        job_params: returns the parameters of the jobs, after it has checked the caller's rights.
        find_refused: rules beyond those of the kind.
    """

    name: str
    description: str
    kind: JobKind
    parameters: tuple[Parameter, ...] = ()
    job_params: Callable[[Call], Mapping[str, Any]] = field(default=lambda _: {})
    find_refused: FindRefused | None = None


def _run(call: Call, operation: Operation) -> Mapping[str, Any] | Instead:
    filters = {name: call.arguments[name] for name in (*FILTERS, "deploymentid") if name in call.arguments}
    owner = OwnerParameters(
        account=call.text("account"),
        domain=call.ref("domainid"),
        project=call.ref("projectid"),
        is_recursive=call.flag("isrecursive"),
        list_all=call.flag("listall"),
        by_id=not set(NAMING).isdisjoint(filters),
    )
    done = run_bulk_operation(
        call.connection,
        call.system,
        call.caller,
        BulkRequest(
            command=operation.name,
            kind=operation.kind,
            params=operation.job_params(call),
            selection=VmSelection(
                filters=filters,
                visible=visibility(call.connection, call.caller, owner),
                excluded=call.arguments.get("excludeids", ()),
                expected_count=call.arguments.get("expectedcount"),
            ),
            find_refused=operation.find_refused,
            partial=call.flag("partial"),
            dry_run=call.flag("dryrun"),
            max_parallel=call.arguments.get("maxparallel"),
            max_failures=call.text("maxfailures"),
            token=call.text("requesttoken"),
            fingerprint=fingerprints({**call.arguments, "command": operation.name})["fingerprint"],
        ),
    )
    if isinstance(done, BulkDryRun):
        vms = [{"id": vm.uuid, "name": vm.name, "state": vm.state} for vm in done.vms]
        return Instead(CHECKED, {"count": len(vms), "virtualmachines": vms, "failed": done.failed})
    shared = new_job_fields(call.caller, operation.kind, done.created)
    jobs = [{**shared, "jobid": job, "jobinstanceid": vm} for job, vm in done.jobs]
    return {"operationid": done.uuid, "count": len(jobs), "asyncjobs": jobs, "failed": done.failed}


def _stop_params(call: Call, what: str) -> Mapping[str, Any]:
    forced = call.flag("forced")
    if forced:
        require_right(call.connection, call.caller, "allow.user.force.stop.vm", what)
    return {"forced": forced}


def _destroy_params(call: Call) -> Mapping[str, Any]:
    expunge = call.flag("expunge")
    if expunge:
        require_right(call.connection, call.caller, "allow.user.expunge.recover.vm", "expunge a virtual machine")
    return {"expunge": expunge}


def _expunge_params(call: Call) -> Mapping[str, Any]:
    require_right(call.connection, call.caller, "allow.user.expunge.recover.vm", "expunge a virtual machine")
    return {}


FORCED = boolean("forced", "cut the power instead of asking the guests to shut down")

OPERATIONS = (
    Operation(name="bulkStartVirtualMachine", description="Starts many stopped virtual machines", kind=START),
    Operation(
        name="bulkStopVirtualMachine",
        description="Stops many virtual machines",
        kind=STOP,
        parameters=(FORCED,),
        job_params=partial(_stop_params, what="stop a virtual machine with force"),
    ),
    Operation(
        name="bulkRebootVirtualMachine",
        description="Stops many running virtual machines and starts them again",
        kind=REBOOT,
        parameters=(FORCED,),
        job_params=partial(_stop_params, what="reboot a virtual machine with force"),
    ),
    Operation(
        name="bulkDestroyVirtualMachine",
        description="Destroys many virtual machines; their volumes stay until the VMs are expunged",
        kind=DESTROY,
        parameters=(boolean("expunge", "remove the VMs and their volumes at once"),),
        job_params=_destroy_params,
        find_refused=find_undestroyable,
    ),
    Operation(
        name="bulkExpungeVirtualMachine",
        description="Removes many destroyed virtual machines and their volumes",
        kind=EXPUNGE,
        job_params=_expunge_params,
    ),
)

COMMANDS: tuple[Command, ...] = tuple(
    Command(
        name=operation.name,
        description=f"{operation.description}, with one job for each",
        handler=partial(_run, operation=operation),
        shape=Shape.BARE,
        response=STARTED,
        instead=CHECKED,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(*SELECTION, *operation.parameters),
    )
    for operation in OPERATIONS
)
