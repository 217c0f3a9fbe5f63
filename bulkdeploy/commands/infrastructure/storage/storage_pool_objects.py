"""listStoragePoolObjects: the volumes on a storage pool."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import flag, large_number, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.infrastructure.storage import storage_pool_objects as store
from bulkdeploy.store.rows.listing import Page, cut_page

OBJECT = Response(
    "datastoreobject",
    (
        text("name", "the name of the object on the pool, which is the id of the volume"),
        flag("isdirectory", "false: volumes are no directories"),
        large_number("size", "the volume's size, bytes"),
        text("volumeid", "the volume"),
        text("volumename", "the volume's name"),
        text("templateid", "the template that the volume was made from"),
        text("templatename", "the template's name"),
        text("format", "the template's format"),
        moment("lastupdated", "when the creation of the volume was requested"),
    ),
)


def list_objects(call: Call) -> Page:
    """Return the volumes on a storage pool. The result is empty for a path below the pool's root."""
    if (call.text("path") or "/").strip("/"):
        return cut_page((), paging(call))
    return store.list_objects(call.connection, call.arguments["id"].id, call.arguments, paging(call))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listStoragePoolObjects",
        description="Lists the volumes on a storage pool. Other files are not listed.",
        handler=list_objects,
        shape=Shape.LIST,
        response=OBJECT,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.STORAGE_POOL, "the pool", required=True),
            string("path", "a path on the pool; only its root contains volumes"),
            *PAGING,
        ),
    ),
)
