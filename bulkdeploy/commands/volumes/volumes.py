"""Commands of volumes (one file: the commands of one noun)."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.constant_fields import OF_VOLUMES
from bulkdeploy.commands.ownership import named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.parameters.custom_ids import CUSTOM_ID, CUSTOM_ID_PARAMETER, chosen_id
from bulkdeploy.commands.unsupported import (
    NO_CUSTOM_IDS,
    NO_ENCRYPTION,
    NO_QUALITY_OF_SERVICE,
    NOTHING_FROM_SNAPSHOTS,
)
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import COUNT_ONLY, OWNER, PAGING, PROJECT
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import (
    ExactlyOne,
    Exclusive,
    Needs,
    boolean,
    long,
    mapping,
    only_true,
    string,
    uuid,
    uuids,
)
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, OWNER_FIELDS, TAGS, flag, large_number, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceLimitExceeded, ResourceUnavailable
from bulkdeploy.domain.infrastructure.topology import VolumeType
from bulkdeploy.domain.virtual_machines.sizes import MOST_DISK_GIB
from bulkdeploy.services.volumes import volume_attachment, volume_resizing
from bulkdeploy.services.volumes import volumes as service
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.volumes import volumes

VOLUME = Response(
    "volume",
    (
        text("id", "the volume"),
        text("name", "the name of the volume"),
        text("type", "ROOT or DATADISK"),
        text("state", "Allocated, Attaching, Ready, Destroy or Expunged"),
        large_number("size", "the size of the volume, in bytes"),
        large_number("deviceid", "the device number of the volume in the VM, starting at 0"),
        *OWNER_FIELDS,
        text("zoneid", "the zone of the volume"),
        text("zonename", "the zone's name"),
        text("virtualmachineid", "the VM of the volume"),
        text("vmname", "the VM's host name"),
        text("vmdisplayname", "the display name of the VM"),
        text("vmstate", "the VM's state"),
        text("vmtype", "User"),
        text("hypervisor", "the VM's hypervisor"),
        text("diskofferingid", "the disk offering of the volume"),
        text("diskofferingname", "the disk offering's name"),
        text("diskofferingdisplaytext", "the disk offering's description"),
        text("serviceofferingid", "the service offering of the VM; only for root disks"),
        text("serviceofferingname", "the service offering's name"),
        text("serviceofferingdisplaytext", "the service offering's description"),
        text("templateid", "the template from which the VM was created"),
        text("templatename", "the template's name"),
        text("templatedisplaytext", "the template's description"),
        text("storageid", "the storage pool of the volume", ROOT_ADMIN_ONLY),
        text("storage", "the storage pool's name", ROOT_ADMIN_ONLY),
        text("storagetype", "shared, or local if the volume is on a local disk of a host"),
        text("clusterid", "the pool's cluster", ROOT_ADMIN_ONLY),
        text("clustername", "the cluster's name", ROOT_ADMIN_ONLY),
        text("podid", "the pool's pod", ROOT_ADMIN_ONLY),
        text("podname", "the pod's name", ROOT_ADMIN_ONLY),
        text("provisioningtype", "thin"),
        flag("destroyed", "whether the volume is being removed"),
        flag("displayvolume", "always true"),
        flag("deleteprotection", "whether the volume is protected from being deleted"),
        flag("isextractable", "always false"),
        TAGS,
        moment("created", "the date and time of creation"),
        moment("attached", "when the volume was attached"),
        *OF_VOLUMES,
        HAS_ANNOTATIONS,
    ),
)


def list_volumes(call: Call) -> Page:
    """Return the volumes of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return volumes.list_volumes(call.connection, visible(call), call.arguments, paging(call))


def create_volume(call: Call) -> JobTicket:
    """Create a data volume. The job's result is the volume."""
    arguments = call.arguments
    return service.create_volume(
        call.connection,
        call.caller,
        named_owner(call),
        call.text("name"),
        arguments["zoneid"],
        arguments["diskofferingid"],
        arguments.get("size"),
        chosen_id(call, CUSTOM_ID, Entity.VOLUME),
    )


def attach_volume(call: Call) -> JobTicket:
    """Attach a data volume to a VM."""
    arguments = call.arguments
    return volume_attachment.attach_volume(
        call.connection,
        call.system,
        call.caller,
        arguments["id"],
        arguments["virtualmachineid"],
        arguments.get("deviceid"),
    )


def detach_volume(call: Call) -> JobTicket:
    """Detach a data volume from its VM."""
    return volume_attachment.detach_volume(
        call.connection,
        call.system,
        call.caller,
        call.ref("id"),
        call.ref("virtualmachineid"),
        call.arguments.get("deviceid"),
    )


def update_volume(call: Call) -> JobTicket:
    """Change the name or the delete protection of a volume. The job's result is the volume."""
    return service.update_volume(
        call.connection,
        call.caller,
        call.arguments["id"],
        call.text("name"),
        delete_protection=call.arguments.get("deleteprotection"),
    )


def resize_volume(call: Call) -> JobTicket:
    """Change the size or the disk offering of a volume."""
    arguments = call.arguments
    return volume_resizing.resize_volume(
        call.connection,
        call.system,
        call.caller,
        arguments["id"],
        arguments.get("size"),
        call.ref("diskofferingid"),
        shrink_ok=bool(arguments.get("shrinkok")),
    )


def delete_volume(call: Call) -> None:
    """Delete a volume that is not attached to a VM."""
    service.delete_volume(call.connection, call.caller, call.arguments["id"])


def destroy_volume(call: Call) -> JobTicket:
    """Delete a volume that is not attached to a VM, as a job."""
    return service.destroy_volume(call.connection, call.caller, call.arguments["id"])


LIST_SYSTEM_VMS = boolean(
    "listsystemvms",
    "accepted but ignored: there are no system VMs",
    roles=ROOT_ADMIN_ONLY,
)

COMMANDS = (
    Command(
        name="listVolumes",
        description="Lists volumes",
        handler=list_volumes,
        shape=Shape.LIST,
        response=VOLUME,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.VOLUME, "only this volume"),
            uuids("ids", Entity.VOLUME, "only these volumes"),
            string("name", "only volumes of this name"),
            string("type", "only volumes of this type", choices=tuple(kind.value for kind in VolumeType)),
            string("state", "only volumes in this state"),
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only volumes of this VM"),
            boolean("attached", "true: only attached volumes; false: only detached volumes"),
            uuid("zoneid", Entity.ZONE, "only volumes in this zone"),
            uuid("diskofferingid", Entity.DISK_OFFERING, "only volumes of this disk offering"),
            uuid("serviceofferingid", Entity.SERVICE_OFFERING, "only volumes of this service offering"),
            uuid("podid", Entity.POD, "only volumes on pools of this pod", roles=ROOT_ADMIN_ONLY),
            uuid("clusterid", Entity.CLUSTER, "only volumes on pools of this cluster", roles=ROOT_ADMIN_ONLY),
            uuid("hostid", Entity.HOST, "only volumes of VMs on this host", roles=ROOT_ADMIN_ONLY),
            uuid("storageid", Entity.STORAGE_POOL, "only volumes on this pool", roles=ROOT_ADMIN_ONLY),
            boolean("displayvolume", "false: only hidden volumes; there are none"),
            LIST_SYSTEM_VMS,
            mapping("tags", "only volumes with these tags: tags[0].key, tags[0].value"),
            COUNT_ONLY,
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
        unsupported={"isencrypted": NO_ENCRYPTION},
    ),
    Command(
        name="createVolume",
        description="Creates a data volume. Space is allocated when a running virtual machine gets the"
        " volume, or starts with it.",
        handler=create_volume,
        shape=Shape.JOB,
        response=VOLUME,
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(
            string("name", "the name of the volume"),
            uuid("zoneid", Entity.ZONE, "the zone of the volume", required=True),
            uuid("diskofferingid", Entity.DISK_OFFERING, "the disk offering of the volume", required=True),
            long("size", "the size of the volume in GiB; only for disk offerings of custom size", minimum=1),
            only_true("displayvolume", "only true is accepted, because every volume is shown"),
            CUSTOM_ID_PARAMETER,
            *FOR_OWNER,
        ),
        unsupported={
            "snapshotid": NOTHING_FROM_SNAPSHOTS,
            "storageid": "the storage pool is selected when the volume is attached",
            "virtualmachineid": "use attachVolume to attach the volume to a VM",
            "miniops": NO_QUALITY_OF_SERVICE,
            "maxiops": NO_QUALITY_OF_SERVICE,
        },
    ),
    Command(
        name="attachVolume",
        description="Attaches a data volume to a virtual machine, which may be running",
        handler=attach_volume,
        shape=Shape.JOB,
        response=VOLUME,
        errors=(PermissionDenied, ResourceUnavailable),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VOLUME, "the volume; it must be detached", required=True),
            uuid(
                "virtualmachineid",
                Entity.VIRTUAL_MACHINE,
                "the VM; it must have the same owner as the volume and be Running or Stopped",
                required=True,
            ),
            long("deviceid", "the device number in the VM, at least 1; default: the lowest free number"),
        ),
    ),
    Command(
        name="detachVolume",
        description=(
            "Detaches a data volume from its virtual machine. The call names the volume by its id, or by the "
            "virtual machine and the device number"
        ),
        handler=detach_volume,
        shape=Shape.JOB,
        response=VOLUME,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VOLUME, "the volume; used instead of virtualmachineid and deviceid"),
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM; requires deviceid"),
            long("deviceid", "the device number of the volume in the VM; requires virtualmachineid"),
        ),
        rules=(
            ExactlyOne(("id", "virtualmachineid")),
            Needs("virtualmachineid", "deviceid"),
            Needs("deviceid", "virtualmachineid"),
        ),
    ),
    Command(
        name="updateVolume",
        description="Changes the name or the delete protection of a volume",
        handler=update_volume,
        shape=Shape.JOB,
        response=VOLUME,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VOLUME, "the volume", required=True),
            string("name", "the name of the volume"),
            boolean(
                "deleteprotection",
                "true: the volume cannot be deleted; a data volume is detached, not deleted, when its VM is "
                "expunged",
            ),
            only_true("displayvolume", "only true is accepted, because every volume is shown"),
        ),
        unsupported={
            "customid": NO_CUSTOM_IDS,
            "chaininfo": "the hypervisor manages the files of a volume",
            "path": "the hypervisor manages the path of a volume on its pool",
            "state": "the state of a volume cannot be set",
            "storageid": "volumes cannot be moved between pools",
        },
    ),
    Command(
        name="resizeVolume",
        description="Resizes a volume. Only data volumes can shrink, and only volumes of stopped virtual machines.",
        handler=resize_volume,
        shape=Shape.JOB,
        response=VOLUME,
        errors=(PermissionDenied, ResourceLimitExceeded, ResourceUnavailable),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VOLUME, "the volume", required=True),
            long(
                "size",
                "the new size in GiB; only for root volumes and volumes of custom disk offerings",
                minimum=1,
                maximum=MOST_DISK_GIB,
            ),
            uuid("diskofferingid", Entity.DISK_OFFERING, "the new disk offering of a data volume"),
            boolean("shrinkok", "true: a data volume may shrink; data beyond the new size is lost"),
        ),
        unsupported={
            "miniops": NO_QUALITY_OF_SERVICE,
            "maxiops": NO_QUALITY_OF_SERVICE,
            "automigrate": "volumes cannot be moved between pools",
        },
    ),
    Command(
        name="deleteVolume",
        description="Deletes a detached volume",
        handler=delete_volume,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(uuid("id", Entity.VOLUME, "the volume", required=True),),
    ),
    Command(
        name="destroyVolume",
        authorized=EVERY_ROLE,
        description="Deletes a detached volume. It cannot be recovered.",
        handler=destroy_volume,
        shape=Shape.JOB,
        response=VOLUME,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VOLUME, "the volume", required=True),
            boolean("expunge", "accepted but ignored: the volume is always deleted at once"),
        ),
    ),
)
