"""Replacing a VM's root disk by a new one from a template: requests are checked here, and a job does the work."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import TemplateFacts, Variant
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.infrastructure.topology import TemplateKind
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.units import GIB, gib_to_bytes
from bulkdeploy.domain.virtual_machines.device_parameters import VARIANT
from bulkdeploy.provisioning.kinds.virtual_machines.restore_virtual_machine import RESTORE
from bulkdeploy.scheduling.vm_snapshots import find_snapshots_of_volumes
from bulkdeploy.services.deployments.deployment_checks import check_variant, usable_disk_offering
from bulkdeploy.services.deployments.deployment_sizes import disk_gib
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import find_unready, submit
from bulkdeploy.services.virtual_machines.vm_work import PreparedVms, VmJob, VmOperation
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.resource_counts import check_limits
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.deployments.deployment_facts import read_template, read_zone
from bulkdeploy.store.virtual_machines.virtual_machine_changes import (
    root_disks_of,
    root_template_bytes,
    template_kinds,
)
from bulkdeploy.store.volumes.volume_changes import has_fixed_root_disk


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """The requested differences of the new root disk from the old one. Values that are None do not change."""

    template: EntityRef | None = None
    disk_offering: EntityRef | None = None
    disk_gib: int | None = None


def restore_virtual_machine(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, request: RestoreRequest
) -> JobTicket:
    """Create the job that replaces the VM's root volume by a new one from its template or another template.

    If the VM is running, it is restarted.

    Raises:
        PermissionDenied: the caller may not access the VM, or its owner may not use template or disk offering.
        InvalidParameter, InvalidCombination: the VM's state does not allow the operation, the template or the size
        does not match the VM, or its root disk has snapshots.
        ResourceLimitExceeded: the limit of primary storage of the account or of a domain above it would be
            exceeded.
    """
    params: dict[str, int] = {}

    def check(connection: Connection, row: Row[Any]) -> None:
        params.update(_RestoreChecks(connection, [row], request).check(row))

    return submit(connection, system, caller, vm, RESTORE, params, check, parameter="virtualmachineid")


def restore_operation(template: EntityRef | None) -> VmOperation:
    """Return the bulk operation that restores VMs from their own templates or from another template."""
    return VmOperation.of_kind(RESTORE, partial(_prepare, request=RestoreRequest(template)))


def _prepare(
    connection: Connection, system: System, caller: Caller, vms: Sequence[Row[Any]], *, request: RestoreRequest
) -> PreparedVms:
    del caller
    unready = find_unready(connection, system, vms, RESTORE)
    checks = _RestoreChecks(connection, vms, request)

    def work_of(vm: Row[Any]) -> VmJob:
        if vm.id in unready:
            raise InvalidParameter("virtualmachineid", str(vm.uuid), unready[vm.id])
        return VmJob(RESTORE, checks.check(vm))

    return PreparedVms(work_of)


class _RestoreChecks:
    """The checks of a restore of these locked VMs, with the data that the checks need."""

    def __init__(self, connection: Connection, vms: Sequence[Row[Any]], request: RestoreRequest) -> None:
        vm_ids = [vm.id for vm in vms]
        self._connection, self._request, template = connection, request, request.template
        self._disks = root_disks_of(connection, vm_ids)
        root_ids = [disk.id for disk in self._disks.values()]
        self._snapshots = find_snapshots_of_volumes(connection, vm_ids, root_ids) if root_ids else {}
        self._facts: dict[tuple[int, int], TemplateFacts | None] = {}
        self._owners = owners_by_id(connection, {vm.account_id for vm in vms})
        if template is not None:
            self._kinds = template_kinds(connection, {vm.template_id for vm in vms})
            for zone_id, account_id in {(vm.zone_id, vm.account_id) for vm in vms}:
                facts = read_template(connection, template.id, zone_id, self._owners[account_id])
                self._facts[zone_id, account_id] = facts

    def check(self, vm: Row[Any]) -> dict[str, int]:
        """Check one of the VMs and return the parameters of its job.

        Raises:
            PermissionDenied: its owner may not use template or disk offering.
            InvalidParameter, InvalidCombination: the template or the size does not match the VM, or its root disk
            has snapshots.
            ResourceLimitExceeded: the limit of primary storage would be exceeded.
        """
        if vm.id in self._snapshots:
            raise InvalidParameter("virtualmachineid", str(vm.uuid), self._snapshots[vm.id])
        params: dict[str, int] = {}
        template_bytes = 0
        if self._request.template is not None:
            template_bytes = self._template_bytes(vm, str(self._request.template.uuid))
            params["template_id"] = self._request.template.id
        disk = self._disks.get(vm.id)
        if disk is not None:
            params |= self._size(vm, disk, template_bytes)
        return params

    def _size(self, vm: Row[Any], disk: Row[Any], template_bytes: int) -> dict[str, int]:
        """Return the size and the disk offering of the new root disk, if they differ from the old root disk."""
        request, params = self._request, {}
        if request.disk_offering is None and request.disk_gib is None:
            size = max(disk.size_bytes, template_bytes)
        else:
            size = gib_to_bytes(self._requested_gib(vm, disk))
            if request.disk_offering is not None:
                params["disk_offering_id"] = request.disk_offering.id
            least = template_bytes or root_template_bytes(self._connection, vm.id)
            if size < least:
                parameter = "diskofferingid" if request.disk_gib is None else "rootdisksize"
                rule = f"the root disk must not be smaller than its template, which has {least} bytes"
                raise InvalidParameter(parameter, f"{size // GIB} GiB", rule)
        if size != disk.size_bytes:
            params["size_bytes"] = size
        if size > disk.size_bytes:
            more = ResourceAmounts(primary_storage_bytes=size - disk.size_bytes)
            check_limits(self._connection, self._owners[disk.account_id], more)
        return params

    def _requested_gib(self, vm: Row[Any], disk: Row[Any]) -> int:
        request = self._request
        if request.disk_offering is None:
            if disk.disk_offering_id is None and has_fixed_root_disk(self._connection, disk.service_offering_id):
                rule = "the service offering of the virtual machine has a fixed size of the root disk"
                raise InvalidParameter("rootdisksize", request.disk_gib, rule)
            return request.disk_gib or 0
        place = read_zone(self._connection, vm.zone_id)
        if place is None:
            raise InvalidParameter("virtualmachineid", str(vm.uuid), "the zone of the virtual machine was deleted")
        owner = self._owners[disk.account_id]
        offering = usable_disk_offering(self._connection, owner, place, request.disk_offering)
        if request.disk_gib is not None and not offering.customized:
            return request.disk_gib
        return disk_gib(read_configuration(self._connection), request.disk_gib, offering)

    def _template_bytes(self, vm: Row[Any], shown: str) -> int:
        """Check that the VM may be restored from the template, and return the size of the template in bytes."""
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
        return facts.size_bytes
