"""The list query of roles."""

from sqlalchemy import Connection, select

from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.accounts import roles

FILTERS: Filters = {
    "id": by_id(roles.c.id),
    "name": same_text(roles.c.name),
    "keyword": keyword(roles.c.name, roles.c.description),
    "type": same_text(roles.c.role_type),
}


def list_roles(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """One page of roles by id."""
    role = roles.c
    query = (
        select(
            role.uuid.label("id"),
            role.name,
            role.role_type.label("type"),
            role.description,
            role.is_default.label("isdefault"),
            role.created,
        )
        .where(role.removed.is_(None))
        .order_by(role.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
