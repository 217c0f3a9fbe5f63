"""Commands of schedules of VMs, also under CloudStack 4.23's names (one file: the commands of one noun)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import (
    ExactlyOne,
    Parameter,
    WireType,
    boolean,
    mapping,
    string,
    uuid,
    uuids,
)
from bulkdeploy.declare.response_fields import OWNER_FIELDS, flag, moment, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import TIME_ZONE
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.fleets import vm_schedules as service
from bulkdeploy.services.fleets.scheduled_operations import ACTIONS
from bulkdeploy.services.fleets.vm_schedules import NewSchedule
from bulkdeploy.services.ownership import OwnerParameters, visibility
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import vm_schedules as store

TARGETS = ("virtualmachineid", "resourceid", "groupid", "deploymentid")
NAMING = ("id", "ids", *TARGETS)
"""Parameters that name schedules or their targets. If one is given, an admin does not need ``listall``."""

SHARED_FIELDS = (
    text("id", "the schedule"),
    text("description", "the description of the schedule"),
    text("schedule", "the cron expression"),
    text("timezone", "the time zone of the cron expression"),
    text("action", "the action: START, STOP, REBOOT, FORCE_STOP or FORCE_REBOOT"),
    flag("enabled", "whether the schedule is enabled"),
    moment("startdate", "the schedule does not run before this time"),
    moment("enddate", "the schedule does not run after this time"),
    moment("nextrun", "the time of the next run; absent once the schedule has ended"),
    moment("created", "the date and time of creation"),
    *OWNER_FIELDS,
)

VM_SCHEDULE = Response(
    "vmschedule",
    (
        *SHARED_FIELDS,
        text("virtualmachineid", "the virtual machine that the schedule acts on"),
        text("groupid", "the instance group whose virtual machines the schedule acts on"),
        text("deploymentid", "the bulk deployment whose virtual machines the schedule acts on"),
        objects(
            "selectiontags",
            "the schedule acts on the virtual machines of the account that have these tags",
            (text("key", "a tag's key"), text("value", "the value of the tag; absent: any value")),
        ),
    ),
)

RESOURCE_SCHEDULE = Response(
    "resourceschedule",
    (
        *SHARED_FIELDS,
        text("resourcetype", "VirtualMachine"),
        text("resourceid", "the virtual machine that the schedule acts on"),
    ),
)


def create_schedule(call: Call, response: Response) -> Mapping[str, Any]:
    """Create a schedule that runs an action on VMs, and return the schedule."""
    arguments = call.arguments
    parameter = next((name for name in TARGETS if name in arguments), "tags")
    made = service.create_schedule(
        call.connection,
        call.caller,
        NewSchedule(
            target=call.ref(parameter) if parameter != "tags" else None,
            parameter=parameter,
            tags=arguments.get("tags", ()),
            action=arguments["action"],
            expression=arguments["schedule"],
            zone=arguments["timezone"],
            start=arguments.get("startdate"),
            end=arguments.get("enddate"),
            enabled=call.flag("enabled", default=True),
            description=call.text("description"),
        ),
    )
    return _shown(store.read_schedule(call.connection, made), response)


def list_schedules(call: Call, response: Response) -> Page:
    """Return the VM schedules of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    owner = OwnerParameters(
        account=call.text("account"),
        domain=call.ref("domainid"),
        project=call.ref("projectid"),
        is_recursive=call.flag("isrecursive"),
        list_all=call.flag("listall"),
        by_id=not set(NAMING).isdisjoint(call.arguments),
    )
    seen = visibility(call.connection, call.caller, owner)
    page = store.list_schedules(call.connection, seen, call.arguments, paging(call))
    return Page([_shown(row, response) for row in page.rows], page.count)


def update_schedule(call: Call, response: Response) -> Mapping[str, Any]:
    """Change a VM schedule, and return the schedule."""
    ref = call.arguments["id"]
    service.update_schedule(call.connection, call.caller, ref, call.arguments)
    return _shown(store.read_schedule(call.connection, ref), response)


def delete_schedules(call: Call) -> None:
    """Delete one or several schedules of VMs."""
    refs = call.arguments.get("ids") or (call.arguments["id"],)
    distinct = tuple({ref.id: ref for ref in refs}.values())
    vm = call.ref("virtualmachineid") or call.ref("resourceid")
    service.delete_schedules(call.connection, call.caller, distinct, vm)


def _shown(row: Mapping[str, Any], response: Response) -> Mapping[str, Any]:
    return {field.name: row[field.name] for field in response.fields}


ACTION = string(
    "action",
    "the action: start, stop, reboot, force_stop or force_reboot",
    required=True,
    choices=tuple(ACTIONS),
)
CRON = "a cron expression of five fields: minute, hour, day of the month, month, day of the week"
TIMING = (
    Parameter(
        "startdate",
        WireType.DATE,
        "the date and time from which the schedule is active, in the time zone of the schedule",
        local=True,
    ),
    Parameter(
        "enddate",
        WireType.DATE,
        "the date and time until which the schedule is active, in the time zone of the schedule; initially no end",
        local=True,
    ),
    boolean("enabled", "whether the schedule is enabled; initial value: true"),
    string("description", "the description of the schedule; default: the action and the times in words"),
)
NEW = (
    ACTION,
    string("schedule", CRON, required=True),
    string("timezone", "the time zone of the cron expression", required=True, rule=TIME_ZONE),
    *TIMING,
)
CHANGED = (
    uuid("id", Entity.VM_SCHEDULE, "the schedule", required=True),
    string("schedule", CRON),
    string("timezone", "the time zone of the cron expression", rule=TIME_ZONE),
    *TIMING,
)
LISTED = (
    uuid("id", Entity.VM_SCHEDULE, "only this schedule"),
    string("action", "only schedules with this action", choices=tuple(ACTIONS)),
    boolean("enabled", "true: only enabled schedules; false: only disabled ones"),
    *PAGING,
)
DELETED = (
    uuid("id", Entity.VM_SCHEDULE, "the schedule"),
    uuids("ids", Entity.VM_SCHEDULE, "the schedules"),
)
RESOURCE_TYPE = string(
    "resourcetype",
    "the type of the resource; only VirtualMachine is supported",
    required=True,
    choices=("VirtualMachine",),
)
NO_DETAILS = {"details": "actions on virtual machines have no details"}


def _resource(description: str) -> tuple[Parameter, ...]:
    return (RESOURCE_TYPE, uuid("resourceid", Entity.VIRTUAL_MACHINE, description, required=True))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="createVMSchedule",
        description="Creates a schedule that starts, stops or reboots a virtual machine, or those of an instance"
        " group, of a bulk deployment or with certain tags as one bulk operation",
        handler=partial(create_schedule, response=VM_SCHEDULE),
        shape=Shape.OBJECT,
        response=VM_SCHEDULE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the virtual machine"),
            uuid(
                "groupid",
                Entity.INSTANCE_GROUP,
                "the instance group; the schedule acts on the virtual machines that are in the group at the "
                "time of each run",
            ),
            uuid(
                "deploymentid", Entity.DEPLOYMENT, "the bulk deployment; the schedule acts on its virtual machines"
            ),
            mapping(
                "tags",
                "tags: tags[0].key, tags[0].value; the schedule acts on the virtual machines of the caller "
                "that have these tags at the time of each run",
            ),
            *NEW,
        ),
        rules=(ExactlyOne(("virtualmachineid", "groupid", "deploymentid", "tags")),),
    ),
    Command(
        name="createResourceSchedule",
        description="Creates a schedule that starts, stops or reboots a virtual machine",
        handler=partial(create_schedule, response=RESOURCE_SCHEDULE),
        shape=Shape.OBJECT,
        response=RESOURCE_SCHEDULE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(*_resource("the virtual machine"), *NEW),
        unsupported=NO_DETAILS,
    ),
    Command(
        name="listVMSchedule",
        description="Lists schedules of virtual machines",
        handler=partial(list_schedules, response=VM_SCHEDULE),
        shape=Shape.LIST,
        response=VM_SCHEDULE,
        errors=(PermissionDenied,),
        parameters=(
            *LISTED,
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only schedules of this virtual machine"),
            uuid("groupid", Entity.INSTANCE_GROUP, "only schedules of this instance group"),
            uuid("deploymentid", Entity.DEPLOYMENT, "only schedules of this bulk deployment"),
            *OWNER,
            *PROJECT,
        ),
    ),
    Command(
        name="listResourceSchedule",
        description="Lists schedules of a virtual machine",
        handler=partial(list_schedules, response=RESOURCE_SCHEDULE),
        shape=Shape.LIST,
        response=RESOURCE_SCHEDULE,
        errors=(PermissionDenied,),
        parameters=(
            *_resource("only schedules of this virtual machine"),
            *LISTED,
            uuids("ids", Entity.VM_SCHEDULE, "only these schedules"),
        ),
    ),
    Command(
        name="updateVMSchedule",
        description="Changes a schedule of virtual machines, or switches it on or off",
        handler=partial(update_schedule, response=VM_SCHEDULE),
        shape=Shape.OBJECT,
        response=VM_SCHEDULE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=CHANGED,
    ),
    Command(
        name="updateResourceSchedule",
        description="Changes a schedule of a virtual machine, or switches it on or off",
        handler=partial(update_schedule, response=RESOURCE_SCHEDULE),
        shape=Shape.OBJECT,
        response=RESOURCE_SCHEDULE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=CHANGED,
        unsupported=NO_DETAILS,
    ),
    Command(
        name="deleteVMSchedule",
        description="Deletes schedules of virtual machines",
        handler=delete_schedules,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            *DELETED,
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the virtual machine of the schedules"),
        ),
        rules=(ExactlyOne(("id", "ids")),),
    ),
    Command(
        name="deleteResourceSchedule",
        description="Deletes schedules of a virtual machine",
        handler=delete_schedules,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(*_resource("the virtual machine of the schedules"), *DELETED),
        rules=(ExactlyOne(("id", "ids")),),
    ),
)
