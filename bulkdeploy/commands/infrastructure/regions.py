"""Commands of regions: names and URLs of other installations, which clients can list and which have no effect."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import integer, string
from bulkdeploy.declare.response_fields import constants, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, URL
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.services.infrastructure import regions as service
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.store.infrastructure import regions
from bulkdeploy.store.rows.listing import Page

REGION = Response(
    "region",
    (
        number("id", "the region"),
        text("name", "the name of the region"),
        text("endpoint", "the address of the region's API"),
        *constants(False, "networks have no virtual routers", "gslbserviceenabled", "portableipserviceenabled"),
    ),
)


def list_regions(call: Call) -> Page:
    """Return the regions that match the filters."""
    return regions.list_regions(call.connection, call.arguments, paging(call))


def add_region(call: Call) -> Mapping[str, Any]:
    """Add a region, and return the region."""
    given = call.arguments
    service.add_region(call.connection, call.caller, given["id"], given["name"], given["endpoint"])
    return _row(call)


def update_region(call: Call) -> Mapping[str, Any]:
    """Change a region, and return the region."""
    values = {column: call.arguments[name] for name, column in regions.COLUMNS.items() if name in call.arguments}
    service.update_region(call.connection, call.caller, call.arguments["id"], values)
    return _row(call)


def remove_region(call: Call) -> None:
    """Remove a region, except the one of this installation."""
    service.remove_region(call.connection, call.caller, call.arguments["id"])


def _row(call: Call) -> Mapping[str, Any]:
    return only_row(regions.list_regions(call.connection, {"id": call.arguments["id"]}, ONE))


ID = integer("id", "the number of the region", required=True, minimum=1)

COMMANDS = (
    Command(
        name="listRegions",
        description="Lists regions",
        handler=list_regions,
        shape=Shape.LIST,
        response=REGION,
        parameters=(
            integer("id", "only the region of this number"),
            string("name", "only the region of this name"),
            *PAGING,
        ),
    ),
    Command(
        name="addRegion",
        description="Adds a region: the name and the API address of another installation. Clients can list regions",
        handler=add_region,
        shape=Shape.OBJECT,
        response=REGION,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            ID,
            string("name", "the name of the region", required=True, rule=NAME),
            string("endpoint", "the address of the region's API", required=True, rule=URL),
        ),
    ),
    Command(
        name="updateRegion",
        description="Changes the name or the address of a region",
        handler=update_region,
        shape=Shape.OBJECT,
        response=REGION,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            ID,
            string("name", "the new name of the region", rule=NAME),
            string("endpoint", "the new address of the region's API", rule=URL),
        ),
    ),
    Command(
        name="removeRegion",
        description="Removes a region, except the one of this installation",
        handler=remove_region,
        shape=Shape.SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(ID,),
    ),
)
