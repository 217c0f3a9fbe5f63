"""Commands of disk offerings: list, create, update and delete."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.disk_settings import (
    DISK_RULES,
    PROVISIONING_TYPES,
    disk_fields,
    disk_parameters,
)
from bulkdeploy.commands.catalog.offering_lists import CHANGED_PLACES, FOR_WHOM, requested_offerings
from bulkdeploy.commands.constant_fields import OF_DISK_OFFERINGS
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import OF_OFFERINGS, OF_VOLUMES
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import boolean, integer, long, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, flag, large_number, moment, text, text_map
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, TAGS
from bulkdeploy.domain.accounts.accounts import EVERY_ADMIN, ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.domain.units import GIB
from bulkdeploy.domain.virtual_machines.sizes import MOST_DISK_GIB
from bulkdeploy.services.catalog import disk_offerings as offering_service
from bulkdeploy.services.catalog import offerings
from bulkdeploy.services.catalog.offering_places import named_places
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.catalog import disk_offerings
from bulkdeploy.store.catalog.offering_places import ANY_STATE, Wanted, read_offerings
from bulkdeploy.store.rows.listing import Page

DISK_OFFERING = Response(
    "diskoffering",
    (
        text("id", "the disk offering"),
        text("name", "the name of the offering"),
        text("displaytext", "the description of the offering"),
        large_number("disksize", "the size of the disk in GiB; 0 if callers choose the size"),
        flag("iscustomized", "whether callers choose the size when they create a volume"),
        flag("iscustomizediops", "always false"),
        text("storagetype", "the storage type: shared, or local (local disks of hosts)"),
        text("provisioningtype", "the provisioning type: thin, sparse or fat"),
        *disk_fields("encrypt"),
        text(
            "tags",
            "tags, separated by commas; volumes of the offering are created only on storage pools that have "
            "all of them",
        ),
        flag("displayoffering", "whether users other than root admins can see the offering"),
        text_map("details", "the details of the offering"),
        text("state", "the state: Active or Inactive"),
        text("domainid", "the domains that may use the offering, separated by commas; absent: all domains"),
        text("domain", "the names of the domains"),
        text("zoneid", "the zones in which the offering is available, separated by commas; absent: all zones"),
        text("zone", "the names of the zones"),
        moment("created", "the date and time of creation"),
        *OF_DISK_OFFERINGS,
        HAS_ANNOTATIONS,
    ),
)


def list_disk_offerings(call: Call) -> Page:
    """Return the disk offerings that the caller may use and that match the filters.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``offering_lists.wanted``.
    """
    return disk_offerings.list_disk_offerings(
        call.connection, call.caller, call.arguments, requested_offerings(call), paging(call)
    )


def create_disk_offering(call: Call) -> Mapping[str, Any]:
    """Create a disk offering, and return the offering."""
    (offering,) = offering_service.create_disk_offerings(call.connection, call.caller, [call.arguments])
    return _row(call, offering)


def update_disk_offering(call: Call) -> Mapping[str, Any]:
    """Change a disk offering, and return the offering."""
    offering = call.arguments["id"]
    given = {**call.arguments, **named_places(call.connection, call.caller, call.arguments)}
    offering_service.update_disk_offerings(call.connection, call.caller, [(offering, given)])
    return _row(call, offering)


def delete_disk_offering(call: Call) -> None:
    """Delete a disk offering. Existing volumes keep it."""
    offerings.delete_offerings(call.connection, call.caller, offering_service.DISK_OFFERING, [call.arguments["id"]])


def _row(call: Call, offering: EntityRef) -> Mapping[str, Any]:
    changed = Wanted(hidden=True)
    found = disk_offerings.list_disk_offerings(call.connection, call.caller, {"id": offering}, changed, ONE)
    return only_row(found)


CREATE = Command(
    name="createDiskOffering",
    description="Creates a disk offering for all domains or for the named domains",
    handler=create_disk_offering,
    shape=Shape.OBJECT,
    response=DISK_OFFERING,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        string("name", "the name of the offering", required=True, rule=NAME),
        string("displaytext", "the description; default: the name", length=4096),
        long(
            "disksize",
            "the size of the disk in GiB; not for offerings with customized=true",
            minimum=1,
            maximum=MOST_DISK_GIB,
            unit=GIB,
        ),
        boolean("customized", "whether callers choose the size when they create a volume; default: false"),
        string(
            "storagetype",
            "the storage type: shared (default) or local",
            choices=tuple(kind.value for kind in StorageType),
        ),
        string(
            "provisioningtype", "the provisioning type: thin (default), sparse or fat", choices=PROVISIONING_TYPES
        ),
        *disk_parameters("encrypt"),
        string(
            "tags",
            "tags, separated by commas; volumes of the offering are created only on storage pools that have "
            "all of them",
            rule=TAGS,
            length=4096,
        ),
        boolean(
            "displayoffering", "whether users other than root admins can see the offering", roles=ROOT_ADMIN_ONLY
        ),
        uuids(
            "domainid",
            Entity.DOMAIN,
            "the domains that may use the offering, including the domains below; only root admins may leave it "
            "out, which means all domains",
        ),
        uuids("zoneid", Entity.ZONE, "the zones in which the offering is available; default: all zones"),
        mapping("details", "the details of the offering: details[0].key and details[0].value"),
    ),
    rules=DISK_RULES,
    unsupported={**OF_OFFERINGS, "disksizestrictness": "volumes can be resized"},
)

UPDATE = Command(
    name="updateDiskOffering",
    description="Changes a disk offering. Existing volumes do not change.",
    handler=update_disk_offering,
    shape=Shape.OBJECT,
    response=DISK_OFFERING,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        uuid("id", Entity.DISK_OFFERING, "the offering", required=True),
        string("name", "the new name of the offering", rule=NAME),
        string("displaytext", "the new description of the offering", length=4096),
        string(
            "tags",
            "the new tags, separated by commas; volumes of the offering are created only on storage pools that "
            "have all of them; empty: no tags",
            rule=TAGS,
        ),
        boolean(
            "displayoffering", "whether users other than root admins can see the offering", roles=ROOT_ADMIN_ONLY
        ),
        *CHANGED_PLACES,
        string("state", "the state: Active or Inactive", choices=("Active", "Inactive")),
        integer("sortkey", "the position in lists: lower numbers first"),
    ),
    unsupported=OF_VOLUMES,
)

DELETE = Command(
    name="deleteDiskOffering",
    description="Deletes a disk offering. Existing volumes keep it",
    handler=delete_disk_offering,
    shape=Shape.SUCCESS,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(uuid("id", Entity.DISK_OFFERING, "the offering", required=True),),
)

COMMANDS = (
    CREATE,
    UPDATE,
    DELETE,
    Command(
        name="listDiskOfferings",
        description="Lists the disk offerings that the caller may use",
        handler=list_disk_offerings,
        shape=Shape.LIST,
        response=DISK_OFFERING,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.DISK_OFFERING, "only this offering"),
            string("name", "only the offering of this name"),
            uuid("zoneid", Entity.ZONE, "only offerings that are available in this zone"),
            *FOR_WHOM,
            uuid(
                "virtualmachineid",
                Entity.VIRTUAL_MACHINE,
                "only offerings that are suitable for volumes of this VM",
            ),
            uuid(
                "volumeid",
                Entity.VOLUME,
                "only offerings other than that of this volume, with the same tags and storage type",
            ),
            uuid(
                "storageid",
                Entity.STORAGE_POOL,
                "only offerings that are suitable for this pool by tags and storage type",
                roles=ROOT_ADMIN_ONLY,
            ),
            string("storagetype", "only offerings of this kind", choices=tuple(kind.value for kind in StorageType)),
            string(
                "state",
                "only offerings in this state; default: Active; all: in any state",
                choices=("Active", "Inactive", ANY_STATE),
            ),
            boolean("encrypt", "only offerings with encrypted disks (true) or without (false)"),
            *PAGING,
        ),
    ),
)

NOUNS = (
    Noun(
        section="diskofferings",
        entity=Entity.DISK_OFFERING,
        create=CREATE,
        create_many=offering_service.create_disk_offerings,
        update=UPDATE,
        update_many=offering_service.update_disk_offerings,
        read=partial(read_offerings, entity=Entity.DISK_OFFERING, fields=disk_offerings.FIELDS),
        key=by("name"),
        exports=lambda row: bool(row["_offered"]),
    ),
)
