"""listVolumes."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Exclusive, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import OWNER_FIELDS, TAGS, flag, large_number, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.topology import VolumeType
from bulkdeploy.store import volumes
from bulkdeploy.store.listing import Page

VOLUME = Response(
    "volume",
    (
        text("id", "the volume"),
        text("name", "its name"),
        text("type", "ROOT or DATADISK"),
        text("state", "Allocated, Ready, Destroy or Expunged"),
        large_number("size", "its size, bytes"),
        large_number("deviceid", "its number in its VM, from 0"),
        *OWNER_FIELDS,
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("virtualmachineid", "its VM"),
        text("vmname", "the VM's host name"),
        text("vmdisplayname", "the name that the VM is shown by"),
        text("vmstate", "the VM's state"),
        text("vmtype", "User"),
        text("hypervisor", "the VM's hypervisor"),
        text("diskofferingid", "its disk offering"),
        text("diskofferingname", "the disk offering's name"),
        text("diskofferingdisplaytext", "the disk offering's description"),
        text("serviceofferingid", "the service offering that it comes from, for root disks"),
        text("serviceofferingname", "the service offering's name"),
        text("serviceofferingdisplaytext", "the service offering's description"),
        text("templateid", "the template that it was made from"),
        text("templatename", "the template's name"),
        text("templatedisplaytext", "the template's description"),
        text("storageid", "its storage pool", ROOT_ADMIN_ONLY),
        text("storage", "the storage pool's name", ROOT_ADMIN_ONLY),
        text("storagetype", "shared, or local where it is on a disk of its host"),
        text("clusterid", "the pool's cluster", ROOT_ADMIN_ONLY),
        text("clustername", "the cluster's name", ROOT_ADMIN_ONLY),
        text("podid", "the pool's pod", ROOT_ADMIN_ONLY),
        text("podname", "the pod's name", ROOT_ADMIN_ONLY),
        text("provisioningtype", "thin"),
        flag("destroyed", "whether it is about to be removed"),
        flag("displayvolume", "always true"),
        flag("isextractable", "always false"),
        TAGS,
        moment("created", "when it was made"),
        moment("attached", "when it was attached"),
    ),
)


def list_volumes(call: Call) -> Page:
    """Volumes.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return volumes.list_volumes(call.connection, visible(call), call.arguments, paging(call))


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
            uuid("zoneid", Entity.ZONE, "only volumes in this zone"),
            uuid("diskofferingid", Entity.DISK_OFFERING, "only volumes of this disk offering"),
            uuid("serviceofferingid", Entity.SERVICE_OFFERING, "only volumes of this service offering"),
            uuid("podid", Entity.POD, "only volumes on pools of this pod", roles=ROOT_ADMIN_ONLY),
            uuid("clusterid", Entity.CLUSTER, "only volumes on pools of this cluster", roles=ROOT_ADMIN_ONLY),
            uuid("hostid", Entity.HOST, "only volumes of VMs on this host", roles=ROOT_ADMIN_ONLY),
            uuid("storageid", Entity.STORAGE_POOL, "only volumes on this pool", roles=ROOT_ADMIN_ONLY),
            mapping("tags", "only volumes with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
    ),
)
