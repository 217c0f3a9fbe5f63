"""Deleting zones, pods and clusters: what they have in common."""

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import hold, noun, subject
from bulkdeploy.store.infrastructure.dedications import release_place
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.live_rows import Contents, remove_rows, what_hangs_on


def delete_place(
    connection: Connection,
    caller: Caller,
    place: EntityRef,
    contents: Contents,
    event: EventType,
    kind: str,
) -> None:
    """Delete a place that is empty, and its dedication; ``contents``: what may hang on it, by name.

    Raises:
        InvalidParameter: something is still in it, or it was deleted.
    """
    called = f"{noun(place.entity)} {place.name}"
    hold(connection, place)
    if left := what_hangs_on(connection, contents, [place.id]).get(place.id):
        raise InvalidParameter("id", str(place.uuid), f"{called} still has {', '.join(left)}")
    release_place(connection, place)
    remove_rows(connection, [place])
    record_event(connection, caller, event, f"deleted {called}", subject(kind, place))
