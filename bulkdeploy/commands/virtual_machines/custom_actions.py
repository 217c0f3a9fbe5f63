"""Commands of custom actions and of the extension that runs them (one file: one table)."""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import (
    boolean,
    integer,
    mapping,
    string,
    strings,
    uuid,
)
from bulkdeploy.declare.response_fields import flag, moment, number, objects, text, text_map, texts
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.virtual_machines.custom_actions import RESOURCE_TYPE
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.virtual_machines import custom_actions as service
from bulkdeploy.store.rows.listing import Page, Paging
from bulkdeploy.store.virtual_machines import custom_actions as store
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row

LONGEST_TEXT, LONGEST_TIMEOUT_S = 4096, 3600

EXTENSION = Response(
    "extension",
    (
        text("id", "the extension"),
        text("name", "the name of its executable, without the suffix"),
        text("type", "Orchestrator"),
        text("path", "the path of its executable"),
        flag("pathready", "whether the executable exists on the machine that handled the call"),
        flag("isuserdefined", "true: the extension is configured in the settings of the service"),
        flag("orchestratorrequirespreparevm", "true: the command prepare is run before create"),
        text("state", "Enabled"),
    ),
)

ACTION = Response(
    "extensioncustomaction",
    (
        text("id", "the action"),
        text("name", "the name of the action, which the service passes to the executable"),
        text("description", "the description of the action"),
        text("extensionid", "the extension that runs the action"),
        text("extensionname", "the extension's name"),
        text("resourcetype", "the type of resource that the action is run on: VirtualMachine"),
        texts("allowedroletypes", "role types whose users may run the action"),
        text("successmessage", "the message of a run that succeeded"),
        text("errormessage", "the message of a run that failed"),
        number("timeout", "the timeout of a run, in seconds"),
        flag("enabled", "whether users can run the action"),
        text_map("details", "the details that the executable gets as externaldetails.action"),
        objects(
            "parameters",
            "the parameters of a run",
            (
                text("name", "the parameter's name"),
                text("type", "STRING, NUMBER, BOOLEAN or DATE"),
                text("validationformat", "NONE, UUID, EMAIL, PASSWORD, URL or DECIMAL"),
                texts("valueoptions", "the allowed values; absent: any value is allowed"),
                flag("required", "whether each run must give a value for the parameter"),
            ),
        ),
        moment("created", "the date and time at which it was added"),
    ),
)

RESULT = Response(
    "customactionresult",
    (
        text("id", "the action"),
        text("name", "the action's name"),
        flag("success", "whether the executable ended with exit code 0 in time"),
        Field(
            "result",
            FieldType.OBJECT,
            "the result of the run",
            (
                text("message", "the action's message of success or failure"),
                text("details", "what the executable printed, or why it failed"),
            ),
        ),
    ),
)


def list_extensions(call: Call) -> Page:
    """Return the configured extension, or an empty list if none is configured."""
    found, page = service.read_extension(call.system), paging(call)
    if (
        found is None
        or call.text("name") not in (None, found.name)
        or call.text("id") not in (None, str(found.uuid))
        or (call.text("keyword") or "").lower() not in found.name.lower()
    ):
        return Page([], 0)
    if page.offset or page.limit == 0:
        return Page([], 1)
    row = {
        "id": str(found.uuid), "name": found.name, "type": "Orchestrator", "path": found.path,
        "pathready": found.is_ready, "isuserdefined": True,
        "orchestratorrequirespreparevm": True, "state": "Enabled",
    }  # fmt: skip
    return Page([row], 1)


def list_custom_actions(call: Call) -> Page:
    """Return custom actions.

    Users see only actions that their role may run.

    Raises:
        PermissionDenied: the caller may not see the VM of ``resourceid``.
    """
    vm = call.ref("resourceid")
    if vm is not None:
        row = read_vm_row(call.connection, vm.id)
        require_access(call.connection, call.caller, row.account_id, f"virtual machine {vm.uuid}")
    extension = service.read_extension(call.system)
    if extension is None or call.text("extensionid") not in (None, str(extension.uuid)):
        return Page([], 0)
    return store.list_custom_actions(
        call.connection, call.caller, (extension.uuid, extension.name), call.arguments, paging(call)
    )


def add_custom_action(call: Call) -> Mapping[str, Any]:
    """Add a custom action, and return the action."""
    made = service.add_custom_action(call.connection, call.system, call.caller, _arguments_of(call))
    return _shown(call, made)


def update_custom_action(call: Call) -> Mapping[str, Any]:
    """Change a custom action, and return the action."""
    service.update_custom_action(call.connection, call.caller, call.arguments["id"], _arguments_of(call))
    return _shown(call, call.arguments["id"])


def delete_custom_action(call: Call) -> None:
    """Delete a custom action."""
    service.delete_custom_action(call.connection, call.caller, call.arguments["id"])


def run_custom_action(call: Call) -> JobTicket:
    """Run a custom action on a VM."""
    return service.run_custom_action(
        call.connection,
        call.system,
        call.caller,
        call.arguments["customactionid"],
        call.arguments["resourceid"],
        _joined(call.arguments.get("parameters", ())),
    )


def _arguments_of(call: Call) -> Mapping[str, Any]:
    given = dict(call.arguments)
    if "details" in given:
        given["details"] = _joined(given["details"])
    return given


def _joined(entries: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the fields of all entries as one mapping.

    Entries have no fields with a special meaning, as in CloudStack.
    """
    return {name: value for entry in entries for name, value in entry.items()}


def _shown(call: Call, ref: EntityRef) -> Mapping[str, Any]:
    extension = service.require_extension(call.system, None)
    found = store.list_custom_actions(
        call.connection, call.caller, (extension.uuid, extension.name), {"id": ref}, Paging(1)
    )
    return found.rows[0]


ROLE_TYPES = tuple(kind.value for kind in RoleType)
TYPE = string("resourcetype", "the type of resource on which the action is run", choices=(RESOURCE_TYPE,))
DECLARED = (
    string("description", "the description of the action", length=LONGEST_TEXT),
    TYPE,
    strings(
        "allowedroletypes", "role types whose users may run the action, in addition to Admin", choices=ROLE_TYPES
    ),
    mapping(
        "parameters",
        "the parameters of the action: parameters[0].name, .type (STRING, NUMBER, BOOLEAN, DATE), "
        ".validationformat (UUID, EMAIL, PASSWORD, URL, DECIMAL), .valueoptions (a comma-separated list) and "
        ".required",
        tuple((name, None) for name in ("name", "type", "validationformat", "valueoptions", "required")),
    ),
    string(
        "successmessage",
        "the message after a successful run; {{actionName}}, {{extensionName}} and {{resourceName}} are "
        "replaced by names",
        length=LONGEST_TEXT,
    ),
    string(
        "errormessage",
        "the message after a run that failed; names are replaced as in successmessage",
        length=LONGEST_TEXT,
    ),
    integer("timeout", "the timeout of a run, in seconds; initial value: 3", minimum=1, maximum=LONGEST_TIMEOUT_S),
    boolean("enabled", "whether users can run the action; initial value: false"),
    mapping("details", "the details that the executable gets as externaldetails.action: details[0].name=value"),
)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listExtensions",
        description="Lists the configured extension, if there is one",
        since="4.21.0",
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        handler=list_extensions,
        shape=Shape.LIST,
        response=EXTENSION,
        parameters=(
            string("id", "only the extension with this id"),
            string("name", "only the extension of this name"),
            strings("details", "accepted but ignored: the response always contains all fields"),
            *PAGING,
        ),
    ),
    Command(
        name="addCustomAction",
        description="Adds a custom action, which the executable of the extension runs on VMs",
        since="4.21.0",
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        handler=add_custom_action,
        shape=Shape.OBJECT,
        response=ACTION,
        changes_state=True,
        parameters=(
            string("extensionid", "the extension", required=True),
            string(
                "name",
                "the name of the action, unique in the extension; the service passes it to the executable",
                required=True,
            ),
            *DECLARED,
        ),
    ),
    Command(
        name="listCustomActions",
        description="Lists custom actions; users see those that their role may run",
        since="4.21.0",
        authorized=EVERY_ROLE,
        handler=list_custom_actions,
        shape=Shape.LIST,
        response=ACTION,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.CUSTOM_ACTION, "only this action"),
            string("name", "only the action of this name"),
            string("extensionid", "only actions of this extension"),
            TYPE,
            uuid("resourceid", Entity.VIRTUAL_MACHINE, "only actions that can be run on this VM"),
            boolean("enabled", "true: only enabled actions; false: only disabled ones"),
            *PAGING,
        ),
    ),
    Command(
        name="updateCustomAction",
        description="Changes a custom action",
        since="4.21.0",
        roles=ROOT_ADMIN_ONLY,
        handler=update_custom_action,
        shape=Shape.OBJECT,
        response=ACTION,
        changes_state=True,
        parameters=(
            uuid("id", Entity.CUSTOM_ACTION, "the action", required=True),
            *DECLARED,
            boolean(
                "cleanupparameters",
                "true: remove all parameters of the action; the parameter parameters is then ignored",
            ),
            boolean(
                "cleanupdetails", "true: remove all details of the action; the parameter details is then ignored"
            ),
        ),
    ),
    Command(
        name="deleteCustomAction",
        description="Deletes a custom action",
        since="4.21.0",
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        handler=delete_custom_action,
        shape=Shape.SUCCESS,
        changes_state=True,
        parameters=(uuid("id", Entity.CUSTOM_ACTION, "the action", required=True),),
    ),
    Command(
        name="runCustomAction",
        description=(
            "Runs a custom action on a VM once. The result of the job contains whether the action succeeded"
        ),
        since="4.21.0",
        authorized=EVERY_ROLE,
        handler=run_custom_action,
        shape=Shape.JOB,
        response=RESULT,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("customactionid", Entity.CUSTOM_ACTION, "the action", required=True),
            TYPE,
            uuid("resourceid", Entity.VIRTUAL_MACHINE, "the VM; it must be Running or Stopped", required=True),
            mapping("parameters", "values of the action's parameters: parameters[0].name=value"),
        ),
    ),
)
