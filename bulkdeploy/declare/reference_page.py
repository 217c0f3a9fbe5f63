"""The generator of docs/reference/api.md: every command with its parameters and responses."""

from collections.abc import Iterable

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Parameter
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType

HEADER = """\
# The API, command by command

Generated from the declarations in `bulkdeploy/commands` by `make generate`. `/client/api/openapi.json` describes
the API as OpenAPI 3.1, and `listApis` in CloudStack's own form.

Parameters in **bold** are required. All values are sent as text; `map` parameters as `name[0].field=value`, lists
separated by commas. Roles are those that may call a command where no rule of a role says otherwise.
"""

ANSWERS = {
    Shape.LIST: "a list of `{key}`",
    Shape.OBJECT: "one `{key}`",
    Shape.BARE: "fields without a key of their own",
    Shape.SUCCESS: "`success`",
    Shape.JOB: "a job; its result is one `{key}`",
    Shape.JOB_SUCCESS: "a job; its result is `success`",
}


def reference_page(commands: Iterable[Command]) -> str:
    """Return the page, in the order of the commands."""
    shown: dict[Response, str] = {}
    return "\n".join([HEADER, *(_section(command, shown) for command in commands)])


def _section(command: Command, shown: dict[Response, str]) -> str:
    key = "" if command.response is None else command.response.key
    about = f"{_roles(command.roles)} | answers {ANSWERS[command.shape].format(key=key)}"
    if command.open:
        about = f"needs no credentials | answers {ANSWERS[command.shape].format(key=key)}"
    lines = [f"## {command.name}", "", f"{command.description}.", "", about, ""]
    if command.parameters:
        lines += ["| parameter | type | meaning |", "|---|---|---|"]
        lines += [_parameter(parameter) for parameter in command.parameters]
        lines.append("")
    if command.unsupported:
        lines += ["Refused:", ""]
        lines += [f"- `{name}`: {why}" for name, why in command.unsupported.items()]
        lines.append("")
    if command.response is not None:
        first = shown.setdefault(command.response, command.name)
        same = f"as of {first}" if first != command.name else _fields(command.response.fields)
        lines += [f"Fields: {same}", ""]
    if command.instead is not None:
        instead = command.instead
        lines += [f"Instead, where the call asks for it, one `{instead.key}`: {_fields(instead.fields)}", ""]
    return "\n".join(lines)


def _parameter(parameter: Parameter) -> str:
    name = f"**{parameter.name}**" if parameter.required else parameter.name
    meaning = parameter.description.replace("|", "\\|")
    if parameter.choices:
        meaning += f" ({', '.join(parameter.choices)})"
    if parameter.roles != EVERY_ROLE:
        meaning += f" ({_roles(parameter.roles)})"
    return f"| {name} | {parameter.type.value} | {meaning} |"


def _fields(fields: Iterable[Field]) -> str:
    return ", ".join(_field(field) for field in fields)


def _field(field: Field) -> str:
    """Return the text of a field with its type. For a list of objects, it includes the fields of the objects."""
    only = "" if field.roles == EVERY_ROLE else f" ({_roles(field.roles)})"
    if field.fields and field.type in (FieldType.LIST, FieldType.SET):
        return f"{field.name}[] {field.type.value}{only} of ({_fields(field.fields)})"
    return f"{field.name} {field.type.value}{only}"


def _roles(roles: frozenset[RoleType]) -> str:
    return (
        "all roles"
        if roles == EVERY_ROLE
        else "only " + ", ".join(role.value for role in RoleType if role in roles)
    )
