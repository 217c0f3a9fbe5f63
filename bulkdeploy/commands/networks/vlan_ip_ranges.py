"""listVlanIpRanges, createVlanIpRange and deleteVlanIpRange: the address ranges of networks and zones."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_IPV6, NO_SYSTEM_VMS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, by
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import flag, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import IP_ADDRESS, NETMASK
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.networks import vlan_ip_ranges as range_service
from bulkdeploy.store.networks import vlan_ip_ranges
from bulkdeploy.store.rows.listing import Page

FIELDS = (
    text("id", "the range"),
    text("startip", "the first address of the range"),
    text("endip", "the last address of the range"),
    text("gateway", "the gateway of its addresses"),
    text("netmask", "the netmask of its addresses"),
    text("cidr", "the network of its addresses"),
    text("vlan", "the VLAN of the range, such as vlan://100 or vlan://untagged"),
    flag("forvirtualnetwork", "true: the range has public addresses; false: addresses of guests"),
    text("zoneid", "the zone of the range"),
    text("networkid", "the guest network of the range", ROOT_ADMIN_ONLY),
    text("physicalnetworkid", "the physical network of the traffic type"),
    text("podid", "the pod whose VMs get the addresses"),
    text("podname", "the pod's name"),
)
NOT_GIVEN_AWAY = "public addresses cannot be assigned to accounts"


def list_ranges(call: Call) -> Page:
    """Return the address ranges that match the filters."""
    return vlan_ip_ranges.list_ranges(call.connection, call.arguments, paging(call))


def create_range(call: Call) -> Mapping[str, Any]:
    """Add an address range, and return the range."""
    (made,) = range_service.create_ranges(call.connection, call.caller, [call.arguments])
    return only_row(vlan_ip_ranges.list_ranges(call.connection, {"id": made}, ONE))


def delete_range(call: Call) -> None:
    """Delete an address range of which no address is in use."""
    range_service.delete_ranges(call.connection, call.caller, [call.arguments["id"]])


CREATE = Command(
    name="createVlanIpRange",
    description="Adds a range of addresses to a Shared guest network, or a range of public addresses to a zone",
    handler=create_range,
    shape=Shape.OBJECT,
    response=Response("vlan", FIELDS),
    roles=ROOT_ADMIN_ONLY,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone"),
        uuid("networkid", Entity.NETWORK, "the guest network; may be left out if the zone has only one"),
        uuid("podid", Entity.POD, "the pod whose VMs get the addresses; required in a Basic zone"),
        uuid(
            "physicalnetworkid",
            Entity.PHYSICAL_NETWORK,
            "the physical network for public addresses; may be left out if only one physical network has "
            "public traffic",
        ),
        boolean("forvirtualnetwork", "true: the range has public addresses; false (default): addresses of guests"),
        string("startip", "the first address", required=True, rule=IP_ADDRESS),
        string("endip", "the last address; default: startip", rule=IP_ADDRESS),
        string(
            "gateway",
            "the gateway of the addresses; default: the gateway of the guest network",
            rule=IP_ADDRESS,
            clearable=True,
        ),
        string(
            "netmask",
            "the netmask of the addresses; default: the netmask of the guest network",
            rule=NETMASK,
            clearable=True,
        ),
        string("vlan", "the VLAN of the addresses: a number or untagged; default: the VLAN of the guest network"),
    ),
    unsupported={
        **dict.fromkeys(("account", "domainid", "projectid"), NOT_GIVEN_AWAY),
        "forsystemvms": NO_SYSTEM_VMS,
        "provider": "addresses do not belong to a network provider",
        "startipv6": NO_IPV6,
        "endipv6": NO_IPV6,
        "ip6gateway": NO_IPV6,
        "ip6cidr": NO_IPV6,
    },
)

COMMANDS = (
    Command(
        name="listVlanIpRanges",
        description="Lists address ranges of guest networks and of zones",
        handler=list_ranges,
        shape=Shape.LIST,
        response=Response("vlaniprange", FIELDS),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.VLAN_IP_RANGE, "only this range"),
            uuid("zoneid", Entity.ZONE, "only ranges of this zone"),
            uuid("networkid", Entity.NETWORK, "only ranges of this guest network"),
            uuid("podid", Entity.POD, "only ranges of this pod"),
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "only ranges on this physical network"),
            string("vlan", "only ranges of this VLAN, such as 100 or untagged"),
            boolean(
                "forvirtualnetwork", "true: only ranges of public addresses; false: only ranges of guest addresses"
            ),
            *PAGING,
        ),
        unsupported=dict.fromkeys(("account", "domainid", "projectid"), NOT_GIVEN_AWAY),
    ),
    CREATE,
    Command(
        name="deleteVlanIpRange",
        description="Deletes an address range of which no address is in use",
        handler=delete_range,
        shape=Shape.SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(ResourceInUse,),
        parameters=(uuid("id", Entity.VLAN_IP_RANGE, "the range", required=True),),
    ),
)

NOUNS = (
    Noun(
        section="vlanipranges",
        entity=Entity.VLAN_IP_RANGE,
        name="startip",
        create=CREATE,
        create_many=range_service.create_ranges,
        read=vlan_ip_ranges.read_ranges,
        key=by("zoneid", "networkid", "startip"),
        parent="networkid",
        exports=lambda row: not row["_is_of_network"],
    ),
)
