"""listDiskOfferings."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import flag, large_number, moment, text, text_map
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.topology import StorageType
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store import disk_offerings
from bulkdeploy.store.listing import Page

DISK_OFFERING = Response(
    "diskoffering",
    (
        text("id", "the disk offering"),
        text("name", "its name"),
        text("displaytext", "its description"),
        large_number("disksize", "size of the disk, GiB; 0 where it is chosen"),
        flag("iscustomized", "whether the caller chooses the size"),
        flag("iscustomizediops", "always false"),
        text("storagetype", "shared, or local where disks of hosts are used"),
        text("provisioningtype", "thin, sparse or fat"),
        text("tags", "tags that a pool must have, separated by commas"),
        flag("displayoffering", "whether it is shown to users"),
        text_map("details", "its details"),
        text("state", "Active or Inactive"),
        text("domainid", "the domains it is for, separated by commas; absent: everybody"),
        text("domain", "their names"),
        text("zoneid", "the zones it is offered in, separated by commas; absent: everywhere"),
        text("zone", "their names"),
        moment("created", "when it was made"),
    ),
)


def list_disk_offerings(call: Call) -> Page:
    """The disk offerings that the caller may use.

    Raises:
        PermissionDenied: ``domainid`` is outside the caller's reach.
    """
    domain = call.ref("domainid")
    lineage = None if domain is None else require_domain(call.connection, call.caller, domain)
    return disk_offerings.list_disk_offerings(call.connection, call.caller, call.arguments, lineage, paging(call))


COMMANDS = (
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
            uuid("zoneid", Entity.ZONE, "only what is offered in this zone"),
            uuid("domainid", Entity.DOMAIN, "only offerings that this domain has to itself"),
            boolean("isrecursive", "with domainid: those of the domains below it, too"),
            string("storagetype", "only offerings of this kind", choices=tuple(kind.value for kind in StorageType)),
            string("state", "only offerings in this state; default Active", choices=("Active", "Inactive")),
            *PAGING,
        ),
    ),
)
