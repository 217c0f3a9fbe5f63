"""The common part of deleting zones, pods and clusters."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.live_entities import deleted_events, lock_entities, noun
from bulkdeploy.store.infrastructure.dedications import release_places
from bulkdeploy.store.jobs.events import record_events
from bulkdeploy.store.rows.live_rows import Contents, remove_rows, what_hangs_on


def delete_places(
    connection: Connection,
    caller: Caller,
    places: Sequence[EntityRef],
    contents: Contents,
    event: EventType,
    kind: str,
) -> None:
    """Delete empty zones, pods or clusters, which all have the same type, and their dedications.

    ``contents`` lists the kinds of objects, by name, that prevent the deletion.

    Raises:
        InvalidParameter: an object is not empty, or was deleted already.
    """
    lock_entities(connection, places)
    left = what_hangs_on(connection, contents, [place.id for place in places])
    for place in places:
        if place.id in left:
            rule = f"{noun(place.entity)} {place.name} still has {', '.join(left[place.id])}"
            raise InvalidParameter("id", str(place.uuid), rule)
    release_places(connection, places)
    remove_rows(connection, places)
    record_events(connection, caller, deleted_events(event, kind, places))
