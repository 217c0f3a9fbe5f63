"""The list query of image stores."""

from sqlalchemy import Connection, literal, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.image_stores import image_stores
from bulkdeploy.store.tables.topology import zones

OF_ONE_ZONE = "ZONE"

FILTERS: Filters = {
    "id": by_id(image_stores.c.id),
    "name": same_text(image_stores.c.name),
    "keyword": keyword(image_stores.c.name, image_stores.c.provider),
    "zoneid": by_id(image_stores.c.zone_id),
    "provider": same_text(image_stores.c.provider),
    "protocol": same_text(image_stores.c.protocol),
    "readonly": equal(image_stores.c.read_only),
}


def list_image_stores(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of image stores by id."""
    store = image_stores.c
    query = (
        select(
            store.uuid.label("id"),
            store.name,
            store.url,
            store.protocol,
            store.provider.label("providername"),
            literal(OF_ONE_ZONE).label("scope"),
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            store.read_only.label("readonly"),
            store.capacity_bytes.label("disksizetotal"),
            *annotation_columns(Entity.IMAGE_STORE),
        )
        .join(zones, zones.c.id == store.zone_id)
        .where(store.removed.is_(None))
        .order_by(store.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)
