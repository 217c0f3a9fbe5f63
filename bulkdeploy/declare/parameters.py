"""The declaration of a command's parameter: its name, wire type, bounds and the entities that it refers to.

``declare.binding`` turns declarations into marshmallow schemas and binds requests with them;
``declare.discovery`` renders them for listApis.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bulkdeploy.declare.value_rules import ValueRule
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import SECRET_PARAMETERS


class WireType(StrEnum):
    """Parameter types by their name in listApis; their rules are in cloudstack-protocol.md 1.2."""

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
        name: as listApis shows it; matching ignores case.
        type: the wire type; ``element`` is the type of a LIST's elements.
        entity: for UUID (and LIST of UUID): what the id may name; the first that has it wins.
        required: absent is an error; empty is another.
        length: longest accepted text, in characters (STRING, and each element of a LIST of STRING).
        minimum, maximum: inclusive bounds of numbers.
        unit: bytes that one of a whole number stands for, where sizes may be written as such: ``512 GiB``.
        choices: the accepted words of a STRING, a BOOLEAN or of each element of a LIST of STRING, matched in any
            case and bound as spelled here.
        roles: who may set it; from others it is ignored silently, as CloudStack does.
        since: with it, a UUID that is not shaped like one is treated as absent, as CloudStack does.
        takes_all: an id may be -1, which stands for all that there are and is bound to ``binding.everything``.
        rule: what a STRING, or each element of a LIST of STRING, must be.
        clearable: a STRING may be empty, which stands for none, whatever its rule.
        fields: what the entries of a MAP may hold, in lower case, each with the entity that it names by id, if it
            does; empty: anything.
        spellings: other names that are taken for it, in lower case.
        listed: a MAP whose entries are like the parameters of a call, maps among them; it may also be given as one
            JSON list. Bound to texts by name, by index; ``minimum`` and ``maximum`` bound how many there are.
        local: a DATE that names no time zone is bound to a datetime without one; else it is in UTC.
        resolved: a UUID is bound to the entity that it names; else to its text, for a handler that finds the
            entity and what it answers of it in one statement.
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
        """Whether no error, log, event or job result may repeat a value of the parameter. Its name decides."""
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
        # Where a project narrows a call, -1 is any; what is done with one project needs one.
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
    """``name[0].field=value`` pairs, grouped by index; see ``Parameter.fields``."""
    return Parameter(name, WireType.MAP, description, fields=fields)


def entries(name: str, description: str, *, maximum: int) -> Parameter:
    """Return a list of calls' parameters: ``name[0].parameter=value`` pairs, or one JSON list."""
    return Parameter(name, WireType.MAP, description, required=True, listed=True, minimum=1, maximum=maximum)


def details_of(given: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return a map of details from the entries of a call.

    The forms ``details[0].key=a&details[0].value=b`` and ``details[0].a=b`` are equivalent.
    """
    found: dict[str, str] = {}
    for entry in given:
        if "key" in entry:
            found[entry["key"]] = entry.get("value", "")
        else:
            found.update(entry)
    return found
