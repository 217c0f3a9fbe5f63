"""listStorageProviders."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.store.listing import Page, cut_page

PRIMARY = "primary"


def list_storage_providers(call: Call) -> Page:
    """Who runs storage of the type: of primary storage the one that createStoragePool takes, of others nobody."""
    keyword = (call.text("keyword") or "").lower()
    known = ["DefaultPrimary"] if call.arguments.get("type", PRIMARY) == PRIMARY else []
    rows = [{"name": name, "type": "PRIMARY"} for name in known if keyword in name.lower()]
    return cut_page(rows, paging(call))


COMMANDS = (
    Command(
        name="listStorageProviders",
        description="Lists the providers of storage that a storage pool may name",
        handler=list_storage_providers,
        shape=Shape.LIST,
        response=Response("dataStoreProvider", (text("name", "the provider"), text("type", "what it provides"))),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string(
                "type", "the type of storage; primary where it is not given", choices=(PRIMARY, "image", "object")
            ),
            *PAGING,
        ),
    ),
)
