"""The list query of guest OS types."""

from sqlalchemy import Connection, select

from bulkdeploy.store.filters import Arguments, Filters, always, by_id, by_ids, filtered, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.offerings import os_categories, os_types

FILTERS: Filters = {
    "id": by_id(os_types.c.id),
    "ids": by_ids(os_types.c.id),
    "description": same_text(os_types.c.name),
    "keyword": keyword(os_types.c.name),
    "fordisplay": always(True),
    "oscategoryid": by_id(os_types.c.category_id),
}


def list_os_types(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """One page of OS types by id; CloudStack calls their name a description."""
    query = (
        select(
            os_types.c.uuid.label("id"),
            os_types.c.name,
            os_types.c.name.label("description"),
            os_categories.c.uuid.label("oscategoryid"),
            os_categories.c.name.label("oscategoryname"),
        )
        .select_from(os_types.outerjoin(os_categories, os_categories.c.id == os_types.c.category_id))
        .order_by(os_types.c.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
