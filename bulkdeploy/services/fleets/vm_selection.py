"""The selection of the VMs of a bulk operation: by their ids, or by filters of listVirtualMachines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.virtual_machines.virtual_machines import select_vms


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSelection:
    """The VMs that a call selects.

    Attributes:
        filters: filters of listVirtualMachines, and ``deploymentid``; at least one.
        visible: the accounts whose VMs the filters select from.
        excluded: VMs that the filters do not select.
        expected_count: the number of selected VMs; None accepts any number.
    """

    filters: Arguments
    visible: Visibility
    excluded: Sequence[EntityRef] = ()
    expected_count: int | None = None

    @property
    def first_filter(self) -> tuple[str, str]:
        """The name and the value of the filter that an error names."""
        name = next(iter(self.filters))
        value = self.filters[name]
        if name == "ids":
            return name, ",".join(str(vm.uuid) for vm in value[:3]) + (",..." if len(value) > 3 else "")
        return name, str(value.uuid) if isinstance(value, EntityRef) else str(value)


def select_exactly(vms: Sequence[Row[Any]]) -> VmSelection:
    """Return a selection of exactly these VMs."""
    refs = tuple(EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name) for vm in vms)
    return VmSelection(filters={"ids": refs}, visible=Visibility())


def find_selected(connection: Connection, selection: VmSelection, accepted: frozenset[VmState]) -> list[int]:
    """Return the ids of the selected VMs. ``accepted`` are the states of VMs that the operation accepts.

    Destroyed and expunged VMs are selected only if the operation accepts their state, or if the call names VMs or a
    state.

    Raises:
        InvalidCombination: there is no filter.
        InvalidParameter: the caller cannot see a VM of ``ids``; no VM is selected, or not the expected number.
    """
    if not selection.filters:
        rule = "the call must select virtual machines, by ids or by filters of listVirtualMachines"
        raise InvalidCombination(("ids",), rule)
    named = selection.filters.get("ids", ())
    if named:
        seen = set(select_vms(connection, selection.visible, {"ids": named}))
        for vm in named:
            if vm.id not in seen:
                raise InvalidParameter("ids", str(vm.uuid), "there is no virtual machine with this id")
    is_explicit = "ids" in selection.filters or "state" in selection.filters
    vm_ids = select_vms(
        connection,
        selection.visible,
        selection.filters,
        without=() if is_explicit else GONE - accepted,
        excluded_ids=[vm.id for vm in selection.excluded],
    )
    if selection.expected_count not in (None, len(vm_ids)):
        rule = f"{len(vm_ids)} virtual machines are selected"
        raise InvalidParameter("expectedcount", selection.expected_count, rule)
    if not vm_ids:
        name, value = selection.first_filter
        raise InvalidParameter(name, value, "no virtual machine is selected")
    return vm_ids
