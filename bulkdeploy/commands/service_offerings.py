"""listServiceOfferings."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, integer, string, uuid
from bulkdeploy.declare.response_fields import flag, large_number, moment, number, text, text_map
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.topology import StorageType
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store import service_offerings
from bulkdeploy.store.listing import Page

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
        text("provisioningtype", "thin"),
        text("storagetags", "tags that a pool must have, separated by commas"),
        text("hosttags", "tags that a host must have, separated by commas"),
        text("deploymentplanner", "the planner that places its VMs"),
        flag("offerha", "whether VMs are started elsewhere when their host fails"),
        flag("limitcpuuse", "whether VMs are held to their CPU speed"),
        flag("dynamicscalingenabled", "whether VMs can be scaled while they run"),
        flag("isvolatile", "always false"),
        flag("issystem", "always false"),
        flag("defaultuse", "always false"),
        flag("iscustomizediops", "always false"),
        number("networkrate", "network rate, Mbit/s"),
        text_map("serviceofferingdetails", "its details; the bounds of what may be chosen among them"),
        text("state", "Active or Inactive"),
        text("domainid", "the domains it is for, separated by commas; absent: everybody"),
        text("domain", "their names"),
        text("zoneid", "the zones it is offered in, separated by commas; absent: everywhere"),
        text("zone", "their names"),
        moment("created", "when it was made"),
    ),
)


def list_service_offerings(call: Call) -> Page:
    """The service offerings that the caller may use.

    Raises:
        PermissionDenied: ``domainid`` is outside the caller's reach.
    """
    domain = call.ref("domainid")
    lineage = None if domain is None else require_domain(call.connection, call.caller, domain)
    return service_offerings.list_service_offerings(
        call.connection, call.caller, call.arguments, lineage, paging(call)
    )


COMMANDS = (
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
            uuid("zoneid", Entity.ZONE, "only what is offered in this zone"),
            uuid("domainid", Entity.DOMAIN, "only offerings that this domain has to itself"),
            boolean("isrecursive", "with domainid: those of the domains below it, too"),
            integer("cpunumber", "only what allows this many cores"),
            integer("cpuspeed", "only what allows this speed of a core, MHz"),
            integer("memory", "only what allows this memory, MiB"),
            string("storagetype", "only offerings of this kind", choices=tuple(kind.value for kind in StorageType)),
            string("state", "only offerings in this state; default Active", choices=("Active", "Inactive")),
            boolean("issystem", "whether to list offerings of system VMs; there are none", roles=ROOT_ADMIN_ONLY),
            *PAGING,
        ),
    ),
)
