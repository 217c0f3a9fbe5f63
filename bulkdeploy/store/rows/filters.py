"""Filters of list queries: the condition for each parameter.

Each list's store module has a table of filters, ``{"zoneid": by_id(hosts.c.zone_id), ...}``. ``filtered`` adds the
conditions of the parameters that a call has. Values are bound arguments: entity references, tuples of references,
texts, numbers, flags.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    Table,
    TableValuedAlias,
    Text,
    any_,
    bindparam,
    cast,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
)

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.store.database.arrays import RECORD_SEPARATOR, int_array
from bulkdeploy.store.tables.groups import resource_tags

Condition: TypeAlias = ColumnElement[bool]
Filter: TypeAlias = Callable[[Any], Condition]
Filters: TypeAlias = Mapping[str, Filter]
Arguments: TypeAlias = Mapping[str, Any]


def filtered(query: Select[Any], filters: Filters, arguments: Arguments) -> Select[Any]:
    """Return the query with the condition of every filter whose parameter is in ``arguments``."""
    for name, condition in filters.items():
        if name in arguments:
            query = query.where(condition(arguments[name]))
    return query


def id_in(column: ColumnElement[Any], ids: Iterable[int]) -> Condition:
    """Return the condition that ``column`` is one of the ids, which are passed as one parameter."""
    values = bindparam(None, int_array(ids), Text, unique=True)
    return column.in_(select(func.unnest(cast(values, ARRAY(BigInteger)))))


def by_id(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a UUID parameter: the column contains the internal id of the given entity."""

    def condition(ref: EntityRef) -> Condition:
        return column == ref.id

    return condition


def by_ids(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a LIST of UUID parameter: the column contains one of the ids."""

    def condition(refs: Iterable[EntityRef]) -> Condition:
        return id_in(column, [ref.id for ref in refs])

    return condition


def equal(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a number, a flag or a text that must be equal to the column. Case matters."""

    def condition(value: object) -> Condition:
        # A number is sent in its own width, so a number too large for the column matches nothing without an error.
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return column == (literal(value, BigInteger) if is_number else value)

    return condition


def same_text(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a text that must be equal to the column, ignoring case, as in CloudStack."""

    def condition(value: str) -> Condition:
        return func.lower(column) == value.lower()

    return condition


def always(value: object) -> Filter:
    """Return the filter for a parameter whose value is the same for all rows.

    It selects all rows if the parameter has this value, ignoring case, and no row otherwise.
    """

    def condition(wanted: object) -> Condition:
        return true() if str(wanted).lower() == str(value).lower() else false()

    return condition


def same_uuid(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a text that is compared with a uuid column. A text that is no uuid matches nothing."""

    def condition(value: str) -> Condition:
        try:
            return column == UUID(value)
        except ValueError:
            return false()

    return condition


def keyword(*columns: ColumnElement[Any]) -> Filter:
    """Return the filter for a text that occurs in one of the columns, ignoring case.

    The columns are joined to one text that is searched with ``strpos``. LIKE takes a quarter more time. ILIKE,
    which converts the keyword to lower case for each row, and one search per column take even more.
    """
    whole = columns[0] if len(columns) == 1 else func.concat_ws(RECORD_SEPARATOR, *columns)

    def condition(value: str) -> Condition:
        return func.strpos(func.lower(whole), func.lower(value)) > 0

    return condition


def ref_in_array(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a UUID parameter: an ARRAY column is empty (unrestricted) or contains the id."""

    def condition(ref: EntityRef) -> Condition:
        return or_(func.cardinality(column) == 0, any_(column) == ref.id)

    return condition


def pairs_of(pairs: Iterable[tuple[str, str | None]]) -> TableValuedAlias:
    """Return pairs of key and value as an SQL table ``wanted``.

    The statement is the same for any number of pairs.
    """
    found = list(pairs)
    keys, values = ([pair[at] for pair in found] for at in (0, 1))
    arrays = (bindparam(None, each, ARRAY(Text), unique=True) for each in (keys, values))
    return func.unnest(*arrays).table_valued("key", "value", name="wanted").render_derived()


def tagged(resource_type: str, resource_id: ColumnElement[Any]) -> Filter:
    """Return the filter for the ``tags`` parameter: the resource has every given key and value.

    A key without a value matches any value. The statement is the same for any number of tags. With one condition
    per tag, planning a statement with 400 tags took minutes.
    """

    def condition(pairs: Iterable[Mapping[str, str]]) -> Condition:
        wanted = pairs_of([(pair.get("key", ""), pair.get("value")) for pair in pairs])
        carried = exists(
            select(1)
            .select_from(resource_tags)
            .where(
                resource_tags.c.resource_type == resource_type,
                resource_tags.c.resource_id == resource_id,
                resource_tags.c.key == wanted.c.key,
                or_(wanted.c.value.is_(None), resource_tags.c.value == wanted.c.value),
            )
            .correlate_except(resource_tags)
        )
        return ~exists(select(1).select_from(wanted).where(~carried).correlate_except(wanted))

    return condition


def linked(link: Table, resource: str, resource_id: ColumnElement[Any], other: str) -> Filter:
    """Return the filter for a UUID parameter: a link table connects the resource with the given entity.

    ``resource`` and ``other`` are the columns of ``link`` with the ids of the resource and of the entity.
    """

    def condition(ref: EntityRef) -> Condition:
        return exists(select(1).where(link.c[resource] == resource_id, link.c[other] == ref.id))

    return condition


def has_all(column: ColumnElement[Any]) -> Filter:
    """Return the filter for a LIST of STRING parameter: a JSONB array contains all of the texts."""

    def condition(values: Iterable[str]) -> Condition:
        return column.op("?&")(bindparam(None, list(values), ARRAY(Text), unique=True))

    return condition
