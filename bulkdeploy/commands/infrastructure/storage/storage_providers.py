"""listStorageProviders: the providers of primary storage and of image stores."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.infrastructure.topology import IMAGE_PROVIDER, PRIMARY_PROVIDER
from bulkdeploy.store.rows.listing import Page, cut_page

PROVIDERS = {"primary": PRIMARY_PROVIDER, "image": IMAGE_PROVIDER}
"""The providers that createStoragePool and addImageStore accept, by the type of storage."""


def list_storage_providers(call: Call) -> Page:
    """Return the providers of primary storage and of image stores."""
    keyword, wanted = (call.text("keyword") or "").lower(), call.text("type")
    rows = [
        {"name": provider, "type": kind.upper()}
        for kind, provider in PROVIDERS.items()
        if keyword in provider.lower() and wanted in (None, kind)
    ]
    return cut_page(rows, paging(call))


COMMANDS = (
    Command(
        name="listStorageProviders",
        description="Lists the providers of storage that a storage pool or an image store may name",
        handler=list_storage_providers,
        shape=Shape.LIST,
        response=Response(
            "dataStoreProvider",
            (
                text("name", "the name of the provider"),
                text("type", "the type of storage that the provider offers"),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string("type", "the type of storage; there are no object stores", choices=tuple(PROVIDERS)),
            *PAGING,
        ),
    ),
)
