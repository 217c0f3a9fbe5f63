"""The list query of categories of guest OS types."""

from sqlalchemy import Connection, exists, false, select, true

from bulkdeploy.store.rows.filters import Arguments, Condition, Filters, by_id, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.offerings import os_categories, os_types, template_zones, templates

OF_IMAGES = ("arch", "isiso", "isvnf", "zoneid")
"""Filters that leave only the categories of which there is an image."""

FILTERS: Filters = {
    "isfeatured": lambda wanted: true() if wanted else false(),
    "id": by_id(os_categories.c.id),
    "name": same_text(os_categories.c.name),
    "keyword": keyword(os_categories.c.name),
}


def list_os_categories(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of OS categories, ordered by id. Every category has ``isfeatured`` true."""
    category = os_categories.c
    query = select(category.uuid.label("id"), category.name, true().label("isfeatured")).order_by(category.id)
    if any(name in arguments for name in OF_IMAGES):
        query = query.where(_has_image(arguments))
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def _has_image(arguments: Arguments) -> Condition:
    """Return the SQL condition of the filter ``isiso``.

    Categories match if they have an ISO (``isiso`` is true) or a template (otherwise).
    """
    if arguments.get("isvnf"):
        return false()
    of_category = exists(select(1).select_from(os_types)).where(
        os_types.c.category_id == os_categories.c.id,
        templates.c.os_type_id == os_types.c.id,
        templates.c.removed.is_(None),
    )
    if "isiso" in arguments:
        of_category = of_category.where(templates.c.kind == ("iso" if arguments["isiso"] else "template"))
    if "arch" in arguments:
        of_category = of_category.where(same_text(templates.c.arch)(arguments["arch"]))
    if "zoneid" in arguments:
        of_category = of_category.where(
            template_zones.c.template_id == templates.c.id, template_zones.c.zone_id == arguments["zoneid"].id
        )
    return of_category
