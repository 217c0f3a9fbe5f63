"""The list query of guest OS types."""

from sqlalchemy import Connection, select

from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, by_ids, equal, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.offerings import os_categories, os_types

FILTERS: Filters = {
    "id": by_id(os_types.c.id),
    "ids": by_ids(os_types.c.id),
    "description": same_text(os_types.c.name),
    "keyword": keyword(os_types.c.name),
    "fordisplay": equal(os_types.c.display),
    "oscategoryid": by_id(os_types.c.category_id),
}


FIELDS: Fields = {
    "osdisplayname": os_types.c.name,
    "oscategoryid": os_types.c.category_id,
    "fordisplay": os_types.c.display,
}


def list_os_types(connection: Connection, arguments: Arguments, paging: Paging, *, hidden: bool) -> Page:
    """Return one page of OS types, ordered by id. OS types that are not displayed are listed only with ``hidden``.

    CloudStack calls the name of an OS type its description.
    """
    query = (
        select(
            os_types.c.uuid.label("id"),
            os_types.c.name,
            os_types.c.name.label("description"),
            os_categories.c.uuid.label("oscategoryid"),
            os_categories.c.name.label("oscategoryname"),
            os_types.c.user_defined.label("isuserdefined"),
            os_types.c.display.label("fordisplay"),
        )
        .select_from(os_types.outerjoin(os_categories, os_categories.c.id == os_types.c.category_id))
        .where(os_types.c.removed.is_(None))
        .order_by(os_types.c.id)
    )
    if not hidden:
        query = query.where(os_types.c.display)
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
