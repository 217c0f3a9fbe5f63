"""The rows of regions and their list query."""

from collections.abc import Mapping

from sqlalchemy import Connection, delete, exists, select, update
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.store.rows.filters import Arguments, Filters, equal, filtered, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.tables.topology import regions

LOCAL = 1
"""The number of this installation's own region."""

COLUMNS = {"name": "name", "endpoint": "end_point"}
"""The columns by the parameters that set them."""

FILTERS: Filters = {
    "id": equal(regions.c.id),
    "name": same_text(regions.c.name),
    "keyword": keyword(regions.c.name),
}


def list_regions(connection: Connection, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of regions, ordered by number."""
    query = select(regions.c.id, regions.c.name, regions.c.end_point.label("endpoint")).order_by(regions.c.id)
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def find_region(connection: Connection, number: int) -> str | None:
    """Lock a region and return its name, or None if there is no such region."""
    query = select(regions.c.name).where(regions.c.id == number).with_for_update()
    return connection.execute(query).scalar()


def insert_region(connection: Connection, number: int, name: str, end_point: str) -> bool:
    """Write a region. Returns False, and writes nothing, if a region has the number or the name."""
    made = insert(regions).values(id=number, name=name, end_point=end_point).on_conflict_do_nothing()
    return connection.execute(made.returning(regions.c.id)).first() is not None


def update_region(connection: Connection, number: int, values: Mapping[str, str]) -> bool:
    """Set columns of a region. Returns False, and changes nothing, if another region has the new name."""
    changed = update(regions).where(regions.c.id == number).values(**values)
    if "name" in values:
        other = regions.alias()
        changed = changed.where(~exists().where(other.c.name == values["name"], other.c.id != number))
    return connection.execute(changed).rowcount == 1


def delete_region(connection: Connection, number: int) -> None:
    """Delete the row of a region."""
    connection.execute(delete(regions).where(regions.c.id == number))
