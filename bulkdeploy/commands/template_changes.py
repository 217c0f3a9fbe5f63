"""registerTemplate, updateTemplate, deleteTemplate, updateTemplatePermissions, and the same for ISOs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import named_owner
from bulkdeploy.commands.template_fields import FIELDS
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import (
    Exclusive,
    Parameter,
    boolean,
    integer,
    string,
    strings,
    uuid,
    uuids,
)
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse, ResourceLimitExceeded
from bulkdeploy.domain.topology import HypervisorType
from bulkdeploy.services import templates
from bulkdeploy.services.templates import ISO, TEMPLATE, Kind, Sharing
from bulkdeploy.store.listing import Page

FORMATS = ("QCOW2", "RAW", "VHD", "VHDX", "OVA", "VMDK", "BAREMETAL", "TAR", "DIR")
ISO_FORMAT = "ISO"
COLUMNS: Mapping[str, str] = {
    "name": "name",
    "displaytext": "display_text",
    "url": "url",
    "format": "format",
    "hypervisor": "hypervisor",
    "checksum": "checksum",
    "arch": "arch",
    "ispublic": "is_public",
    "isfeatured": "is_featured",
    "isextractable": "is_extractable",
    "bootable": "bootable",
    "passwordenabled": "password_enabled",
    "sshkeyenabled": "sshkey_enabled",
    "requireshvm": "requires_hvm",
    "isdynamicallyscalable": "dynamically_scalable",
    "sortkey": "sort_key",
}
"""Parameters, and the columns that they set as they are."""

ABOUT: tuple[Parameter, ...] = (
    uuid("ostypeid", Entity.OS_TYPE, "its guest OS type"),
    boolean("passwordenabled", "whether its guests take new passwords"),
    boolean("isdynamicallyscalable", "whether its guests can be scaled while they run"),
)
ARCHITECTURE = string("arch", "its CPU architecture; default x86_64", choices=("x86_64", "aarch64", "s390x"))
PUBLICITY: tuple[Parameter, ...] = (
    boolean("ispublic", "whether everybody may use it; default false"),
    boolean("isfeatured", "whether it is featured; for admins"),
    boolean("isextractable", "whether it can be downloaded"),
)


def register(kind: Kind, call: Call) -> Page:
    """Register a template or ISO."""
    arguments = call.arguments
    columns = {"is_public": False, **_columns(call)}
    columns["display_text"] = columns.get("display_text") or arguments["name"]
    if kind is ISO:
        columns["format"] = ISO_FORMAT
    zone = call.ref("zoneid")
    zones = arguments.get("zoneids") if zone is None else (zone,)
    return templates.register(call.system, call.caller, kind, named_owner(call), columns, zones)


def update(kind: Kind, call: Call) -> Mapping[str, Any]:
    """Change a template or ISO."""
    return templates.update(call.system, call.caller, kind, call.arguments["id"], _columns(call))


def delete(kind: Kind, call: Call) -> JobTicket:
    """Delete a template or ISO."""
    return templates.delete(
        call.system,
        call.caller,
        kind,
        call.arguments["id"],
        call.ref("zoneid"),
        forced=call.flag("forced"),
    )


def update_permissions(kind: Kind, call: Call) -> None:
    """Share a template or ISO."""
    arguments = call.arguments
    asked = Sharing(
        call.text("op"),
        arguments.get("accounts", ()),
        arguments.get("ispublic"),
        arguments.get("isfeatured"),
        arguments.get("isextractable"),
    )
    templates.update_permissions(call.system, call.caller, kind, arguments["id"], asked)


def _columns(call: Call) -> dict[str, Any]:
    columns = {
        column: call.arguments[name] for name, column in COLUMNS.items() if call.arguments.get(name, "") != ""
    }
    if (os_type := call.ref("ostypeid")) is not None:
        columns["os_type_id"] = os_type.id
    return columns


def _registered(kind: Kind) -> tuple[Parameter, ...]:
    shared = (
        string("name", "its name", required=True),
        string("displaytext", "its description; its name where not given"),
        string("url", "where it is; it is not downloaded", required=True, length=2048),
        string("checksum", "its checksum; it is not compared"),
        ARCHITECTURE,
        *ABOUT,
        *PUBLICITY,
        *FOR_OWNER,
    )
    if kind is ISO:
        zone = uuid("zoneid", Entity.ZONE, "the zone that has it; all where not given")
        return (*shared, zone, boolean("bootable", "whether a VM can boot from it; default true"))
    hypervisors = ("None", *(each.value for each in HypervisorType))
    return (
        *shared,
        string("format", "its format", required=True, choices=FORMATS),
        string("hypervisor", "the hypervisor it is for, or None", required=True, choices=hypervisors),
        uuid("zoneid", Entity.ZONE, "the zone that has it; not with zoneids; all where neither is given"),
        uuids("zoneids", Entity.ZONE, "the zones that have it"),
        boolean("sshkeyenabled", "whether its guests take new SSH keys"),
        boolean("requireshvm", "whether it needs hardware virtualisation; default true"),
    )


def _beginnings(kind: Kind, word: str) -> tuple[Command, ...]:
    """Registering and changing."""
    thing = Response(kind.kind.value, FIELDS)
    this = uuid("id", kind.entity, f"the {kind.noun}", required=True)
    return (
        Command(
            name=f"register{word}",
            description=f"Registers the {kind.noun} of a URL. Nothing is downloaded: it is ready at once, of 2 GiB",
            handler=partial(register, kind),
            shape=Shape.LIST,
            response=thing,
            errors=(PermissionDenied, ResourceLimitExceeded),
            changes_state=True,
            parameters=_registered(kind),
            rules=() if kind is ISO else (Exclusive(("zoneid", "zoneids")),),
        ),
        Command(
            name=f"update{word}",
            description=f"Changes what is said of the {kind.noun}",
            handler=partial(update, kind),
            shape=Shape.OBJECT,
            response=thing,
            errors=(PermissionDenied,),
            changes_state=True,
            parameters=(
                this,
                string("name", "its new name"),
                string("displaytext", "its new description"),
                ARCHITECTURE,
                *ABOUT,
                boolean("bootable", "whether a VM can boot from it"),
                boolean("sshkeyenabled", "whether its guests take new SSH keys"),
                boolean("requireshvm", "whether it needs hardware virtualisation"),
                integer("sortkey", "where it stands in lists: lower numbers first"),
            ),
        ),
    )


def _endings(kind: Kind, word: str) -> tuple[Command, ...]:
    """Deleting, and saying who may use it."""
    this = uuid("id", kind.entity, f"the {kind.noun}", required=True)
    return (
        Command(
            name=f"delete{word}",
            description=f"Deletes the {kind.noun}; VMs made from it keep their disks",
            handler=partial(delete, kind),
            shape=Shape.JOB_SUCCESS,
            errors=(PermissionDenied, ResourceInUse),
            changes_state=True,
            parameters=(
                this,
                uuid("zoneid", Entity.ZONE, "delete it from this zone only"),
                boolean("forced", "delete it even though VMs were made from it"),
            ),
        ),
        Command(
            name=f"update{word}Permissions",
            description=f"Says who may use the {kind.noun}",
            handler=partial(update_permissions, kind),
            shape=Shape.SUCCESS,
            errors=(PermissionDenied,),
            changes_state=True,
            parameters=(
                this,
                string("op", "what is done with accounts", choices=("add", "remove", "reset")),
                strings("accounts", "names of accounts in the owner's domain"),
                *PUBLICITY,
            ),
        ),
    )


COMMANDS: tuple[Command, ...] = (
    *_beginnings(TEMPLATE, "Template"),
    *_endings(TEMPLATE, "Template"),
    *_beginnings(ISO, "Iso"),
    *_endings(ISO, "Iso"),
)
