"""The declaration of a command's response: its fields, their JSON types, and the shape of the envelope."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType


class FieldType(StrEnum):
    """The types of response fields, with their names in listApis.

    ``INTEGER`` and ``LONG`` are JSON numbers, ``STRING`` and ``DATE`` JSON strings. Typed clients (Go) reject a
    whole response if one field has another type.
    """

    STRING = "string"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    LIST = "list"
    SET = "set"
    MAP = "map"
    OBJECT = "responseobject"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a response object. ``fields`` are the fields of nested objects (LIST, SET, OBJECT).

    A LIST or SET without ``fields`` contains strings. ``roles`` are the roles that may see the field. ``value`` is
    a constant for objects that do not set the field, because CloudStack's clients expect it. Objects hold the value
    under the name ``column``, which is ``name`` if it is empty. Callers other than root admins get the value under
    ``public_column`` instead, unless it is empty.
    """

    name: str
    type: FieldType
    description: str
    fields: tuple["Field", ...] = ()
    roles: frozenset[RoleType] = EVERY_ROLE
    value: bool | int | str | tuple[()] | Mapping[str, str] | None = field(default=None, hash=False)
    column: str = ""
    public_column: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """A response object: its key (such as ``zone``) and its fields."""

    key: str
    fields: tuple[Field, ...]


class Shape(StrEnum):
    """The form of a response: the position of its objects in the envelope (cloudstack-protocol.md 1.3)."""

    LIST = "list"
    """``{"count": n, "<key>": [...]}``; nothing found: ``{}``."""
    OBJECT = "object"
    """``{"<key>": {...}}``."""
    BARE = "bare"
    """The fields directly under the envelope."""
    SUCCESS = "success"
    """``{"success": true}``."""
    JOB = "job"
    """``{"jobid": ...}``, and ``id`` where the command creates something; the job's result is an OBJECT."""
    JOB_SUCCESS = "jobsuccess"
    """``{"jobid": ...}``; the job's result is ``{"success": true}``."""
