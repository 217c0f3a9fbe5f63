"""The domains and zones to which an offering is restricted: columns, filters, visibility and rows.

Each kind of offering stores its domains and its zones as arrays of ids. An empty array means no restriction.
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
        own_of: the id and the lineage of a domain; selects the offerings that are restricted to this domain.
        recursive: also select the offerings that are restricted to subdomains of ``own_of``.
        from_below: show domain admins the offerings of their subdomains, too.
        usable_in: lineages of domains; selects offerings that the accounts of each of these domains may use.
        zone_ids: selects offerings that are available in each of these zones.
        template_bytes: selects service offerings with root disks at least as large as a template of this size in
            bytes.
        hidden: also select offerings that are inactive or not displayed.
    """

    own_of: tuple[int, str] | None = None
    recursive: bool = False
    from_below: bool = True
    usable_in: tuple[str, ...] = ()
    zone_ids: tuple[int, ...] = ()
    template_bytes: int | None = None
    hidden: bool = False

    def conditions(self, offerings: Table) -> list[Condition]:
        """Return the SQL conditions for ``own_of``, ``usable_in`` and ``zone_ids``.

        The caller applies the other attributes.
        """
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
    """Return the filter for the parameter ``state``: it selects offerings in that state, or all for ANY_STATE."""
    of_one = same_text(column)
    return lambda state: true() if state == ANY_STATE else of_one(state)


def place_columns(offerings: Table) -> tuple[ColumnElement[Any], ...]:
    """Return the columns ``domainid``, ``domain``, ``zoneid`` and ``zone``: uuids and names, joined by commas.

    A column is NULL if the offering is not restricted to domains or zones.
    """
    return (
        _joined(domains, domains.c.uuid, offerings.c.domain_ids).label("domainid"),
        _joined(domains, domains.c.name, offerings.c.domain_ids).label("domain"),
        _joined(zones, zones.c.uuid, offerings.c.zone_ids).label("zoneid"),
        _joined(zones, zones.c.name, offerings.c.zone_ids).label("zone"),
    )


def read_offerings(connection: Connection, entity: Entity, fields: Fields) -> list[dict[str, Any]]:
    """Return every live offering of a kind as the parameters that create it.

    Deleted domains and zones are removed from the parameters. ``_offered`` is False if all of the offering's
    domains or all of its zones were deleted, so that no account can use it; then the deleted ones are returned.
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
