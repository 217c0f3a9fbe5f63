"""Rows of VLAN ranges that are dedicated to accounts: the list query, inserts, updates and deletes."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, Text, cast, delete, insert, select, update

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, equal, filtered, id_in, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.networks import dedicated_vlan_ranges, physical_networks

RANGE = cast(dedicated_vlan_ranges.c.first_vlan, Text) + "-" + cast(dedicated_vlan_ranges.c.last_vlan, Text)

FILTERS: Filters = {
    "id": by_id(dedicated_vlan_ranges.c.id),
    "guestvlanrange": equal(RANGE),
    "physicalnetworkid": by_id(dedicated_vlan_ranges.c.physical_network_id),
    "zoneid": by_id(physical_networks.c.zone_id),
    "keyword": keyword(RANGE),
}


def list_ranges(connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the dedicated VLAN ranges of the selected owners, ordered by id."""
    one, physical = dedicated_vlan_ranges.c, physical_networks.c
    query = (
        select(
            one.uuid.label("id"),
            RANGE.label("guestvlanrange"),
            physical.id.label("physicalnetworkid"),
            physical.zone_id.label("zoneid"),
            *owner_columns(),
        )
        .select_from(
            with_owner(dedicated_vlan_ranges, one.account_id).join(
                physical_networks, physical.id == one.physical_network_id
            )
        )
        .where(visibility.condition())
        .order_by(one.id)
    )
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def ranges_of(
    connection: Connection, physical_network_ids: Collection[int], *, lock: bool = False
) -> list[Row[Any]]:
    """Return the dedicated VLAN ranges of physical networks, ordered by their first VLAN.

    If ``lock`` is true, no range can be released before the transaction ends.
    """
    one = dedicated_vlan_ranges.c
    query = select(dedicated_vlan_ranges).where(id_in(one.physical_network_id, physical_network_ids))
    query = query.order_by(one.first_vlan)
    return list(connection.execute(query.with_for_update() if lock else query))


def insert_range(
    connection: Connection, physical_network_id: int, account_id: int, first_vlan: int, last_vlan: int
) -> EntityRef:
    """Insert a dedicated VLAN range, and return its reference."""
    values = {
        "physical_network_id": physical_network_id,
        "account_id": account_id,
        "first_vlan": first_vlan,
        "last_vlan": last_vlan,
    }
    one = dedicated_vlan_ranges.c
    row = connection.execute(insert(dedicated_vlan_ranges).values(values).returning(one.id, one.uuid)).one()
    return _ref(row)


def extend_range(connection: Connection, row: Row[Any], first_vlan: int, last_vlan: int) -> EntityRef:
    """Change the limits of a dedicated VLAN range, and return its reference."""
    changed = update(dedicated_vlan_ranges).where(dedicated_vlan_ranges.c.id == row.id)
    connection.execute(changed.values(first_vlan=first_vlan, last_vlan=last_vlan))
    return _ref(row)


def delete_ranges(connection: Connection, range_ids: Collection[int]) -> list[Row[Any]]:
    """Delete dedicated VLAN ranges, and return the deleted rows."""
    removal = delete(dedicated_vlan_ranges).where(id_in(dedicated_vlan_ranges.c.id, range_ids))
    return list(connection.execute(removal.returning(dedicated_vlan_ranges)))


def _ref(row: Row[Any]) -> EntityRef:
    return EntityRef(Entity.DEDICATED_VLAN_RANGE, row.id, row.uuid, str(row.uuid))
