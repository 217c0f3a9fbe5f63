"""dedicateGuestVlanRange, releaseDedicatedGuestVlanRange and listDedicatedGuestVlanRanges."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING, PROJECT
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, large_number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import INFRASTRUCTURE_ADMINS, ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.networks import dedicated_vlan_ranges as service
from bulkdeploy.store.networks import dedicated_vlan_ranges as store
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.visibility import Visibility

RANGE = Response(
    "dedicatedguestvlanrange",
    (
        text("id", "the dedicated range"),
        text("guestvlanrange", "the first and the last VLAN of the range, such as 100-199"),
        # Numbers, as in CloudStack: typed clients reject a response with a uuid in these fields.
        large_number("physicalnetworkid", "the internal number of the physical network", ROOT_ADMIN_ONLY),
        large_number("zoneid", "the internal number of the physical network's zone", ROOT_ADMIN_ONLY),
        *OWNER_FIELDS,
    ),
)


def list_ranges(call: Call) -> Page:
    """Return the dedicated VLAN ranges of the named owner, or of all owners that the caller may see.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``visible``.
    """
    named = call.arguments.keys() & {"account", "domainid", "projectid"}
    shown = Visibility() if call.caller.is_root_admin and not named else visible(call)
    return store.list_ranges(call.connection, shown, call.arguments, paging(call))


def dedicate_range(call: Call) -> Mapping[str, Any]:
    """Dedicate VLANs to an account or a project, and return the dedicated range."""
    given = call.arguments
    ref = service.dedicate_range(
        call.connection, call.caller, given["physicalnetworkid"], given["vlanrange"], named_owner(call)
    )
    return only_row(store.list_ranges(call.connection, Visibility(), {"id": ref}, ONE))


def release_range(call: Call) -> JobTicket:
    """Release dedicated VLANs. Existing networks keep them."""
    return service.release_range(call.connection, call.caller, call.arguments["id"])


COMMANDS: tuple[Command, ...] = (
    Command(
        name="dedicateGuestVlanRange",
        description=(
            "Dedicates VLANs of a physical network to an account. New networks of the account get these VLANs "
            "first, and networks of other accounts never get them."
        ),
        handler=dedicate_range,
        shape=Shape.OBJECT,
        response=RANGE,
        roles=ROOT_ADMIN_ONLY,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            string("vlanrange", "the first and the last VLAN, such as 100-199", required=True),
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "the physical network", required=True),
            string("account", "the name of the account that gets the VLANs; domainid names its domain"),
            uuid("domainid", Entity.DOMAIN, "the domain of the account"),
            uuid("projectid", Entity.PROJECT, "the project that gets the VLANs; used instead of account"),
        ),
    ),
    Command(
        name="releaseDedicatedGuestVlanRange",
        description="Releases dedicated VLANs: networks of all accounts can get them. Existing networks keep them.",
        handler=release_range,
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.DEDICATED_VLAN_RANGE, "the dedicated range", required=True),),
    ),
    Command(
        name="listDedicatedGuestVlanRanges",
        description="Lists VLANs that are dedicated to accounts",
        handler=list_ranges,
        shape=Shape.LIST,
        response=RANGE,
        roles=INFRASTRUCTURE_ADMINS,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.DEDICATED_VLAN_RANGE, "only this range"),
            string("guestvlanrange", "only the range with these limits, such as 100-199"),
            uuid("physicalnetworkid", Entity.PHYSICAL_NETWORK, "only ranges of this physical network"),
            uuid("zoneid", Entity.ZONE, "only ranges of this zone"),
            string("account", "only ranges of the account with this name in the domain domainid"),
            uuid(
                "domainid", Entity.DOMAIN, "the domain of the account; without account: only ranges of this domain"
            ),
            *PROJECT,
            *PAGING,
        ),
    ),
)
