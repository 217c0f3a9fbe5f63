"""listZones, createZone, updateZone, deleteZone."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.constant_fields import OF_ZONES
from bulkdeploy.commands.infrastructure.responses import ZONE_CAPACITY
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_ACCESS_GROUPS, NO_IPV6
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING, SHOW_ICON
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import Exclusive, boolean, integer, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, TAGS, flag, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import CIDR_OF_ADDRESS, IP_ADDRESS, NAME
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.infrastructure.topology import AllocationState, NetworkType
from bulkdeploy.services.infrastructure import zones as zone_service
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.infrastructure import zones
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.live_rows import reader

ZONE = Response(
    "zone",
    (
        text("id", "the zone"),
        text("name", "the name of the zone"),
        text("description", "the description of the zone"),
        text("displaytext", "the description of the zone"),
        text("networktype", "the type of the zone: Basic or Advanced"),
        flag("securitygroupsenabled", "whether networks of the zone have security groups"),
        flag("localstorageenabled", "whether local disks of hosts may be used as storage for volumes"),
        text("allocationstate", "Enabled, or Disabled: only root admins can deploy VMs in the zone"),
        text("type", "Core"),
        text("dns1", "the first DNS server of the zone", ROOT_ADMIN_ONLY),
        text("dns2", "the second DNS server of the zone", ROOT_ADMIN_ONLY),
        text("internaldns1", "the first internal DNS server of the zone", ROOT_ADMIN_ONLY),
        text("internaldns2", "the second internal DNS server of the zone", ROOT_ADMIN_ONLY),
        text("guestcidraddress", "the CIDR of its guests", ROOT_ADMIN_ONLY),
        text("domain", "the DNS domain of the guests"),
        text("domainid", "the only domain that may use the zone; absent if all domains may use it"),
        text("domainname", "the name of the only domain that may use the zone"),
        TAGS,
        ZONE_CAPACITY,
        *OF_ZONES,
        HAS_ANNOTATIONS,
    ),
)


def list_zones(call: Call) -> Page:
    """Return the zones that the caller may use."""
    return zones.list_zones(call.connection, call.caller, call.arguments, paging(call))


def create_zone(call: Call) -> Mapping[str, Any]:
    """Create a disabled zone, and return the zone."""
    (zone,) = zone_service.create_zones(call.connection, call.caller, [call.arguments])
    return _row(call, zone)


def update_zone(call: Call) -> Mapping[str, Any]:
    """Change a zone, and return the zone."""
    zone = call.arguments["id"]
    zone_service.update_zones(call.connection, call.caller, [(zone, call.arguments)])
    return _row(call, zone)


def delete_zone(call: Call) -> None:
    """Delete an empty zone."""
    zone_service.delete_zones(call.connection, call.caller, [call.arguments["id"]])


def _row(call: Call, zone: EntityRef) -> Mapping[str, Any]:
    return only_row(zones.list_zones(call.connection, call.caller, {"id": zone}, ONE))


ALLOCATION_STATES = tuple(state.value for state in AllocationState)

CREATE = Command(
    name="createZone",
    description="Creates a zone. It accepts virtual machines once its allocation state is Enabled.",
    handler=create_zone,
    shape=Shape.OBJECT,
    response=ZONE,
    roles=ROOT_ADMIN_ONLY,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        string("name", "the name of the zone, unique among zones", required=True, rule=NAME),
        string(
            "networktype",
            "the type of the zone: Basic or Advanced",
            required=True,
            choices=tuple(kind.value for kind in NetworkType),
        ),
        string("dns1", "the first DNS server of the zone", required=True, rule=IP_ADDRESS),
        string("dns2", "the second DNS server of the zone", rule=IP_ADDRESS, clearable=True),
        string("internaldns1", "the first internal DNS server of the zone", required=True, rule=IP_ADDRESS),
        string("internaldns2", "the second internal DNS server of the zone", rule=IP_ADDRESS, clearable=True),
        string("domain", "the DNS domain of the guests", rule=NAME, clearable=True),
        uuid("domainid", Entity.DOMAIN, "the only domain that may use the zone; default: all domains"),
        string(
            "guestcidraddress",
            "the CIDR of guest networks, for Advanced zones; default: 10.1.1.0/24",
            rule=CIDR_OF_ADDRESS,
        ),
        boolean("localstorageenabled", "whether local disks of hosts may be used as storage for volumes"),
        boolean(
            "securitygroupenabled", "whether networks of the zone have security groups; always true in Basic zones"
        ),
        string(
            "allocationstate",
            "the allocation state: Enabled or Disabled (default); only root admins can deploy in a Disabled zone",
            choices=ALLOCATION_STATES,
        ),
    ),
    unsupported={
        "ip6dns1": NO_IPV6,
        "ip6dns2": NO_IPV6,
        "isedge": "all zones are of type Core",
        "storageaccessgroups": NO_ACCESS_GROUPS,
    },
)

UPDATE = Command(
    name="updateZone",
    description="Changes a zone. A changed allocation state applies from the next deployment on.",
    handler=update_zone,
    shape=Shape.OBJECT,
    response=ZONE,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.ZONE, "the zone", required=True),
        string("name", "the new name of the zone, unique among zones", rule=NAME),
        string(
            "allocationstate",
            "Enabled, or Disabled: only root admins can deploy VMs in the zone",
            choices=ALLOCATION_STATES,
        ),
        string("dns1", "the first DNS server of the zone", rule=IP_ADDRESS),
        string("dns2", "the second DNS server of the zone; empty: none", rule=IP_ADDRESS, clearable=True),
        string("internaldns1", "the first internal DNS server of the zone", rule=IP_ADDRESS),
        string(
            "internaldns2",
            "the second internal DNS server of the zone; empty: none",
            rule=IP_ADDRESS,
            clearable=True,
        ),
        string("domain", "the DNS domain of the guests; empty: none", rule=NAME, clearable=True),
        string("guestcidraddress", "the CIDR of guest networks; only for Advanced zones", rule=CIDR_OF_ADDRESS),
        boolean("localstorageenabled", "whether local disks of hosts may be used as storage for volumes"),
        boolean("ispublic", "true: all domains may use the zone"),
        integer("sortkey", "the position in lists: lower numbers first"),
    ),
    unsupported={
        "details": "zones have no details",
        "dhcpprovider": "the DHCP provider cannot be selected",
        "dnssearchorder": "the DNS search order cannot be set",
        "ip6dns1": NO_IPV6,
        "ip6dns2": NO_IPV6,
    },
)

DELETE = Command(
    name="deleteZone",
    description="Deletes an empty zone",
    handler=delete_zone,
    shape=Shape.SUCCESS,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(uuid("id", Entity.ZONE, "the zone", required=True),),
)

COMMANDS = (
    CREATE,
    UPDATE,
    DELETE,
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
            boolean(
                "available", "false: callers other than root admins get only zones in which their account has VMs"
            ),
            boolean("showcapacities", "whether the response includes the capacity of each zone"),
            mapping("tags", "only zones with these tags: tags[0].key, tags[0].value"),
            SHOW_ICON,
            *PAGING,
        ),
        unsupported={"storageaccessgroup": NO_ACCESS_GROUPS},
        rules=(Exclusive(("id", "ids")),),
    ),
)

NOUNS = (
    Noun(
        section="zones",
        entity=Entity.ZONE,
        create=CREATE,
        create_many=zone_service.create_zones,
        update=UPDATE,
        update_many=zone_service.update_zones,
        read=reader(Entity.ZONE, zones.FIELDS),
        key=by("name"),
    ),
)
