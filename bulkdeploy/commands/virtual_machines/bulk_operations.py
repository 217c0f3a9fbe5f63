"""bulkStartVirtualMachine, bulkStopVirtualMachine and the other operations on many virtual machines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.parameters.plan_indexes import fingerprints
from bulkdeploy.commands.virtual_machines.bulk_dry_runs import dry_run
from bulkdeploy.commands.virtual_machines.bulk_selection import CHECKED, FILTERS, NAMING, SELECTION, STARTED
from bulkdeploy.declare.command import Command, Instead
from bulkdeploy.declare.parameters import (
    Needs,
    Parameter,
    boolean,
    details_of,
    mapping,
    string,
    uuid,
    uuids,
)
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceLimitExceeded
from bulkdeploy.provisioning.kinds.virtual_machines.expunge_virtual_machine import EXPUNGE
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.services.fleets.bulk_operations import (
    BulkRequest,
    destruction,
    jobs_of_kind,
    run_bulk_operation,
)
from bulkdeploy.services.fleets.bulk_updates import FleetUpdate, update_operation
from bulkdeploy.services.fleets.vm_selection import VmSelection
from bulkdeploy.services.jobs.bulk_jobs import new_job_fields
from bulkdeploy.services.ownership import OwnerParameters, visibility
from bulkdeploy.services.virtual_machines.resource_tags import tag_values
from bulkdeploy.services.virtual_machines.virtual_machine_migration import migrate_operation
from bulkdeploy.services.virtual_machines.virtual_machine_recovery import recover_operation
from bulkdeploy.services.virtual_machines.virtual_machine_restoring import restore_operation
from bulkdeploy.services.virtual_machines.virtual_machine_sizes import scale_operation
from bulkdeploy.services.virtual_machines.virtual_machine_starting import start_operation
from bulkdeploy.services.virtual_machines.virtual_machines import require_right
from bulkdeploy.services.virtual_machines.vm_work import VmOperation
from bulkdeploy.store.infrastructure.hosts import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The declaration of a command that runs an operation on many VMs.

    Attributes:
        name: the name of the command.
        description: the description of the command.
        operation: checks the caller's rights, and returns the operation of a call.
        parameters: the parameters of the command for a single VM without its id. They replace filters of the same
            name.
        roles: the role types that may call the command for a single VM.
    """

    name: str
    description: str
    operation: Callable[[Call], VmOperation]
    parameters: tuple[Parameter, ...] = ()
    roles: frozenset[RoleType] = EVERY_ROLE

    @property
    def selection(self) -> tuple[Parameter, ...]:
        """The parameters that select the VMs of the operation."""
        own = {parameter.name for parameter in self.parameters}
        return tuple(parameter for parameter in SELECTION if parameter.name not in own)


def _run(call: Call, operation: Operation) -> Mapping[str, Any] | Instead:
    selecting = {parameter.name for parameter in operation.selection}
    names = [name for name in (*FILTERS, "deploymentid") if name in selecting]
    filters = {name: call.arguments[name] for name in names if name in call.arguments}
    owner = OwnerParameters(
        account=call.text("account"),
        domain=call.ref("domainid"),
        project=call.ref("projectid"),
        is_recursive=call.flag("isrecursive"),
        list_all=call.flag("listall"),
        by_id=not set(NAMING).isdisjoint(filters),
    )
    bulk = operation.operation(call)
    request = BulkRequest(
        command=operation.name,
        operation=bulk,
        selection=VmSelection(
            filters=filters,
            visible=visibility(call.connection, call.caller, owner),
            excluded=call.arguments.get("excludeids", ()),
            expected_count=call.arguments.get("expectedcount"),
        ),
        partial=call.flag("partial"),
        max_parallel=call.arguments.get("maxparallel"),
        max_failures=call.text("maxfailures"),
        token=call.text("requesttoken"),
        fingerprint=fingerprints({**call.arguments, "command": operation.name})["fingerprint"],
    )
    if call.flag("dryrun"):
        return Instead(CHECKED, dry_run(call, request))
    done = run_bulk_operation(call.connection, call.system, call.caller, request)
    shared = new_job_fields(call.caller, bulk.command_class, done.created)
    jobs = [{**shared, "jobid": job, "jobinstanceid": vm} for job, vm in done.jobs]
    return {"operationid": done.uuid, "count": len(jobs), "asyncjobs": jobs, "failed": done.failed}


def _forced(call: Call, what: str) -> Mapping[str, Any]:
    forced = call.flag("forced")
    if forced:
        require_right(call.connection, call.caller, "allow.user.force.stop.vm", what)
    return {"forced": forced}


def _stop(call: Call) -> VmOperation:
    return jobs_of_kind(STOP, _forced(call, "stop a virtual machine with force"))


def _reboot(call: Call) -> VmOperation:
    return jobs_of_kind(REBOOT, _forced(call, "reboot a virtual machine with force"))


def _destroy(call: Call) -> VmOperation:
    expunge = call.flag("expunge")
    if expunge:
        _require_expunge_right(call, "expunge")
    return destruction(expunge=expunge)


def _expunge(call: Call) -> VmOperation:
    _require_expunge_right(call, "expunge")
    return jobs_of_kind(EXPUNGE, {})


def _recover(call: Call) -> VmOperation:
    _require_expunge_right(call, "recover")
    return recover_operation()


def _require_expunge_right(call: Call, verb: str) -> None:
    require_right(call.connection, call.caller, "allow.user.expunge.recover.vm", f"{verb} a virtual machine")


def _restore(call: Call) -> VmOperation:
    return restore_operation(call.ref("templateid"))


def _scale(call: Call) -> VmOperation:
    return scale_operation(call.arguments["serviceofferingid"], details_of(call.arguments.get("details", ())))


def _migrate(call: Call) -> VmOperation:
    return migrate_operation(_places(call, "to"), _places(call, "off"))


def _places(call: Call, prefix: str) -> Places:
    pods, clusters, hosts = (
        tuple(ref.id for ref in call.arguments.get(f"{prefix}{noun}ids", ())) for noun in ("pod", "cluster", "host")
    )
    return Places(pods, clusters, hosts)


def _update(call: Call) -> VmOperation:
    arguments = call.arguments
    protected = arguments.get("deleteprotection")
    return update_operation(
        FleetUpdate(
            display_name=call.text("displayname"),
            columns={} if protected is None else {"delete_protection": protected},
            details=None if "details" not in arguments else details_of(arguments["details"]),
            tags=None if "settags" not in arguments else tag_values(arguments["settags"], "settags"),
        )
    )


FORCED = boolean("forced", "true: cut the power, instead of a clean shutdown of the guests")

PLACE_PARAMETERS = tuple(
    uuids(f"{prefix}{noun}ids", entity, f"{what} {hosts}")
    for prefix, what in (("to", "the VMs are moved only to"), ("off", "no VM is moved to"))
    for noun, entity, hosts in (
        ("pod", Entity.POD, "hosts in these pods"),
        ("cluster", Entity.CLUSTER, "hosts in these clusters"),
        ("host", Entity.HOST, "these hosts"),
    )
)

OPERATIONS = (
    Operation(
        name="bulkStartVirtualMachine",
        description="Starts many stopped virtual machines on hosts that are planned together",
        operation=lambda _: start_operation(),
    ),
    Operation(
        name="bulkStopVirtualMachine",
        description="Stops many virtual machines",
        operation=_stop,
        parameters=(FORCED,),
    ),
    Operation(
        name="bulkRebootVirtualMachine",
        description="Stops many running virtual machines and starts them again",
        operation=_reboot,
        parameters=(FORCED,),
    ),
    Operation(
        name="bulkDestroyVirtualMachine",
        description="Destroys many virtual machines; their volumes stay until the VMs are expunged",
        operation=_destroy,
        parameters=(
            boolean(
                "expunge",
                "true: also expunge the VMs and their volumes at once, without the possibility of recovery",
            ),
        ),
    ),
    Operation(
        name="bulkRecoverVirtualMachine",
        description="Recovers many destroyed virtual machines",
        operation=_recover,
    ),
    Operation(
        name="bulkExpungeVirtualMachine",
        description="Removes many destroyed virtual machines and their volumes",
        operation=_expunge,
    ),
    Operation(
        name="bulkRestoreVirtualMachine",
        description="Replaces the root disks of many virtual machines. Running ones are restarted",
        operation=_restore,
        parameters=(
            uuid("templateid", Entity.TEMPLATE, "the new template; default: the present template of each VM"),
        ),
    ),
    Operation(
        name="bulkScaleVirtualMachine",
        description="Changes the service offering of many virtual machines; only running ones wait for jobs",
        operation=_scale,
        parameters=(
            uuid("serviceofferingid", Entity.SERVICE_OFFERING, "the new service offering", required=True),
            mapping("details", "cpuNumber, cpuSpeed (MHz) and memory (MiB) of custom offerings"),
        ),
    ),
    Operation(
        name="bulkMigrateVirtualMachine",
        description="Moves many running virtual machines to other hosts, which are planned together",
        operation=_migrate,
        parameters=PLACE_PARAMETERS,
        roles=ROOT_ADMIN_ONLY,
    ),
    Operation(
        name="bulkUpdateVirtualMachine",
        description="Changes display names, delete protection, details and tags of many virtual machines at once",
        operation=_update,
        parameters=(
            string(
                "displayname",
                "the display name; {n} is replaced by the number of the VM in the selection, and {name} by the "
                "name of the VM",
            ),
            boolean("deleteprotection", "whether the VMs are protected from being destroyed"),
            mapping("details", "the new details of the VMs; they replace all present details"),
            mapping(
                "settags", "tags to set on the VMs: settags[0].key, settags[0].value; tags with other keys are kept"
            ),
        ),
    ),
)

COMMANDS: tuple[Command, ...] = tuple(
    Command(
        name=operation.name,
        description=f"{operation.description}, with one job per VM",
        handler=partial(_run, operation=operation),
        shape=Shape.BARE,
        response=STARTED,
        instead=CHECKED,
        errors=(PermissionDenied, ResourceLimitExceeded),
        roles=operation.roles,
        changes_state=True,
        parameters=(*operation.selection, *operation.parameters),
        rules=(Needs("summary", "dryrun"),),
    )
    for operation in OPERATIONS
)
