"""Operations on guest OS types that operators define: add, update and remove."""

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import (
    ONE,
    changed_events,
    deleted_events,
    lock_entity,
    only_row,
    subject,
    unique_name,
)
from bulkdeploy.store.catalog import os_types
from bulkdeploy.store.jobs.events import record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_row, columns_of, insert_row, remove_rows

COMMANDS = "org.apache.cloudstack.api.command.admin.guest"
KIND = "GuestOs"
OTHER = "another guest OS type"


def add_guest_os(connection: Connection, caller: Caller, given: Arguments) -> JobTicket:
    """Add a guest OS type.

    Raises:
        InvalidParameter: another OS type has the name.
    """
    with unique_name("osdisplayname", given["osdisplayname"], OTHER):
        ref = insert_row(connection, Entity.OS_TYPE, {**columns_of(os_types.FIELDS, given), "user_defined": True})
    record_event(connection, caller, EventType.GUEST_OS_ADD, f"added OS type {ref.name}", subject(KIND, ref))
    return _finished_job(connection, caller, "AddGuestOsCmd", ref, created=True)


def update_guest_os(connection: Connection, caller: Caller, ref: EntityRef, given: Arguments) -> JobTicket:
    """Change a guest OS type.

    Raises:
        InvalidParameter: another OS type has the name, or the OS type was removed or is not an operator's.
    """
    _lock_own(connection, ref)
    values = columns_of(os_types.FIELDS, given)
    with unique_name("osdisplayname", given.get("osdisplayname"), OTHER):
        change_row(connection, ref, values)
    record_events(connection, caller, changed_events(EventType.GUEST_OS_UPDATE, KIND, [(ref, values)]))
    return _finished_job(connection, caller, "UpdateGuestOsCmd", ref)


def remove_guest_os(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Remove a guest OS type.

    Raises:
        InvalidParameter: the OS type was removed or is not an operator's.
    """
    _lock_own(connection, ref)
    remove_rows(connection, [ref])
    record_events(connection, caller, deleted_events(EventType.GUEST_OS_REMOVE, KIND, [ref]))
    return done_with_success(connection, caller, f"{COMMANDS}.RemoveGuestOsCmd", subject(KIND, ref))


def _lock_own(connection: Connection, ref: EntityRef) -> None:
    if not lock_entity(connection, ref)["user_defined"]:
        raise InvalidParameter("id", str(ref.uuid), "only guest OS types that operators added can be changed")


def _finished_job(
    connection: Connection, caller: Caller, cmd: str, ref: EntityRef, *, created: bool = False
) -> JobTicket:
    row = only_row(os_types.list_os_types(connection, {"id": ref}, ONE, hidden=True))
    return done_with_object(
        connection, caller, f"{COMMANDS}.{cmd}", "ostype", row, subject(KIND, ref), created=created
    )
