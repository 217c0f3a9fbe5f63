"""registerTemplate, updateTemplate, deleteTemplate, updateTemplatePermissions, and the same for ISOs."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.template_fields import ABOUT, ARCHITECTURE, DETAILS, FIELDS
from bulkdeploy.commands.unsupported import (
    NO_DIRECT_DOWNLOAD,
    NO_EXTENSIONS,
    NO_IMAGE_STORES,
    NO_KUBERNETES,
    NO_ROUTERS,
)
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import (
    Exclusive,
    Parameter,
    boolean,
    integer,
    long,
    string,
    strings,
    uuid,
    uuids,
)
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse, ResourceLimitExceeded
from bulkdeploy.domain.infrastructure.topology import HypervisorType, TemplateKind
from bulkdeploy.services.catalog import templates
from bulkdeploy.services.catalog.templates import ISO, ISO_FORMAT, TEMPLATE, Kind, Sharing
from bulkdeploy.services.catalog.zone_templates import set_templates
from bulkdeploy.store.accounts.owner_keys import owner_key
from bulkdeploy.store.catalog.template_changes import read_templates
from bulkdeploy.store.rows.listing import Page

MOST_BYTES = 2**62
FORMATS = ("QCOW2", "RAW", "VHD", "VHDX", "OVA", "VMDK", "BAREMETAL", "TAR", "DIR")
PUBLICITY: tuple[Parameter, ...] = (
    boolean("ispublic", "whether all accounts may use the image; initial value: false"),
    boolean("isfeatured", "whether the image is featured; only admins may set it"),
    boolean("isextractable", "whether users may download the image"),
)


TYPES = ("USER", "BUILTIN", "SYSTEM", "PERHOST")
OF_TEMPLATES: tuple[Parameter, ...] = (
    DETAILS,
    string(
        "templatetag",
        "a host tag; VMs of the template are placed only on hosts with this tag. Only root admins may set it",
    ),
    string(
        "templatetype",
        "the type of the template; initial value: USER. Only root admins may set another type",
        choices=TYPES,
    ),
)
SYSTEM_TOO = boolean("issystem", "accepted but ignored: templates of type SYSTEM are deleted like all others")
NOT_REGISTERED: Mapping[TemplateKind, Mapping[str, str]] = {
    TemplateKind.ISO: {"imagestoreuuid": NO_IMAGE_STORES},
    TemplateKind.TEMPLATE: {
        "deployasis": "templates are disks, not descriptions of whole VMs",
        "extensionid": NO_EXTENSIONS,
        "externaldetails": NO_EXTENSIONS,
        "forcks": NO_KUBERNETES,
        "isrouting": NO_ROUTERS,
    },
}
"""Parameters with which CloudStack registers an image and which this service rejects, with the reasons."""


def register(kind: Kind, call: Call) -> Page:
    """Register a template or ISO, and return one row per zone. The URL must be allowed."""
    templates.check_public_url(call.arguments["url"], call.system.fetch_rules)
    (ref,) = templates.register_templates(call.connection, call.caller, [call.arguments], kind=kind)
    return templates.list_by_id(call.connection, call.caller, kind, ref)


def update(kind: Kind, call: Call) -> Mapping[str, Any]:
    """Change the fields of a template or ISO, and return the template or ISO.

    Raises:
        InvalidParameter: all its zones were deleted.
    """
    ref = call.arguments["id"]
    templates.update_templates(call.connection, call.caller, [(ref, call.arguments)], kind=kind)
    return templates.first_row(call.connection, call.caller, kind, ref, "id")


def delete(kind: Kind, call: Call) -> JobTicket:
    """Delete a template or ISO from one zone, or from all zones if no zone is given."""
    ref, zone = call.arguments["id"], call.ref("zoneid")
    templates.delete_templates(call.connection, call.caller, kind, [ref], zone, forced=call.flag("forced"))
    return templates.deleted(call.connection, call.caller, kind, ref)


def update_permissions(kind: Kind, call: Call) -> None:
    """Change the accounts and projects that may use a template or ISO."""
    arguments = call.arguments
    requested = Sharing(
        call.text("op"),
        arguments.get("accounts", ()),
        arguments.get("ispublic"),
        arguments.get("isfeatured"),
        arguments.get("isextractable"),
        arguments.get("projectids", ()),
    )
    templates.update_permissions(call.connection, call.caller, kind, arguments["id"], requested)


REGISTERED_TEMPLATE: tuple[Parameter, ...] = (
    string("format", "the format of the template", required=True, choices=FORMATS),
    string(
        "hypervisor",
        "the hypervisor of the template; None: callers name the hypervisor when they deploy VMs",
        required=True,
        choices=("None", *(each.value for each in HypervisorType)),
    ),
    uuid(
        "zoneid",
        Entity.ZONE,
        "the zone of the template; not with zoneids; -1 or left out: all zones",
        takes_all=True,
    ),
    uuids("zoneids", Entity.ZONE, "the zones of the template; -1: all zones", takes_all=True),
    boolean("sshkeyenabled", "whether SSH keys of guests of the image can be reset"),
    boolean("requireshvm", "whether guests of the template need hardware virtualization; default: true"),
    integer(
        "bits",
        "the number of bits, 32 or 64; accepted but ignored, because arch determines it",
        minimum=32,
        maximum=64,
    ),
    *OF_TEMPLATES,
)
"""Parameters of registerTemplate that registerIso does not have."""


def _registered(kind: Kind) -> tuple[Parameter, ...]:
    shared = (
        string("name", "the name of the image", required=True, rule=NAME),
        string("displaytext", "the description; default: the name", length=4096),
        string(
            "url",
            "the URL of the file: http or https at a public address, or at an address that the setting fetch "
            "allows",
            required=True,
            length=2048,
        ),
        string(
            "checksum",
            "the checksum of the file, such as {SHA-256}abc...; drivers compare it when they download the file",
        ),
        ARCHITECTURE,
        *ABOUT,
        *PUBLICITY,
        *FOR_OWNER,
    )
    if kind is ISO:
        zone = uuid("zoneid", Entity.ZONE, "the zone; default: all zones; -1: all zones", takes_all=True)
        return (*shared, zone, boolean("bootable", "whether VMs can boot from the image; default: true"))
    return (*shared, *REGISTERED_TEMPLATE)


def _registering(kind: Kind, word: str) -> Command:
    return Command(
        name=f"register{word}",
        description=f"Registers a new {kind.noun} by its URL. The file is downloaded when the first VM needs it",
        handler=partial(register, kind),
        shape=Shape.LIST,
        response=Response(kind.kind.value, FIELDS),
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=_registered(kind),
        rules=() if kind is ISO else (Exclusive(("zoneid", "zoneids")),),
        unsupported={"directdownload": NO_DIRECT_DOWNLOAD, **NOT_REGISTERED[kind.kind]},
    )


def _changed(kind: Kind) -> tuple[Parameter, ...]:
    return (
        string("name", "the new name of the image", rule=NAME, clearable=True),
        string("displaytext", "the new description of the image", length=4096),
        ARCHITECTURE,
        *ABOUT,
        boolean("bootable", "whether VMs can boot from the image"),
        boolean("sshkeyenabled", "whether SSH keys of guests of the image can be reset"),
        boolean("requireshvm", "whether guests of the image need hardware virtualization"),
        integer("sortkey", "the position in lists: lower numbers first"),
        *((DETAILS,) if kind is ISO else OF_TEMPLATES),
    )


def _changing(kind: Kind, word: str) -> Command:
    return Command(
        name=f"update{word}",
        description=f"Changes the name, the description and other properties of the {kind.noun}",
        handler=partial(update, kind),
        shape=Shape.OBJECT,
        response=Response(kind.kind.value, FIELDS),
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", kind.entity, f"the {kind.noun}", required=True),
            *_changed(kind),
            string("format", "the format of the template", choices=(ISO_FORMAT,) if kind is ISO else FORMATS),
            boolean("cleanupdetails", "true: delete all details; not with the parameter details"),
            boolean("forceupdateostype", "accepted but ignored: VMs always show the OS type of their template"),
        ),
        rules=(Exclusive(("details", "cleanupdetails")),),
        unsupported={"isrouting": NO_ROUTERS, **({} if kind is ISO else {"forcks": NO_KUBERNETES})},
    )


def _endings(kind: Kind, word: str) -> tuple[Command, ...]:
    """Return the commands that delete a template or ISO and that change its permissions."""
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
                uuid("zoneid", Entity.ZONE, "delete the image from this zone only; default: from all zones"),
                boolean("forced", "true: delete the image even if VMs were deployed from it"),
                *(() if kind is ISO else (SYSTEM_TOO,)),
            ),
        ),
        Command(
            name=f"update{word}Permissions",
            description=f"Changes the permissions to use the {kind.noun}",
            handler=partial(update_permissions, kind),
            shape=Shape.SUCCESS,
            errors=(PermissionDenied,),
            changes_state=True,
            parameters=(
                this,
                string(
                    "op",
                    "the change of the list of accounts and projects: add, remove or reset",
                    choices=("add", "remove", "reset"),
                ),
                strings("accounts", "names of accounts in the domain of the image's owner"),
                uuids(
                    "projectids",
                    Entity.PROJECT,
                    "projects with which the image is shared; the caller must have access to them",
                ),
                *PUBLICITY,
            ),
        ),
    )


KINDS: Mapping[str, Kind] = {"Template": TEMPLATE, "Iso": ISO}

COMMANDS: tuple[Command, ...] = tuple(
    command
    for word, kind in KINDS.items()
    for command in (_registering(kind, word), _changing(kind, word), *_endings(kind, word))
)

OF_FILES: tuple[Parameter, ...] = (
    long("size", "the size of disks of the image, in bytes; default: 2 GiB", minimum=1, maximum=MOST_BYTES, unit=1),
    long(
        "physicalsize", "the size of the image file, in bytes; default: size", minimum=1, maximum=MOST_BYTES, unit=1
    ),
    boolean("isready", "whether the image is ready in the zone; default: true"),
    string("status", "the progress of the download; default: Download Complete, or Not downloaded", rule=NAME),
    uuids("accountids", Entity.ACCOUNT, "the accounts with which the image is shared"),
)
"""Parameters in zone files for an image that was put into the pools by other means."""

NOUNS = tuple(
    Noun(
        section=f"{word.lower()}s",
        entity=kind.entity,
        create=_registering(kind, word),
        create_many=partial(set_templates, kind=kind),
        read=partial(read_templates, entity=kind.entity),
        key=lambda values: (owner_key(values), values["name"].lower(), values.get("zoneid")),
        optional=("url",),
        compare={"account": str.lower},
        more=(*_changed(kind), *OF_TEMPLATES, *OF_FILES),
    )
    for word, kind in KINDS.items()
)
