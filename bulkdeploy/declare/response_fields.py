"""Functions that declare response fields, and the groups of fields that many responses share."""

from collections.abc import Mapping
from json import dumps
from types import MappingProxyType

from bulkdeploy.declare.responses import Field, FieldType
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType

Roles = frozenset[RoleType]


def text(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field that is a JSON string. Ids are strings, too."""
    return Field(name, FieldType.STRING, description, roles=roles)


def number(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field that is a JSON number of at most 32 bits."""
    return Field(name, FieldType.INTEGER, description, roles=roles)


def large_number(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field that is a JSON number of at most 64 bits."""
    return Field(name, FieldType.LONG, description, roles=roles)


def fraction(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field that is a JSON number with a fraction."""
    return Field(name, FieldType.FLOAT, description, roles=roles)


def flag(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a boolean field."""
    return Field(name, FieldType.BOOLEAN, description, roles=roles)


def moment(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field that is a date and time, as a JSON string."""
    return Field(name, FieldType.DATE, description, roles=roles)


def texts(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field that is a list of JSON strings."""
    return Field(name, FieldType.LIST, description, roles=roles)


def text_map(name: str, description: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of an object whose values are strings."""
    return Field(name, FieldType.MAP, description, roles=roles)


def objects(name: str, description: str, fields: tuple[Field, ...], roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a list of objects."""
    return Field(name, FieldType.LIST, description, fields, roles)


def constant(name: str, value: bool | int | str | tuple[()], reason: str, roles: Roles = EVERY_ROLE) -> Field:
    """Return the declaration of a field of CloudStack that has the same value in all objects here."""
    (kind,) = (kind for python, kind in CONSTANTS.items() if type(value) is python)
    return Field(name, kind, f"always {dumps(value)}: {reason}", roles=roles, value=value)


def constants(value: bool | int | str | tuple[()], reason: str, *names: str) -> tuple[Field, ...]:
    """Return the declarations of several fields that have the same value for the same reason."""
    return tuple(constant(name, value, reason) for name in names)


def empty_map(name: str, reason: str) -> Field:
    """Return the declaration of a field of CloudStack that is an empty object in all objects here."""
    return Field(name, FieldType.MAP, f"always {{}}: {reason}", value=EMPTY)


EMPTY: Mapping[str, str] = MappingProxyType({})

CONSTANTS: Mapping[type, FieldType] = {
    bool: FieldType.BOOLEAN,
    int: FieldType.INTEGER,
    str: FieldType.STRING,
    tuple: FieldType.LIST,
}

ACCOUNT_FIELDS: tuple[Field, ...] = (
    text("account", "the name of the account that owns the object; absent if a project owns it"),
    text("domainid", "the domain of the owner"),
    text("domain", "the name of the owner's domain"),
    text("domainpath", "the names of all domains from ROOT down to the domain of the owner"),
)

OWNER_FIELDS: tuple[Field, ...] = (
    *ACCOUNT_FIELDS,
    text("projectid", "the project that owns the object; absent if an account owns it"),
    text("project", "the name of the project that owns the object; absent if an account owns it"),
)

TAG_FIELDS: tuple[Field, ...] = (
    text("key", "the key of the tag or detail"),
    text("value", "the value of the tag or detail"),
    text("resourcetype", "the type of the tagged resource"),
    text("resourceid", "the tagged resource"),
    text("customer", "the text that names the customer for whom the tag was set"),
    *OWNER_FIELDS,
)

HAS_ANNOTATIONS = Field(
    "hasannotations",
    FieldType.BOOLEAN,
    "whether the object has annotations; annotations for root admins only count only for root admins",
    public_column="haspublicannotations",
)
"""The field of objects that can be annotated, with the columns of ``store.resources.annotations``."""

TAGS: Field = objects("tags", "its tags", TAG_FIELDS)
