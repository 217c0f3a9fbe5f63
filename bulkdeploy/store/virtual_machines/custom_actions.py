"""The list query of custom actions, and the row of an action that is to run."""

from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, any_, literal, select

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.custom_actions import custom_actions

ACTION = custom_actions.c

FIELDS: Fields = {
    "name": ACTION.name,
    "description": ACTION.description,
    "successmessage": ACTION.success_message,
    "errormessage": ACTION.error_message,
    "timeout": ACTION.timeout_seconds,
    "enabled": ACTION.enabled,
}

FILTERS: Filters = {
    "id": by_id(ACTION.id),
    "name": same_text(ACTION.name),
    "keyword": keyword(ACTION.name),
    "enabled": equal(ACTION.enabled),
    "resourcetype": same_text(ACTION.resource_type),
}


def list_custom_actions(
    connection: Connection,
    caller: Caller,
    extension: tuple[UUID, str],
    arguments: Arguments,
    paging: Paging,
) -> Page:
    """Return one page of actions, ordered by id. Callers other than root admins see those that they may run.

    ``extension`` is the id and the name of the extension to which the actions belong.
    """
    query = select(*_columns(extension)).where(ACTION.removed.is_(None)).order_by(ACTION.id)
    if not caller.is_root_admin:
        query = query.where(literal(caller.role_type.value) == any_(ACTION.role_types))
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def _columns(extension: tuple[UUID, str]) -> tuple[ColumnElement[Any], ...]:
    uuid, name = extension
    return (
        ACTION.uuid.label("id"),
        ACTION.name,
        ACTION.description,
        literal(str(uuid)).label("extensionid"),
        literal(name).label("extensionname"),
        ACTION.resource_type.label("resourcetype"),
        ACTION.role_types.label("allowedroletypes"),
        ACTION.success_message.label("successmessage"),
        ACTION.error_message.label("errormessage"),
        ACTION.timeout_seconds.label("timeout"),
        ACTION.enabled,
        ACTION.details,
        ACTION.parameters,
        ACTION.created,
    )


def read_action(connection: Connection, action_id: int) -> Row[Any] | None:
    """Return the current row of an action, or None if it was deleted."""
    return connection.execute(
        select(custom_actions).where(ACTION.id == action_id, ACTION.removed.is_(None))
    ).first()
