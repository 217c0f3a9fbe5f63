"""The createTemplate command for a volume of a stopped VM. The request is checked here; a job creates the template.

The template is in the volume's zone, and not ready until the job has ended.

Lock order: the owner's account, the volume, the VM.
"""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.infrastructure.topology import VolumeType
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.provisioning.kinds.catalog.create_template import CREATE_TEMPLATE
from bulkdeploy.services.catalog.template_publicity import check_publicity
from bulkdeploy.services.catalog.templates import TEMPLATE, new_template_row
from bulkdeploy.services.ownership import NamedOwner, lock_owner
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import require_ready, submit
from bulkdeploy.services.volumes.volumes import owned_volume
from bulkdeploy.store.accounts.live_limits import require_within_limits
from bulkdeploy.store.catalog.template_changes import put_in_zones
from bulkdeploy.store.catalog.volume_templates import CREATING, is_template_being_made, read_image_kind
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import insert_row
from bulkdeploy.store.volumes.volume_changes import READY, has_job_of_volume, known_volume, read_vm

OF_VOLUME = "volumeid"


def create_template(
    connection: Connection, system: System, caller: Caller, named: NamedOwner, given: Arguments
) -> JobTicket:
    """Create a template of a volume; the job's result is the template.

    Raises:
        PermissionDenied: the caller may not access the volume, or may not create such a template for this owner.
        InvalidParameter: the volume was deleted, the volume is not attached to a VM, or the volume does not exist
            in a pool yet; the VM is not stopped, or a job works on the volume or makes another template of the VM;
            or the VM's hypervisor does not support the operation.
        ResourceLimitExceeded: the limit of templates of the account or of a domain above it would be exceeded.
        TransactionConflict: the volume was detached meanwhile; the whole transaction must be repeated.
    """
    owner = lock_owner(connection, caller, named)
    ref: EntityRef = given[OF_VOLUME]
    volume, _ = owned_volume(connection, caller, ref, OF_VOLUME)
    if volume.vm_id is None:
        rule = "it is not attached to a virtual machine; only attached volumes can be used for templates"
        raise InvalidParameter(OF_VOLUME, str(ref.uuid), rule)
    zone = given.get("zoneid")
    if zone is not None and zone.id != volume.zone_id:
        raise InvalidParameter("zoneid", str(zone.uuid), "the template will be in the zone of its volume")
    require_within_limits(connection, [owner], ResourceType.TEMPLATE)
    seen = read_vm(connection, volume.vm_id)
    vm = EntityRef(Entity.VIRTUAL_MACHINE, seen.id, seen.uuid, seen.name)
    image_format, arch = read_image_kind(connection, volume.template_id)
    columns = new_template_row(
        caller,
        TEMPLATE,
        {
            "arch": arch,
            **given,
            "format": image_format,
            "hypervisor": seen.hypervisor,
            "size": volume.size_bytes,
            "bootable": volume.volume_type == VolumeType.ROOT,
        },
    )
    check_publicity(connection, caller, owner, is_public=bool(columns["is_public"]))
    check = partial(_check, volume=volume)
    require_ready(connection, system, caller, vm, CREATE_TEMPLATE, check, parameter=OF_VOLUME, value=ref.uuid)
    made = insert_row(
        connection, Entity.TEMPLATE, {**columns, "account_id": owner.account_id, "source_vm_id": vm.id}
    )
    place = {"template_id": made.id, "zone_id": volume.zone_id, "ready": False, "status": CREATING}
    put_in_zones(connection, [place])
    params = {"template_id": made.id, "template_uuid": str(made.uuid), "volume_uuid": str(ref.uuid)}
    ticket = submit(connection, system, caller, vm, CREATE_TEMPLATE, params, parameter=OF_VOLUME, value=ref.uuid)
    return JobTicket(ticket.job_uuid, str(made.uuid))


def _check(connection: Connection, vm: Row[Any], *, volume: Row[Any]) -> None:
    shown = str(volume.uuid)
    if known_volume(connection, volume.id).vm_id != vm.id:
        raise TransactionConflict
    if volume.state != READY:
        rule = f"it is {volume.state}; it must be Ready: start its virtual machine once"
        raise InvalidParameter(OF_VOLUME, shown, rule)
    if is_template_being_made(connection, vm.id):
        rule = "another template is being created from its virtual machine; wait until its job ends"
        raise InvalidParameter(OF_VOLUME, shown, rule)
    if has_job_of_volume(connection, vm.id, volume.id):
        rule = "a job is attaching, detaching or resizing the volume; wait until the job ends"
        raise InvalidParameter(OF_VOLUME, shown, rule)
