"""listZones."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.capacity_fields import ZONE_CAPACITY
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Exclusive, boolean, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import TAGS, flag, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.topology import NetworkType
from bulkdeploy.store import zones
from bulkdeploy.store.listing import Page

ZONE = Response(
    "zone",
    (
        text("id", "the zone"),
        text("name", "its name"),
        text("description", "its description"),
        text("displaytext", "its description"),
        text("networktype", "Basic or Advanced"),
        flag("securitygroupsenabled", "whether its networks have security groups"),
        flag("localstorageenabled", "whether disks of hosts may be used"),
        text("allocationstate", "Enabled, or Disabled when it takes no new VMs"),
        text("type", "Core"),
        text("dns1", "its first DNS server", ROOT_ADMIN_ONLY),
        text("dns2", "its second DNS server", ROOT_ADMIN_ONLY),
        text("internaldns1", "its first internal DNS server", ROOT_ADMIN_ONLY),
        text("internaldns2", "its second internal DNS server", ROOT_ADMIN_ONLY),
        text("guestcidraddress", "the CIDR of its guests", ROOT_ADMIN_ONLY),
        text("domain", "the network domain of its guests"),
        text("domainid", "the only domain that may use it; absent when it is public"),
        text("domainname", "the name of that domain"),
        TAGS,
        ZONE_CAPACITY,
    ),
)


def list_zones(call: Call) -> Page:
    """The zones that the caller may use."""
    return zones.list_zones(call.connection, call.caller, call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listZones",
        description="Lists the zones that the caller may use",
        handler=list_zones,
        shape=Shape.LIST,
        response=ZONE,
        parameters=(
            uuid("id", Entity.ZONE, "only this zone"),
            uuids("ids", Entity.ZONE, "only these zones"),
            string("name", "only the zone of this name"),
            string(
                "networktype",
                "only zones of this type",
                choices=tuple(kind.value for kind in NetworkType),
            ),
            uuid("domainid", Entity.DOMAIN, "only zones of this domain"),
            boolean("available", "false, for others than root admins: only zones where the account has VMs"),
            boolean("showcapacities", "whether to say what each zone holds"),
            mapping("tags", "only zones with these tags: tags[0].key, tags[0].value"),
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
    ),
)
