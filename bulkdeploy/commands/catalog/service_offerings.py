"""Commands of service offerings (one file: the commands of one noun)."""

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
from bulkdeploy.commands.catalog.offering_lists import CHANGED_PLACES, FOR_WHOM, requested_offerings
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
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, flag, large_number, moment, number, text, text_map
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
        text("name", "the name of the offering"),
        text("displaytext", "the description of the offering"),
        flag("iscustomized", "whether callers choose cores, speed or memory"),
        number("cpunumber", "the number of CPU cores; the minimum if callers choose it"),
        number("cpuspeed", "the speed of a CPU core in MHz; 0 if callers choose it"),
        number("memory", "the memory in MiB; the minimum if callers choose it"),
        large_number("rootdisksize", "the size of the root disk in GiB; absent: the size of the template"),
        text("storagetype", "the storage type: shared, or local (local disks of hosts)"),
        text("provisioningtype", "the provisioning type: thin, sparse or fat"),
        *disk_fields("encryptroot"),
        text(
            "storagetags",
            "tags, separated by commas; volumes of the offering are created only on storage pools that have "
            "all of them",
        ),
        text(
            "hosttags",
            "tags, separated by commas; VMs of the offering are placed only on hosts that have all of them",
        ),
        text("deploymentplanner", "the deployment planner that places the VMs of the offering"),
        flag("offerha", "whether VMs are started on another host if their host fails"),
        flag("limitcpuuse", "whether the CPU usage of VMs is limited to their CPU speed"),
        flag("dynamicscalingenabled", "whether VMs can be scaled while they run"),
        flag("isvolatile", "whether a reboot replaces the root disk of a VM by a new one from its template"),
        flag(
            "issystem",
            "whether the offering is for system VMs. This service has no system VMs, so no VM can have such an "
            "offering",
        ),
        text("systemvmtype", "the kind of system VMs that use the offering"),
        flag("defaultuse", "always false"),
        flag("iscustomizediops", "always false"),
        number("networkrate", "the maximum network rate, in Mbit/s"),
        text_map(
            "serviceofferingdetails",
            "the details of the offering, including the bounds of sizes that callers choose",
        ),
        number("leaseduration", "the length of the lease of VMs, in days"),
        text("leaseexpiryaction", "the action when the lease of a VM expires: STOP or DESTROY"),
        text("state", "the state: Active or Inactive"),
        text("domainid", "the domains that may use the offering, separated by commas; absent: all domains"),
        text("domain", "the names of the domains"),
        text("zoneid", "the zones in which the offering is available, separated by commas; absent: all zones"),
        text("zone", "the names of the zones"),
        moment("created", "the date and time of creation"),
        *OF_SERVICE_OFFERINGS,
        HAS_ANNOTATIONS,
    ),
)


def list_service_offerings(call: Call) -> Page:
    """Return the service offerings that the caller may use and that match the filters.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``offering_lists.wanted``. PermissionDenied is
            also raised if the caller may not use the template.
    """
    requested, template = requested_offerings(call), call.ref("templateid")
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


PROVISIONING = (
    "the provisioning type of root disks: thin (default), sparse or fat. A hypervisor that does not support the "
    "type creates thin disks"
)
SYSTEM_VM_TYPES = ("domainrouter", "consoleproxy", "secondarystoragevm", "internalloadbalancervm")
STORAGE_TAGS = string(
    "tags",
    "tags, separated by commas; volumes of the offering are created only on storage pools that have all of them",
    rule=TAGS,
)

CREATE = Command(
    name="createServiceOffering",
    description="Creates a service offering for all domains or for the named domains",
    handler=create_service_offering,
    shape=Shape.OBJECT,
    response=SERVICE_OFFERING,
    roles=EVERY_ADMIN,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        string("name", "the name of the offering", required=True, rule=NAME),
        string("displaytext", "the description; default: the name", length=4096),
        integer(
            "cpunumber",
            "the number of CPU cores; if left out, callers choose it when they deploy VMs",
            minimum=1,
            maximum=MOST_CORES,
        ),
        integer(
            "cpuspeed",
            "the speed of a CPU core in MHz; if left out, callers choose it when they deploy VMs",
            minimum=1,
            maximum=MOST_MHZ,
        ),
        integer(
            "memory",
            "the memory in MiB; if left out, callers choose it when they deploy VMs",
            minimum=1,
            maximum=MOST_MIB,
            unit=MIB,
        ),
        boolean(
            "customized",
            "whether callers choose cores and memory; default: true if cpunumber or memory is left out",
        ),
        integer(
            "mincpunumber", "the minimum number of cores that callers can choose", minimum=1, maximum=MOST_CORES
        ),
        integer(
            "maxcpunumber", "the maximum number of cores that callers can choose", minimum=1, maximum=MOST_CORES
        ),
        integer(
            "minmemory", "the minimum memory that callers can choose, in MiB", minimum=1, maximum=MOST_MIB, unit=MIB
        ),
        integer(
            "maxmemory", "the maximum memory that callers can choose, in MiB", minimum=1, maximum=MOST_MIB, unit=MIB
        ),
        long(
            "rootdisksize",
            "the size of the root disk in GiB; default: the size of the template",
            minimum=1,
            maximum=MOST_DISK_GIB,
            unit=GIB,
        ),
        string(
            "storagetype",
            "the storage type: shared (default) or local",
            choices=tuple(kind.value for kind in StorageType),
        ),
        string("provisioningtype", PROVISIONING, choices=PROVISIONING_TYPES),
        *disk_parameters("encryptroot"),
        boolean("issystem", "whether the offering is for system VMs; this service has none", roles=ROOT_ADMIN_ONLY),
        string(
            "systemvmtype",
            "only with issystem: the kind of system VMs that use the offering",
            choices=SYSTEM_VM_TYPES,
        ),
        STORAGE_TAGS,
        string(
            "hosttags",
            "tags, separated by commas; VMs of the offering are placed only on hosts that have all of them",
            rule=TAGS,
        ),
        string(
            "deploymentplanner",
            f"the deployment planner that places the VMs of the offering: {', '.join(planners())}",
            choices=tuple(planners()),
        ),
        boolean("offerha", "whether VMs are started on another host if their host fails"),
        boolean("limitcpuuse", "whether the CPU usage of VMs is limited to their CPU speed"),
        boolean("dynamicscalingenabled", "whether VMs can be scaled while they run; default true"),
        boolean("isvolatile", "whether a reboot replaces the root disk of a VM by a new one from its template"),
        integer("networkrate", "the maximum network rate, in Mbit/s", minimum=0, maximum=1_000_000),
        uuids(
            "domainid",
            Entity.DOMAIN,
            "the domains that may use the offering, including the domains below; only root admins may leave it "
            "out, which means all domains",
        ),
        uuids("zoneid", Entity.ZONE, "the zones in which the offering is available; default: all zones"),
        mapping(
            "serviceofferingdetails",
            "the details of the offering: serviceofferingdetails[0].key and serviceofferingdetails[0].value",
        ),
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
        "purgeresources": "records of expunged VMs are kept",
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
        string("name", "the new name of the offering", rule=NAME),
        string("displaytext", "the new description of the offering", length=4096),
        string(
            "hosttags",
            "the new tags, separated by commas; VMs of the offering are placed only on hosts that have all of "
            "them; empty: no tags",
            rule=TAGS,
        ),
        string(
            "storagetags",
            "the new tags, separated by commas; volumes of the offering are created only on storage pools that "
            "have all of them; empty: no tags",
            rule=TAGS,
        ),
        *CHANGED_PLACES,
        string("state", "the state: Active or Inactive", choices=("Active", "Inactive")),
        integer("sortkey", "the position in lists: lower numbers first"),
    ),
    unsupported={
        "externaldetails": NO_EXTENSIONS,
        "cleanupexternaldetails": NO_EXTENSIONS,
        "purgeresources": "records of expunged VMs are kept",
    },
)

DELETE = Command(
    name="deleteServiceOffering",
    description="Deletes a service offering. Existing VMs keep it",
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
                "only offerings in this state; default: Active; all: in any state",
                choices=("Active", "Inactive", ANY_STATE),
            ),
            boolean(
                "issystem",
                "true: list offerings for system VMs instead of offerings for users",
                roles=ROOT_ADMIN_ONLY,
            ),
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
        # The field is called tags as in the create command; with a second name it would be compared twice.
        update=replace(UPDATE, parameters=tuple(one for one in UPDATE.parameters if one.name != "storagetags")),
        update_many=offering_service.update_service_offerings,
        read=partial(read_offerings, entity=Entity.SERVICE_OFFERING, fields=service_offerings.FIELDS),
        key=by("name"),
        more=(STORAGE_TAGS,),
        exports=lambda row: bool(row["_offered"]),
    ),
)
