"""Commands of image stores: list, add, update and delete. Templates do not depend on image stores."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import boolean, long, string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, flag, large_number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, URL
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.topology import IMAGE_PROVIDER
from bulkdeploy.services.infrastructure.storage import image_stores as service
from bulkdeploy.store.infrastructure.storage import image_stores
from bulkdeploy.store.rows.listing import Page

IMAGE_STORE = Response(
    "imagestore",
    (
        text("id", "the image store"),
        text("name", "the name of the image store"),
        text("url", "the URL of the store"),
        text("protocol", "nfs"),
        text("providername", "NFS"),
        text("scope", "ZONE"),
        text("zoneid", "the zone of the image store"),
        text("zonename", "the zone's name"),
        flag("readonly", "whether the image store is read-only"),
        large_number("disksizetotal", "the size of the image store, in bytes; absent if unknown"),
        HAS_ANNOTATIONS,
    ),
)


def list_image_stores(call: Call) -> Page:
    """Return the image stores that match the filters."""
    return image_stores.list_image_stores(call.connection, call.arguments, paging(call))


def add_image_store(call: Call) -> Mapping[str, Any]:
    """Add an image store to a zone, and return the image store."""
    return service.add_store(call.connection, call.caller, call.arguments)


def update_image_store(call: Call) -> Mapping[str, Any]:
    """Change an image store, and return the image store."""
    return service.update_store(call.connection, call.caller, call.arguments["id"], call.arguments)


def delete_image_store(call: Call) -> None:
    """Delete an image store."""
    service.delete_stores(call.connection, call.caller, [call.arguments["id"]])


ADD = Command(
    name="addImageStore",
    description=(
        "Adds an image store to a zone. The service lists it but does not use it: templates need no image store."
    ),
    handler=add_image_store,
    shape=Shape.OBJECT,
    response=IMAGE_STORE,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        string("provider", "the provider of the store", required=True, choices=(IMAGE_PROVIDER,)),
        string(
            "url", "the NFS export, such as nfs://10.1.1.9/export/secondary", required=True, length=2048, rule=URL
        ),
        uuid("zoneid", Entity.ZONE, "the zone of the image store", required=True),
        string("name", "the name of the image store, unique among image stores; default: the url", rule=NAME),
    ),
    unsupported={"details": "NFS exports have no details"},
)

UPDATE = Command(
    name="updateImageStore",
    description="Changes an image store",
    handler=update_image_store,
    shape=Shape.OBJECT,
    response=IMAGE_STORE,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.IMAGE_STORE, "the image store", required=True),
        string("name", "the new name of the image store, unique among image stores", rule=NAME),
        boolean("readonly", "whether the image store is read-only"),
        long("capacitybytes", "the size of the image store, in bytes", minimum=0),
    ),
)

DELETE = Command(
    name="deleteImageStore",
    description="Deletes an image store",
    handler=delete_image_store,
    shape=Shape.SUCCESS,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(uuid("id", Entity.IMAGE_STORE, "the image store", required=True),),
)

COMMANDS = (
    ADD,
    UPDATE,
    DELETE,
    Command(
        name="listImageStores",
        description="Lists image stores",
        handler=list_image_stores,
        shape=Shape.LIST,
        response=IMAGE_STORE,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.IMAGE_STORE, "only this image store"),
            string("name", "only the image store of this name"),
            uuid("zoneid", Entity.ZONE, "only image stores of this zone"),
            string("provider", "only image stores of this provider"),
            string("protocol", "only image stores of this protocol"),
            boolean("readonly", "only read-only image stores (true) or writable ones (false)"),
            *PAGING,
        ),
    ),
)
