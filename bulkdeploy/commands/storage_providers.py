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

PROVIDER = "DefaultPrimary"


def list_storage_providers(call: Call) -> Page:
    """Who runs primary storage: the one that createStoragePool takes. There is no other storage."""
    keyword = (call.text("keyword") or "").lower()
    rows = [{"name": PROVIDER, "type": "PRIMARY"}] if keyword in PROVIDER.lower() else []
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
            # Refused, not found empty: Ansible's cs_image_store ends in a traceback where nobody provides images.
            string(
                "type", "the type of storage: primary; there are no image or object stores", choices=("primary",)
            ),
            *PAGING,
        ),
    ),
)
