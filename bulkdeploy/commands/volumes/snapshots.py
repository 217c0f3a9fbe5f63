"""createSnapshot, listSnapshots, revertSnapshot and deleteSnapshot."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_IMAGE_STORES, ONLY_ZONE_OF_VOLUME, SNAPSHOTS_IN_VOLUMES
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import Exclusive, boolean, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, OWNER_FIELDS, TAGS, flag, large_number, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceLimitExceeded
from bulkdeploy.services.virtual_machines.resource_tags import tag_values
from bulkdeploy.services.volumes import snapshots as service
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.volumes import snapshots as store

LONGEST_NAME = 255
SNAPSHOT = uuid("id", Entity.SNAPSHOT, "the snapshot", required=True)
RESPONSE = Response(
    "snapshot",
    (
        text("id", "the snapshot"),
        text("name", "the name of the snapshot"),
        text("state", "Creating, BackedUp, Destroying or Error"),
        text(
            "snapshottype",
            "MANUAL, or the interval of the policy that took the snapshot: HOURLY, DAILY, WEEKLY or MONTHLY",
        ),
        text("intervaltype", "the same value as snapshottype"),
        text("locationtype", "PRIMARY: the snapshot is on the storage pool of the volume"),
        flag(
            "revertable",
            "whether the volume can be reverted to the snapshot now; false while a job works on the volume",
        ),
        large_number("virtualsize", "the size of the volume of the snapshot, in bytes"),
        text("volumeid", "the volume that the snapshot was taken of"),
        text("volumename", "the volume's name"),
        text("volumetype", "the volume's type"),
        text("volumestate", "the volume's state"),
        text("virtualmachineid", "the VM that has the volume"),
        text("zoneid", "the volume's zone"),
        text("zonename", "the zone's name"),
        *OWNER_FIELDS,
        TAGS,
        moment("created", "when the creation was requested"),
        HAS_ANNOTATIONS,
    ),
)


def create_snapshot(call: Call) -> JobTicket:
    """Create the job that takes a snapshot of a volume."""
    volume, name = call.arguments["volumeid"], call.text("name") or None
    return service.create_snapshot(
        call.connection,
        call.system,
        call.caller,
        volume,
        name,
        named_owner(call),
        zones=call.arguments.get("zoneids", ()),
        tags=tag_values(call.arguments.get("tags", ())),
    )


def list_snapshots(call: Call) -> Page:
    """Return the volume snapshots of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return store.list_snapshots(call.connection, visible(call), call.arguments, paging(call))


def delete_snapshot(call: Call) -> JobTicket:
    """Create the job that deletes a snapshot of a volume."""
    return service.delete_snapshot(
        call.connection, call.system, call.caller, call.arguments["id"], call.ref("zoneid")
    )


def revert_snapshot(call: Call) -> JobTicket:
    """Create the job that reverts a volume to a snapshot."""
    return service.revert_snapshot(call.connection, call.system, call.caller, call.arguments["id"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="createSnapshot",
        description="Creates a snapshot of an attached volume. The virtual machine may be running.",
        handler=create_snapshot,
        shape=Shape.JOB,
        response=RESPONSE,
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(
            uuid(
                "volumeid",
                Entity.VOLUME,
                "the volume; it must be attached to a VM that is Running or Stopped",
                required=True,
            ),
            string(
                "name",
                "the name of the snapshot; default: composed of the VM, the volume and the time",
                length=LONGEST_NAME,
            ),
            string("account", "the account that owns the volume, and therefore the snapshot"),
            uuid("domainid", Entity.DOMAIN, "the domain of the account"),
            mapping("tags", "the tags of the snapshot: tags[0].key, tags[0].value"),
            uuids("zoneids", Entity.ZONE, ONLY_ZONE_OF_VOLUME),
        ),
        unsupported={
            "asyncbackup": SNAPSHOTS_IN_VOLUMES,
            "locationtype": SNAPSHOTS_IN_VOLUMES,
            "policyid": "only the service takes the snapshots of a policy",
            "quiescevm": "guests are not quiesced; stop the VM before the snapshot for consistent data",
            "storageids": SNAPSHOTS_IN_VOLUMES,
            "usestoragereplication": SNAPSHOTS_IN_VOLUMES,
        },
    ),
    Command(
        name="listSnapshots",
        description="Lists snapshots of volumes, the newest first",
        handler=list_snapshots,
        shape=Shape.LIST,
        response=RESPONSE,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.SNAPSHOT, "only this snapshot"),
            uuids("ids", Entity.SNAPSHOT, "only these snapshots"),
            string("name", "only snapshots of this name"),
            uuid("volumeid", Entity.VOLUME, "only snapshots of this volume"),
            uuid("zoneid", Entity.ZONE, "only snapshots of volumes in this zone"),
            uuid("storageid", Entity.STORAGE_POOL, "only snapshots on this pool", roles=ROOT_ADMIN_ONLY),
            string(
                "snapshottype", "only snapshots of this type: MANUAL, RECURRING, HOURLY, DAILY, WEEKLY or MONTHLY"
            ),
            string("intervaltype", "only snapshots of this type: MANUAL, HOURLY, DAILY, WEEKLY or MONTHLY"),
            string("locationtype", "only snapshots in this location; all snapshots are in PRIMARY"),
            boolean("showunique", "accepted but ignored: each snapshot is always listed once"),
            mapping("tags", "only snapshots with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
        unsupported={"imagestoreid": NO_IMAGE_STORES},
    ),
    Command(
        name="revertSnapshot",
        description="Reverts a volume of a stopped virtual machine to a snapshot. Later contents are lost.",
        handler=revert_snapshot,
        shape=Shape.JOB,
        response=RESPONSE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(SNAPSHOT,),
    ),
    Command(
        name="deleteSnapshot",
        description="Deletes a snapshot of a volume. The volume and its other snapshots do not change",
        handler=delete_snapshot,
        shape=Shape.JOB_SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            SNAPSHOT,
            uuid("zoneid", Entity.ZONE, "the zone of the snapshot; snapshots are only in the zone of their volume"),
        ),
    ),
)
