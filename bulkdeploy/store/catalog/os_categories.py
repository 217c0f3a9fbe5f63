"""The list query of categories of guest OS types."""

from sqlalchemy import Connection, select

from bulkdeploy.store.filters import Arguments, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.offerings import os_categories

FILTERS: Filters = {
    "id": by_id(os_categories.c.id),
    "name": same_text(os_categories.c.name),
    "keyword": keyword(os_categories.c.name),
}


def list_os_categories(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """One page of OS categories by id."""
    query = select(os_categories.c.uuid.label("id"), os_categories.c.name).order_by(os_categories.c.id)
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
