"""The volumes that the service put on a storage pool."""

from sqlalchemy import Connection, literal, select

from bulkdeploy.store.rows.filters import Arguments, Filters, filtered, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.offerings import templates
from bulkdeploy.store.tables.virtual_machines import volumes


def list_objects(connection: Connection, pool_id: int, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the volumes in a pool, ordered by id. The name of a volume there is its uuid."""
    volume = volumes.c
    query = (
        select(
            volume.uuid.label("name"),
            literal(value=False).label("isdirectory"),
            volume.size_bytes.label("size"),
            volume.uuid.label("volumeid"),
            volume.name.label("volumename"),
            templates.c.uuid.label("templateid"),
            templates.c.name.label("templatename"),
            templates.c.format,
            volume.created.label("lastupdated"),
        )
        .outerjoin(templates, templates.c.id == volume.template_id)
        .where(volume.pool_id == pool_id, volume.state == "Ready", volume.removed.is_(None))
        .order_by(volume.id)
    )
    filters: Filters = {"keyword": keyword(volume.name)}
    return fetch_page(connection, filtered(query, filters, arguments), paging)
