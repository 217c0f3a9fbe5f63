"""Making a VM's root disk anew from a template: checked here, done by a job."""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.deployment import Variant
from bulkdeploy.domain.device_parameters import VARIANT
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.provisioning.kinds.restore_virtual_machine import RESTORE
from bulkdeploy.scheduling.vm_snapshots import check_no_snapshots_of_volumes
from bulkdeploy.services.deployments.deployment_checks import check_variant
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import submit
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.deployments.deployment_facts import read_template
from bulkdeploy.store.virtual_machines.virtual_machine_changes import (
    root_disk_bytes,
    root_volume_id,
    template_kind_of,
)


def restore_virtual_machine(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, template: EntityRef | None
) -> JobTicket:
    """Make the VM's root disk anew, from its template or another one; one that ran is started again.

    Raises:
        PermissionDenied: the VM is not the caller's to touch, or its owner may not use the template.
        InvalidParameter: its state, or the template, does not go with it, or its root disk has snapshots.
    """
    params = {} if template is None else {"template_id": template.id}
    check = partial(_check, template=template)
    return submit(connection, system, caller, vm, RESTORE, params, check, parameter="virtualmachineid")


def _check(connection: Connection, row: Row[Any], *, template: EntityRef | None) -> None:
    root = root_volume_id(connection, row.id)
    if root is not None:
        check_no_snapshots_of_volumes(connection, row.id, "virtualmachineid", row.uuid, volume_id=root)
    if template is not None:
        _check_template(connection, row, template=template)


def _check_template(connection: Connection, row: Row[Any], *, template: EntityRef) -> None:
    shown = str(template.uuid)
    owner = owners_by_id(connection, [row.account_id])[row.account_id]
    facts = read_template(connection, template.id, row.zone_id, owner)
    if facts is None:
        raise InvalidParameter("templateid", shown, "the template was deleted")
    own = facts.owner_id == owner.account_id
    if not (facts.is_public or facts.shared_with_owner or own or owner.is_root_admin):
        raise PermissionDenied(f"Account {owner.account_name} does not have permission to use template {shown}")
    if not facts.ready:
        raise InvalidParameter("templateid", shown, f"template {facts.name} is not ready in the VM's zone")
    if template_kind_of(connection, row.template_id) == TemplateKind.ISO:
        raise InvalidParameter("templateid", shown, "the virtual machine was made from an ISO, not from a template")
    if facts.hypervisor is not None and facts.hypervisor != row.hypervisor:
        raise InvalidParameter("templateid", shown, f"template {facts.name} is for {facts.hypervisor}")
    check_variant(facts, Variant(row.details.get(VARIANT)), "templateid")
    size = root_disk_bytes(connection, row.id)
    if facts.size_bytes > size:
        rule = f"template {facts.name} has {facts.size_bytes} bytes, the root disk {size}, which does not change"
        raise InvalidParameter("templateid", shown, rule)
