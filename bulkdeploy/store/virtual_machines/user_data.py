"""The list query of registered user data, and its rows."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.accounts import accounts
from bulkdeploy.store.tables.groups import user_data
from bulkdeploy.store.tables.offerings import templates

FILTERS: Filters = {
    "id": by_id(user_data.c.id),
    "name": same_text(user_data.c.name),
    "keyword": keyword(user_data.c.name),
}

FIELDS: Fields = {"name": user_data.c.name, "userdata": user_data.c.content, "params": user_data.c.params}


def read_user_data(connection: Connection, user_data_id: int) -> Row[Any]:
    """Return the row of registered user data: its owner (account_id), its content, and the time of its removal."""
    return connection.execute(select(user_data).where(user_data.c.id == user_data_id)).one()


def templates_with(connection: Connection, user_data_ids: Collection[int]) -> dict[int, str]:
    """Return a text that names a live template or ISO to which user data is linked, by the id of the user data.

    User data that is linked to no live template or ISO is omitted.
    """
    template = templates.c
    query = select(template.user_data_id, template.kind, template.name)
    rows = connection.execute(query.where(id_in(template.user_data_id, user_data_ids), template.removed.is_(None)))
    return {row.user_data_id: f"{row.kind} {row.name}" for row in rows}


def list_user_data(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of registered user data, ordered by id. The content is base64-encoded."""
    data = user_data.c
    query = (
        select(
            data.uuid.label("id"),
            data.name,
            data.content.label("userdata"),
            data.params,
            accounts.c.uuid.label("accountid"),
            *owner_columns(),
            *annotation_columns(Entity.USER_DATA),
        )
        .select_from(with_owner(user_data, data.account_id))
        .where(data.removed.is_(None), visibility.condition())
        .order_by(data.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
