"""The description of a command in listApis, from its declaration (cloudstack-protocol.md 4)."""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.declare.response_fields import number, text
from bulkdeploy.declare.responses import Field, FieldType, Shape
from bulkdeploy.declare.unsupported_parameters import NOT_SUPPORTED, TYPES
from bulkdeploy.domain.accounts.accounts import RoleType

JOB_FIELDS = (
    text("jobid", "the job that is working on the object, or the job of an asynchronous call"),
    number("jobstatus", "the status of the job: 0 in progress, 1 succeeded, 2 failed"),
)
"""Fields that every API's answer has in CloudStack; clients expect to find them listed."""

WARNING = text("warning", "the names of sent parameters that the command does not have; they were ignored")
"""In the object that a call answers, in the first where it lists some (ADR 17)."""

SUCCESS_FIELDS = (
    Field("success", FieldType.BOOLEAN, "true if the call succeeded"),
    text("displaytext", "a message about the result"),
)


LONGEST_TEXT = 255
"""Characters that listApis gives as the length of an unsupported parameter."""

DEEPEST = 3
"""Levels of objects within objects that are described; listApis, which describes itself, must end somewhere."""


def discover(commands: Iterable[Command], role: RoleType) -> list[dict[str, Any]]:
    """Return an entry for each described command that a role may call.

    An entry contains the parameters that the role may set and the fields that the role may see.
    """
    allowed = {command.name: command for command in commands if command.described}
    return [_entry(command, allowed, role) for command in allowed.values()]


def _entry(command: Command, allowed: Mapping[str, Command], role: RoleType) -> dict[str, Any]:
    key = None if command.response is None else command.response.key
    same = (
        other.name
        for other in allowed.values()
        if other is not command and other.response is not None and other.response.key == key
    )
    return {
        "name": command.name,
        "description": command.description,
        "since": command.since,
        "isasync": command.is_async,
        "related": ",".join(same) or None,
        "params": [
            *(_parameter(parameter, allowed) for parameter in command.parameters if role in parameter.roles),
            *(_unsupported(name, why) for name, why in command.unsupported.items()),
        ],
        "response": _fields(_answer_fields(command), role, DEEPEST),
    }


def _parameter(parameter: Parameter, allowed: Mapping[str, Command]) -> dict[str, Any]:
    lists = (f"list{kind.value}" for kind in parameter.entity)
    return {
        "name": parameter.name,
        "description": parameter.description,
        "type": parameter.type.value,
        "length": parameter.length,
        "required": parameter.required,
        "since": parameter.since,
        "related": ",".join(name for name in lists if name in allowed) or None,
        "choices": list(parameter.choices) or None,
    }


def _unsupported(name: str, why: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{NOT_SUPPORTED}{why}",
        "type": TYPES.get(name, WireType.STRING).value,
        "length": LONGEST_TEXT,
        "required": False,
        "since": None,
        "related": None,
        "choices": None,
    }


def _answer_fields(command: Command) -> tuple[Field, ...]:
    own = command.response.fields if command.response is not None else ()
    if command.shape in (Shape.SUCCESS, Shape.JOB_SUCCESS):
        own = (*own, *SUCCESS_FIELDS)
    if command.instead is not None:
        meaning = "what is returned instead if the call requests it"
        own = (*own, Field(command.instead.key, FieldType.OBJECT, meaning, command.instead.fields))
    named = {field.name for field in own}
    return (*own, *(field for field in (*JOB_FIELDS, WARNING) if field.name not in named))


def _fields(fields: Iterable[Field], role: RoleType, depth: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for field in fields:
        if role in field.roles:
            entries.append({"name": field.name, "description": field.description, "type": field.type.value})
            if field.fields and depth > 0:
                entries[-1]["response"] = _fields(field.fields, role, depth - 1)
    return entries
