"""The domains and zones of an offering, as columns, filters, visibility and rows.

Both kinds of offerings keep them as arrays of ids; an empty one means everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Text, any_, cast, func, literal_column, or_, select, true
from sqlalchemy.dialects.postgresql import aggregate_order_by

from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.rows.filters import Condition, Filter, id_in, same_text
from bulkdeploy.store.rows.live_rows import Fields, reader
from bulkdeploy.store.rows.visibility import open_to_domain
from bulkdeploy.store.tables.accounts import domains
from bulkdeploy.store.tables.topology import zones


@dataclass(frozen=True, slots=True)
class Wanted:
    """A selection of offerings in addition to a list's filters.

    The default selects all offerings that the caller may use.

    Attributes:
        own_of: the id of a domain whose own offerings they must be, and its lineage.
        recursive: or those of a domain below it.
        from_below: admins of domains also see offerings of the domains below theirs.
        usable_in: lineages of domains whose accounts may use them, all of these.
        zone_ids: zones that they are offered in, all of these.
        template_bytes: a template's size, which their root disk should hold; of service offerings only.
        hidden: also those that are inactive or not displayed, as to who has just changed one.
    """

    own_of: tuple[int, str] | None = None
    recursive: bool = False
    from_below: bool = True
    usable_in: tuple[str, ...] = ()
    zone_ids: tuple[int, ...] = ()
    template_bytes: int | None = None
    hidden: bool = False

    def conditions(self, offerings: Table) -> list[Condition]:
        """Return the conditions that the offerings must meet."""
        found: list[Condition] = []
        if self.own_of is not None:
            mine = (
                domains.c.lineage.startswith(self.own_of[1]) if self.recursive else domains.c.id == self.own_of[0]
            )
            found.append(select(1).where(domains.c.id == any_(offerings.c.domain_ids), mine).exists())
        found += [open_to_domain(offerings.c.domain_ids, lineage, below=False) for lineage in self.usable_in]
        places = offerings.c.zone_ids
        found += [or_(func.cardinality(places) == 0, any_(places) == zone_id) for zone_id in self.zone_ids]
        return found


ANY_STATE = "all"
"""The value of ``state`` that lists offerings in any state."""


def in_state(column: ColumnElement[Any]) -> Filter:
    """Return the filter of a ``state`` parameter: offerings in this state, or in any."""
    of_one = same_text(column)
    return lambda state: true() if state == ANY_STATE else of_one(state)


def place_columns(offerings: Table) -> tuple[ColumnElement[Any], ...]:
    """``domainid domain zoneid zone``: uuids and names joined by commas; absent where it is offered everywhere."""
    return (
        _joined(domains, domains.c.uuid, offerings.c.domain_ids).label("domainid"),
        _joined(domains, domains.c.name, offerings.c.domain_ids).label("domain"),
        _joined(zones, zones.c.uuid, offerings.c.zone_ids).label("zoneid"),
        _joined(zones, zones.c.name, offerings.c.zone_ids).label("zone"),
    )


def read_offerings(connection: Connection, entity: Entity, fields: Fields) -> list[dict[str, Any]]:
    """Return every live offering of a kind as the parameters that create it, with only live domains and zones.

    ``_offered`` is False if all of the offering's domains or zones were deleted, so that no account can use it.
    """
    live = {
        name: set(connection.execute(select(table.c.id).where(table.c.removed.is_(None))).scalars())
        for name, table in (("domainid", domains), ("zoneid", zones))
    }
    rows = reader(entity, fields)(connection)
    for row in rows:
        row["_offered"] = True
        for name, ids in live.items():
            left = [one for one in row[name] if one in ids]
            row["_offered"] = row["_offered"] and bool(left) is bool(row[name])
            row[name] = left or row[name]
    return rows


def domain_lineages(connection: Connection, domain_ids: Iterable[int]) -> dict[int, str]:
    """Return the lineages of these domains by id."""
    query = select(domains.c.id, domains.c.lineage).where(id_in(domains.c.id, domain_ids))
    return {row.id: row.lineage for row in connection.execute(query)}


def offered_to(offerings: Table, caller: Caller, *, from_below: bool = True) -> Condition:
    """Return the condition for offerings that the caller sees.

    These are public offerings and those of the caller's domain and the domains above it. Domain admins also see the
    offerings of their subdomains unless ``from_below`` is False.
    """
    if caller.is_root_admin:
        return true()
    below = from_below and caller.role_type is not RoleType.USER
    return open_to_domain(offerings.c.domain_ids, caller.owner.lineage, below=below)


def _joined(table: Table, column: ColumnElement[Any], ids: ColumnElement[Any]) -> ColumnElement[Any]:
    texts = func.string_agg(
        cast(column, Text), aggregate_order_by(literal_column("','", Text), func.array_position(ids, table.c.id))
    )
    return select(texts).where(table.c.id == any_(ids)).scalar_subquery()
