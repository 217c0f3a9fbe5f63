"""createVMSnapshot, listVMSnapshot, deleteVMSnapshot and revertToVMSnapshot."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Exclusive, boolean, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, OWNER_FIELDS, TAGS, flag, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.virtual_machines import vm_snapshots as service
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import vm_snapshots as store

LONGEST_NAME = 255
SNAPSHOT = uuid("vmsnapshotid", Entity.VM_SNAPSHOT, "the snapshot", required=True)
FIELDS = (
    text("id", "the snapshot"),
    text("name", "the generated name of the snapshot: the instance name of the VM and the time"),
    text("displayname", "the name of the snapshot"),
    text("description", "the description of the snapshot"),
    text("state", "Creating, Ready, Reverting, Expunging or Error"),
    text("type", "Disk, or DiskAndMemory"),
    flag("current", "whether the present data of the VM is based on this snapshot"),
    text("parent", "the snapshot that was current when this snapshot was taken"),
    text("parentName", "the name of the parent snapshot"),
    text("virtualmachineid", "the VM of the snapshot"),
    text("virtualmachinename", "the display name of the VM"),
    text("zoneid", "the VM's zone"),
    text("zonename", "the zone's name"),
    text("hypervisor", "the VM's hypervisor"),
    *OWNER_FIELDS,
    TAGS,
    moment("created", "when the creation was requested"),
    HAS_ANNOTATIONS,
)


def create_vm_snapshot(call: Call) -> JobTicket:
    """Create a snapshot of a VM, with its memory if ``snapshotmemory`` is true."""
    return service.create_vm_snapshot(
        call.connection,
        call.system,
        call.caller,
        call.arguments["virtualmachineid"],
        call.text("name") or None,
        call.text("description"),
        with_memory=call.flag("snapshotmemory"),
    )


def list_vm_snapshots(call: Call) -> Page:
    """Return the VM snapshots of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return store.list_vm_snapshots(call.connection, visible(call), call.arguments, paging(call))


def delete_vm_snapshot(call: Call) -> JobTicket:
    """Create the job that deletes a snapshot of a VM."""
    return service.delete_vm_snapshot(call.connection, call.system, call.caller, call.arguments["vmsnapshotid"])


def revert_to_vm_snapshot(call: Call) -> JobTicket:
    """Create the job that reverts a VM to a snapshot."""
    return service.revert_to_vm_snapshot(call.connection, call.system, call.caller, call.arguments["vmsnapshotid"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="createVMSnapshot",
        description="Creates a snapshot of a virtual machine: of its volumes, and of its memory if it runs",
        handler=create_vm_snapshot,
        shape=Shape.JOB,
        response=Response("vmsnapshot", FIELDS),
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid(
                "virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM; it must be Running or Stopped", required=True
            ),
            string(
                "name",
                "the display name of the snapshot, unique among the snapshots of the VM; default: a generated name",
                length=LONGEST_NAME,
            ),
            string("description", "the description of the snapshot", length=LONGEST_NAME),
            boolean(
                "snapshotmemory",
                "true: also save the memory of a running VM; on KVM this is required for running VMs",
            ),
        ),
        unsupported={
            "quiescevm": "guests are not quiesced; stop the VM before the snapshot, or include its memory"
        },
    ),
    Command(
        name="listVMSnapshot",
        description="Lists snapshots of virtual machines, the newest first",
        handler=list_vm_snapshots,
        shape=Shape.LIST,
        response=Response("vmSnapshot", FIELDS),
        errors=(PermissionDenied,),
        parameters=(
            uuid("vmsnapshotid", Entity.VM_SNAPSHOT, "only this snapshot"),
            uuids("vmsnapshotids", Entity.VM_SNAPSHOT, "only these snapshots"),
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only snapshots of this VM"),
            string("name", "only snapshots of this displayname"),
            string("state", "only snapshots in this state"),
            mapping("tags", "only snapshots with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        rules=(Exclusive(("vmsnapshotid", "vmsnapshotids")),),
    ),
    Command(
        name="deleteVMSnapshot",
        description="Deletes a snapshot of a virtual machine. The machine and its other snapshots do not change.",
        handler=delete_vm_snapshot,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(SNAPSHOT,),
    ),
    Command(
        name="revertToVMSnapshot",
        description=(
            "Reverts a virtual machine to a snapshot. The VM must be running if the snapshot has memory, "
            "otherwise stopped. Later changes are lost."
        ),
        handler=revert_to_vm_snapshot,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(SNAPSHOT,),
    ),
)
