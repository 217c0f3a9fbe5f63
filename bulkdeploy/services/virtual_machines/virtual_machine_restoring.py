"""Making a VM's root disk anew from a template: checked here, done by a job."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.deployment import TemplateFacts, Variant
from bulkdeploy.domain.device_parameters import VARIANT
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.provisioning.kinds.restore_virtual_machine import RESTORE
from bulkdeploy.scheduling.vm_snapshots import find_snapshots_of_volumes
from bulkdeploy.services.deployments.deployment_checks import check_variant
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import find_unready, submit
from bulkdeploy.services.virtual_machines.vm_work import PreparedVms, VmJob, VmOperation
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.deployments.deployment_facts import read_template
from bulkdeploy.store.virtual_machines.virtual_machine_changes import root_disks_of, template_kinds


def restore_virtual_machine(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, template: EntityRef | None
) -> JobTicket:
    """Make the VM's root disk anew, from its template or another one; one that ran is started again.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or its owner may not use the template.
        InvalidParameter: its state, or the template, does not go with it, or its root disk has snapshots.
    """
    check = partial(_check, template=template)
    return submit(connection, system, caller, vm, RESTORE, _params(template), check, parameter="virtualmachineid")


def restore_operation(template: EntityRef | None) -> VmOperation:
    """Return the operation that restores many VMs, from their templates or from another one."""
    return VmOperation.of_kind(RESTORE, partial(_prepare, template=template))


def _params(template: EntityRef | None) -> dict[str, int]:
    return {} if template is None else {"template_id": template.id}


def _prepare(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]], *, template: EntityRef | None
) -> PreparedVms:
    del caller
    unready = find_unready(connection, system, vms, RESTORE)
    checks = _RestoreChecks(connection, vms, template)

    def work_of(vm: Row[Any]) -> VmJob:
        if vm.id in unready:
            raise InvalidParameter("virtualmachineid", str(vm.uuid), unready[vm.id])
        checks.check(vm)
        return VmJob(RESTORE, _params(template))

    return PreparedVms(work_of)


def _check(connection: Connection, row: Row[Any], *, template: EntityRef | None) -> None:
    _RestoreChecks(connection, [row], template).check(row)


class _RestoreChecks:
    """The rules of restoring these locked VMs, with all that they depend on."""

    def __init__(self, connection: Connection, vms: Sequence[Row[Any]], template: EntityRef | None) -> None:
        vm_ids = [vm.id for vm in vms]
        self._template = template
        self._disks = root_disks_of(connection, vm_ids)
        root_ids = [disk.id for disk in self._disks.values()]
        self._snapshots = find_snapshots_of_volumes(connection, vm_ids, root_ids) if root_ids else {}
        self._facts: dict[tuple[int, int], TemplateFacts | None] = {}
        if template is not None:
            self._owners = owners_by_id(connection, {vm.account_id for vm in vms})
            self._kinds = template_kinds(connection, {vm.template_id for vm in vms})
            for zone_id, account_id in {(vm.zone_id, vm.account_id) for vm in vms}:
                facts = read_template(connection, template.id, zone_id, self._owners[account_id])
                self._facts[zone_id, account_id] = facts

    def check(self, vm: Row[Any]) -> None:
        """Check one of the VMs.

        Raises:
            PermissionDenied: its owner may not use the template.
            InvalidParameter: the template does not go with the VM, or its root disk has snapshots.
        """
        if vm.id in self._snapshots:
            raise InvalidParameter("virtualmachineid", str(vm.uuid), self._snapshots[vm.id])
        if self._template is not None:
            self._check_template(vm, str(self._template.uuid))

    def _check_template(self, vm: Row[Any], shown: str) -> None:
        owner, facts = self._owners[vm.account_id], self._facts[vm.zone_id, vm.account_id]
        if facts is None:
            raise InvalidParameter("templateid", shown, "the template was deleted")
        own = facts.owner_id == owner.account_id
        if not (facts.is_public or facts.shared_with_owner or own or owner.is_root_admin):
            raise PermissionDenied(f"Account {owner.account_name} does not have permission to use template {shown}")
        if not facts.ready:
            raise InvalidParameter("templateid", shown, f"template {facts.name} is not ready in the VM's zone")
        if self._kinds[vm.template_id] == TemplateKind.ISO:
            rule = "the virtual machine was made from an ISO, not from a template"
            raise InvalidParameter("templateid", shown, rule)
        if facts.hypervisor is not None and facts.hypervisor != vm.hypervisor:
            raise InvalidParameter("templateid", shown, f"template {facts.name} is for {facts.hypervisor}")
        check_variant(facts, Variant(vm.details.get(VARIANT)), "templateid")
        disk = self._disks.get(vm.id)
        if disk is not None and facts.size_bytes > disk.size_bytes:
            rule = (
                f"template {facts.name} has {facts.size_bytes} bytes, the root disk {disk.size_bytes}, which does"
                " not change"
            )
            raise InvalidParameter("templateid", shown, rule)
