"""Commands of events: list, archive and delete."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT, sort_by
from bulkdeploy.declare.parameters import Parameter, WireType, boolean, string, uuid, uuids
from bulkdeploy.declare.response_fields import OWNER_FIELDS, flag, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.events import EventLevel, EventState, EventType
from bulkdeploy.services.jobs import events as service
from bulkdeploy.store.jobs import events
from bulkdeploy.store.rows.listing import Page

EVENT = Response(
    "event",
    (
        text("id", "the event"),
        text("type", "the type of the event, such as VM.CREATE"),
        text("level", "INFO, WARN or ERROR"),
        text("state", "Created, Scheduled, Started or Completed"),
        text("description", "a description of the event"),
        *OWNER_FIELDS,
        text("username", "the name of the user who made the call"),
        text("parentid", "the event that began the action"),
        text("resourcetype", "the type of the resource that the event concerns"),
        text("resourceid", "the resource that the event concerns"),
        flag("archived", "whether the event was archived"),
        moment("created", "when the event occurred"),
    ),
)


def list_events(call: Call) -> Page:
    """Return events of the visible accounts, newest first.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return events.list_events(call.connection, visible(call), call.arguments, paging(call))


def list_event_types(call: Call) -> Page:  # noqa: ARG001 - every handler takes the call
    """Return all types of events."""
    return Page([{"name": kind.value} for kind in EventType], len(EventType))


def archive_events(call: Call) -> None:
    """Archive the events that the call selects.

    Lists contain archived events only on request.

    Raises:
        InvalidCombination: no parameter selects events.
        PermissionDenied: an event belongs to an account that the caller may not act for.
    """
    service.archive_events(call.connection, call.caller, call.arguments)


def delete_events(call: Call) -> None:
    """Delete the events that the call selects.

    Raises:
        InvalidCombination: no parameter selects events.
        PermissionDenied: an event belongs to an account that the caller may not act for.
    """
    service.delete_events(call.connection, call.caller, call.arguments)


WHICH = (
    uuids("ids", Entity.EVENT, "the ids of the events"),
    string("type", "only events of this type"),
    Parameter("startdate", WireType.DATE, "only events from this day or time on"),
    Parameter("enddate", WireType.DATE, "only events up to the end of this day, or up to this time"),
)

COMMANDS = (
    Command(
        name="listEvents",
        description="Lists events, newest first",
        handler=list_events,
        shape=Shape.LIST,
        response=EVENT,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.EVENT, "only this event"),
            uuid("startid", Entity.EVENT, "only this event and the other events of the same action"),
            string("type", "only events of this type"),
            string("level", "only events of this level", choices=tuple(level.value for level in EventLevel)),
            string("state", "only events in this state", choices=tuple(state.value for state in EventState)),
            Parameter("startdate", WireType.DATE, "only events from this day or time on"),
            Parameter("enddate", WireType.DATE, "only events up to the end of this day, or up to this time"),
            string("resourcetype", "only events of this type of resource, such as VirtualMachine"),
            string("resourceid", "only events of this resource"),
            boolean("archived", "true: archived events; default: events that are not archived"),
            *OWNER,
            *PROJECT,
            sort_by(events.ORDERS),
            *PAGING,
        ),
        unsupported=dict.fromkeys(("duration", "entrytime"), "use startdate and enddate to set the period"),
    ),
    Command(
        name="listEventTypes",
        description="Lists the types that events have",
        handler=list_event_types,
        shape=Shape.LIST,
        response=Response("eventtype", (text("name", "the type of events, such as VM.CREATE"),)),
    ),
    Command(
        name="archiveEvents",
        description="Archives events of the caller; for admins also events of the accounts that they administer",
        handler=archive_events,
        shape=Shape.SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=WHICH,
    ),
    Command(
        name="deleteEvents",
        description="Deletes events of the caller; for admins also events of the accounts that they administer",
        handler=delete_events,
        shape=Shape.SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=WHICH,
    ),
)
