"""Operations that archive and delete events of the caller, and for admins also the events of all accounts below.

If ids are given, the caller must be allowed to access all of them. Type and dates select among the accessible
events.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import InvalidCombination, PermissionDenied
from bulkdeploy.services.ownership import OwnerParameters, visibility
from bulkdeploy.store.jobs import events

CHOOSING = ("ids", "type", "startdate", "enddate")


def archive_events(connection: Connection, caller: Caller, arguments: Mapping[str, Any]) -> None:
    """Archive the events that the arguments select.

    Raises:
        InvalidCombination: neither ids nor a type nor dates are given.
        PermissionDenied: the caller may not access an event.
    """
    _change(connection, caller, arguments, delete=False)


def delete_events(connection: Connection, caller: Caller, arguments: Mapping[str, Any]) -> None:
    """Delete the events that the arguments select.

    Raises:
        InvalidCombination, PermissionDenied: under the same conditions as ``archive_events``.
    """
    _change(connection, caller, arguments, delete=True)


def _change(connection: Connection, caller: Caller, arguments: Mapping[str, Any], *, delete: bool) -> None:
    if not any(arguments.get(name) for name in CHOOSING):
        raise InvalidCombination(CHOOSING, f"at least one of these parameters must be given: {', '.join(CHOOSING)}")
    ids = arguments.get("ids")
    requested = OwnerParameters(list_all=True, by_id=ids is not None)
    chosen = events.choose(connection, visibility(connection, caller, requested), arguments)
    if ids is not None and {ref.id for ref in ids} - chosen and len(arguments) == 1:
        raise PermissionDenied(f"{caller.username} does not have permission to operate with all of these events")
    (events.delete_events if delete else events.archive_events)(connection, chosen)
