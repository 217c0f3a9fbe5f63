"""Operations on image stores.

The rows exist for operators' tools; the service stores no templates in image stores.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import (
    ONE,
    changed,
    deleted_events,
    lock_entities,
    lock_entity,
    only_row,
    subject,
    unique_name,
)
from bulkdeploy.store.infrastructure.storage import image_stores
from bulkdeploy.store.jobs.events import record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_row, insert_row, remove_rows

KIND = "ImageStore"
ANOTHER = "another image store"
NFS = "nfs"
CHANGEABLE = {"readonly": "read_only", "capacitybytes": "capacity_bytes"}


def add_store(connection: Connection, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Add an image store to a zone and return the store. If no name is given, its URL is the name.

    Raises:
        InvalidParameter: the URL does not name an NFS export, or the name is already used.
    """
    url = given["url"]
    parts = urlsplit(url)
    if parts.scheme.lower() != NFS or not parts.hostname or not parts.path.strip("/"):
        raise InvalidParameter("url", url, "it must be an NFS export such as nfs://10.1.1.9/export/secondary")
    if "@" in parts.netloc or parts.query:
        raise InvalidParameter("url", url, "an NFS export must have neither a user nor parameters")
    zone = lock_entity(connection, given["zoneid"], "zoneid", shared=True)
    values = {
        "name": given.get("name", url),
        "zone_id": zone["id"],
        "provider": given["provider"],
        "protocol": NFS,
        "url": url,
    }
    with unique_name("name", values["name"], ANOTHER):
        store = insert_row(connection, Entity.IMAGE_STORE, values)
    text = f"added image store {store.name} to zone {zone['name']}"
    return _recorded(connection, caller, EventType.IMAGE_STORE_CREATE, store, text)


def update_store(connection: Connection, caller: Caller, store: EntityRef, given: Arguments) -> Mapping[str, Any]:
    """Change the fields of an image store and return the store.

    Raises:
        InvalidParameter: the image store was deleted, or the name is already used.
    """
    values = {column: given[parameter] for parameter, column in CHANGEABLE.items() if parameter in given}
    if "name" in given:
        values["name"] = given["name"]
    lock_entity(connection, store)
    with unique_name("name", values.get("name"), ANOTHER):
        change_row(connection, store, values)
    text = f"changed image store {store.name}{changed(values)}"
    return _recorded(connection, caller, EventType.IMAGE_STORE_EDIT, store, text)


def delete_stores(connection: Connection, caller: Caller, stores: Sequence[EntityRef]) -> None:
    """Delete image stores. No templates are lost, because image stores contain none.

    Raises:
        InvalidParameter: one of the image stores was deleted.
    """
    lock_entities(connection, stores)
    remove_rows(connection, stores)
    record_events(connection, caller, deleted_events(EventType.IMAGE_STORE_DELETE, KIND, stores))


def _recorded(
    connection: Connection, caller: Caller, event: EventType, store: EntityRef, text: str
) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(KIND, store))
    return only_row(image_stores.list_image_stores(connection, {"id": store}, ONE))
