"""Custom actions of the extension that runs VMs: add, update, delete, and run on a VM by a job.

A custom action is an action that the extension's own executable offers in addition to the standard actions. No
other program is ever run. There is one extension, which the settings name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import orjson
from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.custom_actions import (
    BUILT_IN,
    NAME,
    RESOURCE_TYPE,
    ValueFormat,
    checked_values,
    declared_parameters,
    message_of,
)
from bulkdeploy.drivers.abilities.custom_actions import CustomActions
from bulkdeploy.provisioning.kinds.virtual_machines.run_custom_action import RUN_CUSTOM_ACTION
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.live_entities import lock_entity
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import submit
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import NameTaken, change_row, columns_of, insert_row, remove_rows
from bulkdeploy.store.virtual_machines import custom_actions as store
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row

EXTENSIONS = UUID("6f6b6a5e-3f0e-5d3c-9a51-5a3b1f3c2d10")
"""The namespace of the ids of extensions."""

DEFAULT_TIMEOUT_S = 3
"""As CloudStack's ``addCustomAction`` has it."""


@dataclass(frozen=True, slots=True)
class Extension:
    """The configured extension: its id, and the name (without suffix) and path of its executable."""

    uuid: UUID
    name: str
    path: str
    is_ready: bool


def read_extension(system: System) -> Extension | None:
    """Return the extension that the settings configure for a hypervisor, or None if none is configured."""
    for driver in system.drivers:
        if CustomActions in driver.abilities:
            path = CustomActions.of(driver).program
            return Extension(uuid5(EXTENSIONS, "extension"), path.stem, str(path), path.is_file())
    return None


def require_extension(system: System, given: str | None) -> Extension:
    """Return the configured extension. If ``given`` is not None, it must be the id of this extension.

    Raises:
        InvalidParameter: there is no extension, or it has another id.
    """
    found = read_extension(system)
    if found is None or (given is not None and given.lower() != str(found.uuid)):
        rule = (
            "there is no extension with this id; listExtensions returns the configured extension, if there is one"
        )
        raise InvalidParameter("extensionid", given or "", rule)
    return found


def add_custom_action(connection: Connection, system: System, caller: Caller, given: Arguments) -> EntityRef:
    """Add a custom action. The action is disabled unless ``enabled`` is true.

    Root admins may run an enabled action even if their role type is not allowed explicitly.

    Raises:
        InvalidParameter: the name is malformed or already used, or a parameter of the action violates a rule; or
            under the same conditions as ``require_extension``.
    """
    require_extension(system, given["extensionid"])
    name = given["name"]
    if not NAME.fullmatch(name):
        raise InvalidParameter("name", name, "it must be 1 to 255 ASCII letters, digits, spaces, '-' and '_'")
    if name.strip() in BUILT_IN:
        raise InvalidParameter("name", name, "the name is reserved for a standard action of extensions")
    columns = {
        "timeout_seconds": DEFAULT_TIMEOUT_S,
        "enabled": False,
        **_columns(given),
        "resource_type": RESOURCE_TYPE,
        "role_types": _role_types(given.get("allowedroletypes", ())),
    }
    try:
        made = insert_row(connection, Entity.CUSTOM_ACTION, columns)
    except NameTaken:
        raise InvalidParameter("name", name, "the extension has an action of this name") from None
    record_event(connection, caller, EventType.CUSTOM_ACTION_ADD, f"added custom action {name}")
    return made


def update_custom_action(connection: Connection, caller: Caller, ref: EntityRef, given: Arguments) -> None:
    """Change an action. Given parameters, details and roles replace all existing ones.

    Raises:
        InvalidParameter: the action was deleted, or a parameter of the action violates a rule.
    """
    lock_entity(connection, ref)
    columns = _columns(given)
    if given.get("allowedroletypes"):
        columns["role_types"] = _role_types(given["allowedroletypes"])
    if given.get("cleanupparameters"):
        columns["parameters"] = []
    if given.get("cleanupdetails"):
        columns["details"] = {}
    change_row(connection, ref, columns)
    record_event(connection, caller, EventType.CUSTOM_ACTION_UPDATE, f"updated custom action {ref.name}")


def _columns(given: Arguments) -> dict[str, Any]:
    columns = columns_of(store.FIELDS, given)
    if given.get("parameters"):
        columns["parameters"] = declared_parameters(given["parameters"])
    if given.get("details"):
        columns["details"] = dict(given["details"])
    return columns


def _role_types(given: tuple[str, ...]) -> list[str]:
    """Return the role types that may run an action: the given types and Admin, because root admins may run all."""
    return sorted({*given, RoleType.ADMIN.value})


def delete_custom_action(connection: Connection, caller: Caller, ref: EntityRef) -> None:
    """Delete a custom action. Jobs that run the action continue.

    Raises:
        InvalidParameter: the action was deleted.
    """
    lock_entity(connection, ref)
    remove_rows(connection, [ref])
    record_event(connection, caller, EventType.CUSTOM_ACTION_DELETE, f"deleted custom action {ref.name}")


def run_custom_action(
    connection: Connection, system: System, caller: Caller, ref: EntityRef, vm: EntityRef, given: Mapping[str, str]
) -> JobTicket:
    """Create the job that runs a custom action on a VM.

    The job's result contains the success of the action and its output.

    Raises:
        InvalidParameter: the action was deleted or is disabled, a value violates the rules of its parameter, the
            extension does not run the VM, or the VM's state does not allow it.
        PermissionDenied: the caller may not access the VM, or the caller's role may not run the action.
    """
    action = store.read_action(connection, ref.id)
    if action is None:
        raise InvalidParameter("customactionid", str(ref.uuid), "the custom action was deleted")
    if not caller.is_root_admin and caller.role_type.value not in action.role_types:
        raise PermissionDenied(f"{caller.username} may not run custom action {ref.uuid}")
    if not action.enabled:
        raise InvalidParameter("customactionid", str(ref.uuid), "the custom action is not enabled")
    row = read_vm_row(connection, vm.id)
    values = checked_values(action.parameters, given)

    def check(_: Connection, locked: Row[Any]) -> None:
        require_ability(system.drivers, locked.hypervisor, CustomActions, "resourceid", str(vm.uuid))

    params = {
        "action": _run_of(action, row.name, require_extension(system, None).name),
        "values": system.cipher.encrypt(orjson.dumps(values).decode()).decode(),
    }
    return submit(connection, system, caller, vm, RUN_CUSTOM_ACTION, params, check, parameter="resourceid")


def _run_of(action: Row[Any], vm_name: str, extension_name: str) -> dict[str, Any]:
    """Return the parameters of the job that runs an action, from the action's present definition."""
    names = {"actionName": action.name, "extensionName": extension_name, "resourceName": vm_name}
    success, failure = f"Successfully completed {action.name}", f"Failed to complete {action.name}"
    return {
        "id": str(action.uuid),
        "name": action.name,
        "details": action.details,
        "timeout": action.timeout_seconds,
        "successmessage": message_of(action.success_message, success, names),
        "errormessage": message_of(action.error_message, failure, names),
        "secrets": [one["name"] for one in action.parameters if one["validationformat"] == ValueFormat.PASSWORD],
    }
