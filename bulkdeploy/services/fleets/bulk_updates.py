"""Bulk changes of VMs: display names by a pattern, flags, details and tags."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_changes import check_state
from bulkdeploy.services.virtual_machines.virtual_machine_updates import (
    ADMIN_COMMANDS,
    UPDATE,
    VmUpdate,
    new_details,
)
from bulkdeploy.services.virtual_machines.vm_work import PreparedVms, VmChange, VmOperation
from bulkdeploy.store.resource_tags import USER_VM, replace_tags

LONGEST_NAME = 255
NUMBER, NAME = "{n}", "{name}"


@dataclass(frozen=True, slots=True)
class FleetUpdate:
    """New values for many VMs. Values that are None are not changed.

    ``display_name`` may contain the placeholders NUMBER, the VM's number in the selection, and NAME, its host name.
    ``tags`` maps keys to values; existing tags with the same keys are replaced.
    """

    display_name: str | None = None
    columns: Mapping[str, bool] | None = None
    details: Mapping[str, str] | None = None
    tags: Mapping[str, str] | None = None


def update_operation(given: FleetUpdate) -> VmOperation:
    """Return the operation that changes many VMs.

    Raises:
        InvalidCombination: nothing is given.
        InvalidParameter: the pattern of the display name has another placeholder than NUMBER and NAME.
    """
    if given == FleetUpdate(columns={}):
        names = ("displayname", "details", "deleteprotection", "tags")
        raise InvalidCombination(
            names, "at least one of displayname, details, deleteprotection and tags must be given"
        )
    for placeholder in re.findall(r"\{[^}]*\}?", given.display_name or ""):
        if placeholder not in (NUMBER, NAME):
            rule = f"{placeholder} is unknown; {NUMBER} is the VM's number in the selection, {NAME} its host name"
            raise InvalidParameter("displayname", given.display_name, rule)
    command_class = f"{ADMIN_COMMANDS}.vm.UpdateVMCmdByAdmin"
    return VmOperation(UPDATE.verb, frozenset(VmState) - GONE, command_class, partial(_prepare_update, given=given))


def _prepare_update(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]], *, given: FleetUpdate
) -> PreparedVms:
    del connection, system
    number_of = {vm.id: number for number, vm in enumerate(vms, start=1)}

    def work_of(vm: Row[Any]) -> VmChange:
        check_state(vm, UPDATE)
        columns: dict[str, Any] = dict(given.columns or {})
        if given.display_name is not None:
            name = given.display_name.replace(NUMBER, str(number_of[vm.id])).replace(NAME, vm.name)
            if len(name) > LONGEST_NAME:
                rule = f"the display name of {vm.name} would have {len(name)} characters; at most {LONGEST_NAME}"
                raise InvalidParameter("displayname", name, rule)
            columns["display_name"] = name
        details = new_details(caller, vm, VmUpdate(details=given.details))
        if details is not None:
            columns["details"] = details
        return VmChange(UPDATE.event_type, columns)

    def tag(connection: Connection, changed: Sequence[Row[Any]]) -> None:
        if given.tags:
            replace_tags(connection, USER_VM, {vm.id: vm.account_id for vm in changed}, given.tags)

    return PreparedVms(work_of, tag)
