"""The declaration of a command's parameter: its name, wire type, bounds and the entities to which it refers.

``declare.binding`` converts declarations to marshmallow schemas and binds requests with them. ``declare.discovery``
renders them for listApis.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bulkdeploy.declare.value_rules import ValueRule
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import SECRET_PARAMETERS


class WireType(StrEnum):
    """The types of parameters, by their names in listApis. cloudstack-protocol.md 1.2 has their rules."""

    UUID = "uuid"
    STRING = "string"
    INTEGER = "integer"
    LONG = "long"
    SHORT = "short"
    FLOAT = "float"
    BOOLEAN = "boolean"
    LIST = "list"
    MAP = "map"
    DATE = "date"
    TZDATE = "tzdate"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter.

    Attributes:
        name: the name in listApis; matching ignores case.
        type: the wire type; ``element`` is the type of a LIST's elements.
        entity: for UUID (and LIST of UUID): the kinds of entities that the id may name. The first kind with the id
            is used.
        required: whether an absent parameter is an error. An empty value is another error.
        length: the maximum length of a text, in characters (STRING, and each element of a LIST of STRING).
        minimum, maximum: the inclusive bounds of numbers.
        unit: the number of bytes of one unit of a whole number that may be written as a size, such as ``512 GiB``.
        choices: the accepted values of a STRING, a BOOLEAN or of each element of a LIST of STRING. They are matched
            in any case and bound in this spelling.
        roles: the role types that may set the parameter. It is silently ignored from other callers, as in
            CloudStack.
        since: if set, a UUID parameter whose value is not a UUID is treated as absent, as in CloudStack.
        takes_all: whether an id may be -1, which means all entities and is bound to ``binding.everything``.
        rule: the rule for a STRING, or for each element of a LIST of STRING.
        clearable: whether a STRING may be empty, which means no value, regardless of its rule.
        fields: the allowed fields of the entries of a MAP, in lower case, each with the entity that it names by id,
            or None. If empty, all fields are allowed.
        spellings: other accepted names of the parameter, in lower case.
        listed: whether the entries of a MAP are like the parameters of a call and may also be given as one JSON
            list. They are bound to texts by name, by index; ``minimum`` and ``maximum`` are bounds of their number.
        local: whether a DATE without a time zone is bound to a datetime without time zone; otherwise it is in UTC.
        resolved: whether a UUID is bound to the entity that it names. Otherwise it is bound to its text, for a
            handler that finds the entity and its data in one statement.
    """

    name: str
    type: WireType
    description: str
    required: bool = False
    length: int = 255
    since: str | None = None
    element: WireType | None = None
    entity: tuple[Entity, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    unit: int | None = None
    choices: tuple[str, ...] = ()
    roles: frozenset[RoleType] = EVERY_ROLE
    takes_all: bool = False
    rule: ValueRule | None = None
    clearable: bool = False
    fields: tuple[tuple[str, Entity | None], ...] = ()
    spellings: tuple[str, ...] = ()
    listed: bool = False
    local: bool = False
    resolved: bool = True

    @property
    def is_secret(self) -> bool:
        """Return whether the value of the parameter must not occur in errors, logs, events and job results.

        Its name decides.
        """
        return self.type is WireType.STRING and self.name in SECRET_PARAMETERS


@dataclass(frozen=True, slots=True)
class Exclusive:
    """A rule: at most one of these parameters may be given."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """A rule: the parameter ``name`` may be given only with ``other``. A flag that is false counts as not given."""

    name: str
    other: str


@dataclass(frozen=True, slots=True)
class ExactlyOne:
    """A rule: exactly one of these parameters must be given."""

    names: tuple[str, ...]


Rule = Exclusive | Needs | ExactlyOne


def uuid(
    name: str,
    entity: Entity,
    description: str,
    *,
    required: bool = False,
    since: str | None = None,
    roles: frozenset[RoleType] = EVERY_ROLE,
    takes_all: bool = False,
    resolved: bool = True,
) -> Parameter:
    """Return the declaration of a parameter that is the id of one kind of entity."""
    return Parameter(
        name,
        WireType.UUID,
        description,
        required=required,
        entity=(entity,),
        since=since,
        roles=roles,
        # As a filter, -1 means all projects; a required project must be one project.
        takes_all=takes_all or (name == "projectid" and not required),
        resolved=resolved,
    )


def uuids(name: str, entity: Entity, description: str, *, takes_all: bool = False) -> Parameter:
    """Return the declaration of a parameter that is a comma-separated list of ids of one kind of entity."""
    return Parameter(name, WireType.LIST, description, element=WireType.UUID, entity=(entity,), takes_all=takes_all)


def string(
    name: str,
    description: str,
    *,
    required: bool = False,
    length: int = 255,
    choices: tuple[str, ...] = (),
    since: str | None = None,
    rule: ValueRule | None = None,
    clearable: bool = False,
) -> Parameter:
    """Return the declaration of a text of at most ``length`` characters that satisfies ``rule``."""
    return Parameter(
        name,
        WireType.STRING,
        description,
        required=required,
        length=length,
        choices=choices,
        since=since,
        rule=rule,
        clearable=clearable,
    )


def strings(
    name: str, description: str, *, choices: tuple[str, ...] = (), rule: ValueRule | None = None
) -> Parameter:
    """Return the declaration of a parameter that is a comma-separated list of texts.

    ``rule`` applies to each text.
    """
    return Parameter(name, WireType.LIST, description, element=WireType.STRING, choices=choices, rule=rule)


def integer(
    name: str,
    description: str,
    *,
    required: bool = False,
    minimum: int | None = None,
    maximum: int | None = None,
    unit: int | None = None,
    since: str | None = None,
) -> Parameter:
    """Return the declaration of a 32-bit integer."""
    return Parameter(
        name,
        WireType.INTEGER,
        description,
        required=required,
        minimum=minimum,
        maximum=maximum,
        unit=unit,
        since=since,
    )


def long(
    name: str,
    description: str,
    *,
    required: bool = False,
    minimum: int | None = None,
    maximum: int | None = None,
    unit: int | None = None,
) -> Parameter:
    """Return the declaration of a 64-bit integer."""
    return Parameter(
        name, WireType.LONG, description, required=required, minimum=minimum, maximum=maximum, unit=unit
    )


def boolean(
    name: str, description: str, *, since: str | None = None, roles: frozenset[RoleType] = EVERY_ROLE
) -> Parameter:
    """Declare a flag: ``true`` in any case is true; everything else is false and never an error."""
    return Parameter(name, WireType.BOOLEAN, description, since=since, roles=roles)


def only_true(name: str, description: str) -> Parameter:
    """Return the declaration of a flag whose only valid value is true."""
    return Parameter(name, WireType.BOOLEAN, description, choices=("true",))


def mapping(name: str, description: str, fields: tuple[tuple[str, Entity | None], ...] = ()) -> Parameter:
    """Return the declaration of a MAP: ``name[0].field=value`` pairs, grouped by index.

    ``fields`` are the allowed fields, each with the entity that it names by id, or None.
    """
    return Parameter(name, WireType.MAP, description, fields=fields)


def entries(name: str, description: str, *, maximum: int) -> Parameter:
    """Return the declaration of a list whose entries are like calls.

    The entries are given as ``name[0].parameter=value`` pairs or as one JSON list.
    """
    return Parameter(name, WireType.MAP, description, required=True, listed=True, minimum=1, maximum=maximum)


def details_of(given: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the details in the entries of a MAP parameter as one dictionary.

    The forms ``details[0].key=a&details[0].value=b`` and ``details[0].a=b`` are equivalent.
    """
    found: dict[str, str] = {}
    for entry in given:
        if "key" in entry:
            found[entry["key"]] = entry.get("value", "")
        else:
            found.update(entry)
    return found
