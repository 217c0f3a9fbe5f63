"""Where an offering is offered: domains and zones, as columns, filters and visibility.

Both kinds of offerings keep them as arrays of ids; an empty one means everywhere.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Text, any_, cast, func, literal_column, select, true
from sqlalchemy.dialects.postgresql import aggregate_order_by

from bulkdeploy.domain.accounts import Caller, RoleType
from bulkdeploy.store.filters import Condition, id_in
from bulkdeploy.store.tables.accounts import domains
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.visibility import open_to_domain


def place_columns(offerings: Table) -> tuple[ColumnElement[Any], ...]:
    """``domainid domain zoneid zone``: uuids and names joined by commas; absent where it is offered everywhere."""
    return (
        _joined(domains, domains.c.uuid, offerings.c.domain_ids).label("domainid"),
        _joined(domains, domains.c.name, offerings.c.domain_ids).label("domain"),
        _joined(zones, zones.c.uuid, offerings.c.zone_ids).label("zoneid"),
        _joined(zones, zones.c.name, offerings.c.zone_ids).label("zone"),
    )


def lineages(connection: Connection, domain_ids: Iterable[int]) -> list[str]:
    """The lineages of these domains."""
    return list(connection.execute(select(domains.c.lineage).where(id_in(domains.c.id, domain_ids))).scalars())


def offered_to(offerings: Table, caller: Caller) -> Condition:
    """What the caller may use: what is public, of its domain or of one above; admins see those below, too."""
    if caller.is_root_admin:
        return true()
    below = caller.role_type is not RoleType.USER
    return open_to_domain(offerings.c.domain_ids, caller.owner.lineage, below=below)


def offered_in(offerings: Table, domain_id: int, lineage: str, *, recursive: bool) -> Condition:
    """Offerings that are a domain's own, or with ``recursive`` of one below it."""
    mine = domains.c.lineage.startswith(lineage) if recursive else domains.c.id == domain_id
    named = select(1).where(domains.c.id == any_(offerings.c.domain_ids), mine)
    return named.exists()


def _joined(table: Table, column: ColumnElement[Any], ids: ColumnElement[Any]) -> ColumnElement[Any]:
    texts = func.string_agg(
        cast(column, Text), aggregate_order_by(literal_column("','", Text), func.array_position(ids, table.c.id))
    )
    return select(texts).where(table.c.id == any_(ids)).scalar_subquery()
