"""Commands of service offerings: list, create, update and delete."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.disk_settings import (
    DISK_RULES,
    PROVISIONING_TYPES,
    disk_fields,
    disk_parameters,
)
from bulkdeploy.commands.catalog.offering_lists import FOR_WHOM, wanted
from bulkdeploy.commands.constant_fields import OF_SERVICE_OFFERINGS
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.parameters.lease_parameters import LEASE, LEASE_RULES
from bulkdeploy.commands.unsupported import (
    NO_EXTENSIONS,
    NO_GPU,
    OF_OFFERINGS,
)
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import Needs, boolean, integer, long, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import flag, large_number, moment, number, text, text_map
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, TAGS
from bulkdeploy.domain.accounts.accounts import EVERY_ADMIN, ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.domain.units import GIB, MIB
from bulkdeploy.domain.virtual_machines.sizes import MOST_CORES, MOST_DISK_GIB, MOST_MHZ, MOST_MIB
from bulkdeploy.scheduling.catalog import planners
from bulkdeploy.services.catalog import offerings
from bulkdeploy.services.catalog import service_offerings as offering_service
from bulkdeploy.services.catalog.offering_places import named_places
from bulkdeploy.services.catalog.templates import template_size
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.catalog import service_offerings
from bulkdeploy.store.catalog.offering_places import ANY_STATE, Wanted, read_offerings
from bulkdeploy.store.rows.listing import Page

SERVICE_OFFERING = Response(
    "serviceoffering",
    (
        text("id", "the service offering"),
        text("name", "its name"),
        text("displaytext", "its description"),
        flag("iscustomized", "whether the caller chooses cores, speed or memory"),
        number("cpunumber", "CPU cores; where they are chosen, the least"),
        number("cpuspeed", "the speed of a core, MHz; 0 where it is chosen"),
        number("memory", "memory, MiB; where it is chosen, the least"),
        large_number("rootdisksize", "size of the root disk, GiB; absent: the template's"),
        text("storagetype", "shared, or local where disks of hosts are used"),
        text("provisioningtype", "thin, sparse or fat"),
        *disk_fields("encryptroot"),
        text("storagetags", "tags that a pool must have, separated by commas"),
        text("hosttags", "tags that a host must have, separated by commas"),
        text("deploymentplanner", "the planner that places its VMs"),
        flag("offerha", "whether VMs are started elsewhere when their host fails"),
        flag("limitcpuuse", "whether VMs are held to their CPU speed"),
        flag("dynamicscalingenabled", "whether VMs can be scaled while they run"),
        flag("isvolatile", "always false"),
        flag("issystem", "whether it is for system VMs, which do not exist here; no VM can have such an offering"),
        text("systemvmtype", "the kind of system VMs that use the offering"),
        flag("defaultuse", "always false"),
        flag("iscustomizediops", "always false"),
        number("networkrate", "network rate, Mbit/s"),
        text_map("serviceofferingdetails", "its details; the bounds of what may be chosen among them"),
        number("leaseduration", "days of the lease of its VMs"),
        text("leaseexpiryaction", "the action when these leases expire: STOP or DESTROY"),
        text("state", "Active or Inactive"),
        text("domainid", "the domains it is for, separated by commas; absent: everybody"),
        text("domain", "their names"),
        text("zoneid", "the zones it is offered in, separated by commas; absent: everywhere"),
        text("zone", "their names"),
        moment("created", "when it was made"),
        *OF_SERVICE_OFFERINGS,
    ),
)


def list_service_offerings(call: Call) -> Page:
    """Return the service offerings that the caller may use.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``offering_lists.wanted``; PermissionDenied also
            where the template is not the caller's to use.
    """
    requested, template = wanted(call), call.ref("templateid")
    if template is not None:
        requested = replace(requested, template_bytes=template_size(call.connection, call.caller, template))
    return service_offerings.list_service_offerings(
        call.connection, call.caller, call.arguments, requested, paging(call)
    )


def create_service_offering(call: Call) -> Mapping[str, Any]:
    """Create a service offering, and return the offering."""
    (offering,) = offering_service.create_service_offerings(call.connection, call.caller, [call.arguments])
    return _row(call, offering)


def update_service_offering(call: Call) -> Mapping[str, Any]:
    """Change a service offering, and return the offering."""
    offering = call.arguments["id"]
    given = {**call.arguments, **named_places(call.connection, call.caller, call.arguments)}
    offering_service.update_service_offerings(call.connection, call.caller, [(offering, given)])
    return _row(call, offering)


def delete_service_offering(call: Call) -> None:
    """Delete a service offering. If it is deleted already, the call succeeds and does nothing, as in CloudStack."""
    offering = call.arguments["id"]
    if not offering.removed:
        offerings.delete_offerings(call.connection, call.caller, offering_service.SERVICE_OFFERING, [offering])


def _row(call: Call, offering: EntityRef) -> Mapping[str, Any]:
    changed = Wanted(hidden=True)
    found = service_offerings.list_service_offerings(call.connection, call.caller, {"id": offering}, changed, ONE)
    return only_row(found)


PROVISIONING = "thin, sparse or fat; default thin. A hypervisor that cannot do this makes thin root disks"
SYSTEM_VM_TYPES = ("domainrouter", "consoleproxy", "secondarystoragevm", "internalloadbalancervm")
STORAGE_TAGS = string("tags", "tags that a pool must have, separated by commas", rule=TAGS)

CREATE = Command(
    name="createServiceOffering",
    description="Creates a service offering, for all domains or for some",
    handler=create_service_offering,
    shape=Shape.OBJECT,
    response=SERVICE_OFFERING,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        string("name", "its name", required=True, rule=NAME),
        string("displaytext", "the description; default: the name", length=4096),
        integer("cpunumber", "CPU cores; absent: chosen by the caller", minimum=1, maximum=MOST_CORES),
        integer("cpuspeed", "the speed of a core, MHz; absent: chosen by the caller", minimum=1, maximum=MOST_MHZ),
        integer("memory", "memory, MiB; absent: chosen by the caller", minimum=1, maximum=MOST_MIB, unit=MIB),
        boolean("customized", "whether the caller chooses cores and memory; default: where they are absent"),
        integer("mincpunumber", "the fewest cores to choose", minimum=1, maximum=MOST_CORES),
        integer("maxcpunumber", "the most cores to choose", minimum=1, maximum=MOST_CORES),
        integer("minmemory", "the least memory to choose, MiB", minimum=1, maximum=MOST_MIB, unit=MIB),
        integer("maxmemory", "the most memory to choose, MiB", minimum=1, maximum=MOST_MIB, unit=MIB),
        long(
            "rootdisksize",
            "size of the root disk, GiB; default: the template's",
            minimum=1,
            maximum=MOST_DISK_GIB,
            unit=GIB,
        ),
        string("storagetype", "shared or local; default shared", choices=tuple(kind.value for kind in StorageType)),
        string("provisioningtype", PROVISIONING, choices=PROVISIONING_TYPES),
        *disk_parameters("encryptroot"),
        boolean("issystem", "whether it is for system VMs, which do not exist here", roles=ROOT_ADMIN_ONLY),
        string(
            "systemvmtype",
            "only with issystem: the kind of system VMs that use the offering",
            choices=SYSTEM_VM_TYPES,
        ),
        STORAGE_TAGS,
        string("hosttags", "tags that a host must have, separated by commas", rule=TAGS),
        string("deploymentplanner", f"the planner of its VMs: {', '.join(planners())}", choices=tuple(planners())),
        boolean("offerha", "whether VMs are started elsewhere when their host fails"),
        boolean("limitcpuuse", "whether VMs are held to their CPU speed"),
        boolean("dynamicscalingenabled", "whether VMs can be scaled while they run; default true"),
        integer("networkrate", "network rate, Mbit/s", minimum=0, maximum=1_000_000),
        uuids("domainid", Entity.DOMAIN, "the domains it is for, with those below; only root admins may omit it"),
        uuids("zoneid", Entity.ZONE, "the zones it is offered in; default: everywhere"),
        mapping("serviceofferingdetails", "its details: serviceofferingdetails[0].key and [0].value"),
        *LEASE,
    ),
    rules=(*DISK_RULES, *LEASE_RULES, Needs("systemvmtype", "issystem")),
    unsupported={
        **OF_OFFERINGS,
        "diskofferingid": "the root disk is part of the offering",
        "diskofferingstrictness": "the root disk is part of the offering",
        "externaldetails": NO_EXTENSIONS,
        "gpucount": NO_GPU,
        "gpudisplay": NO_GPU,
        "vgpuprofileid": NO_GPU,
        "isvolatile": "root disks are kept when a VM restarts",
        "purgeresources": "expunged VMs are kept as rows",
    },
)

UPDATE = Command(
    name="updateServiceOffering",
    description="Changes a service offering. Existing VMs do not change.",
    handler=update_service_offering,
    shape=Shape.OBJECT,
    response=SERVICE_OFFERING,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        uuid("id", Entity.SERVICE_OFFERING, "the offering", required=True),
        string("name", "its new name", rule=NAME),
        string("displaytext", "its new description", length=4096),
        string("hosttags", "tags that a host must have, separated by commas; empty: none", rule=TAGS),
        string("storagetags", "tags that a pool must have, separated by commas; empty: none", rule=TAGS),
        string("domainid", "the domains it is for, separated by commas; public: all domains", length=4096),
        string("zoneid", "the zones it is offered in, separated by commas; all: everywhere", length=4096),
        string("state", "Active or Inactive", choices=("Active", "Inactive")),
        integer("sortkey", "its place in lists, smallest first"),
    ),
    unsupported={
        "externaldetails": NO_EXTENSIONS,
        "cleanupexternaldetails": NO_EXTENSIONS,
        "purgeresources": "expunged VMs are kept as rows",
    },
)

DELETE = Command(
    name="deleteServiceOffering",
    description="Deletes a service offering; VMs that have it keep it",
    handler=delete_service_offering,
    shape=Shape.SUCCESS,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(uuid("id", Entity.SERVICE_OFFERING, "the offering", required=True),),
)

COMMANDS = (
    CREATE,
    UPDATE,
    DELETE,
    Command(
        name="listServiceOfferings",
        description="Lists the service offerings that the caller may use",
        handler=list_service_offerings,
        shape=Shape.LIST,
        response=SERVICE_OFFERING,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.SERVICE_OFFERING, "only this offering"),
            string("name", "only the offering of this name"),
            uuid("zoneid", Entity.ZONE, "only offerings that are available in this zone"),
            *FOR_WHOM,
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only offerings to which this VM can change"),
            uuid("templateid", Entity.TEMPLATE, "only offerings whose root disk is large enough for this template"),
            integer("cpunumber", "only offerings with at least this many cores"),
            integer("cpuspeed", "only offerings with at least this speed of a core, MHz"),
            integer("memory", "only offerings with at least this memory, MiB"),
            string("storagetype", "only offerings of this kind", choices=tuple(kind.value for kind in StorageType)),
            string(
                "state",
                "only offerings in this state; default Active; all: in any state",
                choices=("Active", "Inactive", ANY_STATE),
            ),
            boolean("issystem", "whether to list offerings of system VMs instead", roles=ROOT_ADMIN_ONLY),
            string("systemvmtype", "only offerings for this kind of system VM", choices=SYSTEM_VM_TYPES),
            boolean("encryptroot", "only offerings with encrypted root disks (true) or without (false)"),
            *PAGING,
        ),
        unsupported={
            "gpuenabled": NO_GPU,
            "vgpuprofileid": NO_GPU,
        },
    ),
)

NOUNS = (
    Noun(
        section="serviceofferings",
        entity=Entity.SERVICE_OFFERING,
        create=CREATE,
        create_many=offering_service.create_service_offerings,
        # What is changed is called tags as where it is made: two words for one thing would be compared twice.
        update=replace(UPDATE, parameters=tuple(one for one in UPDATE.parameters if one.name != "storagetags")),
        update_many=offering_service.update_service_offerings,
        read=partial(read_offerings, entity=Entity.SERVICE_OFFERING, fields=service_offerings.FIELDS),
        key=by("name"),
        more=(STORAGE_TAGS,),
        exports=lambda row: bool(row["_offered"]),
    ),
)
