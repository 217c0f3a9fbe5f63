"""Commands of alerts for operators: list, archive and delete."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Parameter, WireType, integer, string, uuid, uuids
from bulkdeploy.declare.response_fields import moment, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination
from bulkdeploy.store.jobs import alerts
from bulkdeploy.store.rows.listing import Page

ALERT = Response(
    "alert",
    (
        text("id", "the alert"),
        number(
            "type",
            "the number of the alert type, as in CloudStack: 7 host, 8 virtual machines, 14 management server",
        ),
        text("name", "the name of the alert type, such as ALERT.COMPUTE.HOST"),
        text("description", "a description of the problem and of what to do"),
        moment("sent", "when the problem was first noticed"),
    ),
)

INFRASTRUCTURE = frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN})

HIGHEST_TYPE = 2**15 - 1
"""The largest number of an alert type. The database stores it in two bytes."""

CHOOSING = ("ids", "type", "startdate", "enddate")

WHICH = (
    uuids("ids", Entity.ALERT, "the ids of the alerts"),
    integer("type", "only alerts of this type", minimum=0, maximum=HIGHEST_TYPE),
    Parameter("startdate", WireType.DATE, "only alerts from this day or time on"),
    Parameter("enddate", WireType.DATE, "only alerts up to the end of this day, or up to this time"),
)


def list_alerts(call: Call) -> Page:
    """Return the alerts that were not archived, newest first."""
    return alerts.list_alerts(call.connection, call.arguments, paging(call))


def archive_alerts(call: Call) -> None:
    """Archive the alerts that the call selects.

    Lists do not contain archived alerts.

    Raises:
        InvalidCombination: no parameter selects alerts.
    """
    alerts.archive_alerts(call.connection, _chosen(call))


def delete_alerts(call: Call) -> None:
    """Delete the alerts that the call selects, including archived alerts.

    Raises:
        InvalidCombination: no parameter selects alerts.
    """
    alerts.delete_alerts(call.connection, _chosen(call))


def _chosen(call: Call) -> dict[str, object]:
    chosen = {name: call.arguments[name] for name in CHOOSING if call.arguments.get(name) is not None}
    if not chosen:
        raise InvalidCombination(
            CHOOSING, f"At least one of these parameters must select alerts: {', '.join(CHOOSING)}"
        )
    return chosen


COMMANDS = (
    Command(
        name="listAlerts",
        description="Lists alerts for operators, such as hosts that do not answer, newest first",
        handler=list_alerts,
        shape=Shape.LIST,
        response=ALERT,
        roles=INFRASTRUCTURE,
        parameters=(
            uuid("id", Entity.ALERT, "only this alert"),
            string("name", "only alerts of this name, such as ALERT.COMPUTE.HOST"),
            integer("type", "only alerts of this type", minimum=0, maximum=HIGHEST_TYPE),
            *PAGING,
        ),
    ),
    Command(
        name="archiveAlerts",
        description="Archives alerts, so that listAlerts does not return them any more",
        handler=archive_alerts,
        shape=Shape.SUCCESS,
        roles=INFRASTRUCTURE,
        changes_state=True,
        parameters=WHICH,
    ),
    Command(
        name="deleteAlerts",
        description="Deletes alerts",
        handler=delete_alerts,
        shape=Shape.SUCCESS,
        roles=INFRASTRUCTURE,
        changes_state=True,
        parameters=WHICH,
    ),
)
