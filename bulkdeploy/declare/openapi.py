"""An OpenAPI 3.1 description of the commands, from their declarations.

The API has one address with a parameter ``command``, and the server accepts any path below that address. Therefore
each command has a path of its own in the description, and ``command`` is a parameter with one value. Commands that
read use GET; commands that change something use POST with a form.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.discovery import JOB_FIELDS, SUCCESS_FIELDS, WARNING
from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape

Schema: TypeAlias = dict[str, Any]

BASE = "/client/api"
ABOUT = """Apache CloudStack's API with bulkDeployVirtualMachine, signed as CloudStack's: `apiKey`, and `signature`,
the HMAC-SHA1 of the sorted parameters. Dates look like 2026-01-31T12:00:00+0000."""
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
NUMBERS: Mapping[WireType, tuple[int, int]] = {
    WireType.SHORT: (-(2**15), 2**15 - 1),
    WireType.INTEGER: (-(2**31), 2**31 - 1),
    WireType.LONG: (-(2**63), 2**63 - 1),
}
TYPES: Mapping[FieldType, Schema] = {
    FieldType.STRING: {"type": "string"},
    FieldType.DATE: {"type": "string"},
    FieldType.INTEGER: {"type": "integer", "format": "int32"},
    FieldType.LONG: {"type": "integer", "format": "int64"},
    FieldType.FLOAT: {"type": "number"},
    FieldType.BOOLEAN: {"type": "boolean"},
    FieldType.MAP: {"type": "object", "additionalProperties": {"type": "string"}},
    FieldType.OBJECT: {"type": "object"},
    FieldType.LIST: {"type": "array", "items": {"type": "string"}},
    FieldType.SET: {"type": "array", "items": {"type": "string"}},
}
DEEPEST = 5
"""Levels of objects within objects that are described; what describes itself (listApis) must end somewhere."""

ERROR: Schema = {
    "type": "object",
    "description": "Under the command's key, or errorresponse where the caller may not know the command",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["uuidList", "errorcode", "errortext"],
        "properties": {
            "uuidList": {"type": "array"},
            "errorcode": {"type": "integer", "description": "the HTTP status, again"},
            "cserrorcode": {"type": "integer"},
            "errortext": {"type": "string"},
        },
        "additionalProperties": False,
    },
}


def openapi(commands: Iterable[Command], version: str) -> Schema:
    """Return the complete OpenAPI description. ``version`` is the version of the service."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "bulkdeploy",
            "version": version,
            "description": ABOUT,
        },
        "servers": [{"url": "/"}],
        "security": [{"apiKey": [], "signature": []}],
        "paths": {f"{BASE}/{command.name}": _path(command) for command in commands},
        "components": {
            "securitySchemes": {
                name: {"type": "apiKey", "in": "query", "name": name} for name in ("apiKey", "signature")
            },
            "schemas": {"error": ERROR},
            "responses": {
                "error": {
                    "description": "The call was refused, and nothing was changed",
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/error"}}},
                }
            },
        },
    }


def _path(command: Command) -> Schema:
    operation: Schema = {
        "operationId": command.name,
        "summary": command.description,
        "responses": {
            "200": {"description": "It was done", "content": {JSON: {"schema": _answer(command)}}},
            "default": {"$ref": "#/components/responses/error"},
        },
    }
    if command.open:
        operation["security"] = []
    fixed = {
        "command": {"type": "string", "enum": [command.name]},
        "response": {"type": "string", "enum": ["json"]},
    }
    if not command.changes_state and not command.post_only:
        parameters = [_query(name, schema, required=True) for name, schema in fixed.items()]
        for parameter in command.parameters:
            parameters += [
                _query(name, schema, required=parameter.required) for name, schema in _texts(parameter).items()
            ]
        return {"get": {**operation, "parameters": parameters}}
    properties = dict(fixed)
    for parameter in command.parameters:
        properties |= _texts(parameter)
    required = [*fixed, *(p.name for p in command.parameters if p.required and p.type is not WireType.MAP)]
    form = {"type": "object", "required": required, "properties": properties, "additionalProperties": False}
    return {"post": {**operation, "requestBody": {"required": True, "content": {FORM: {"schema": form}}}}}


def _query(name: str, schema: Schema, *, required: bool) -> Schema:
    described = {key: value for key, value in schema.items() if key != "description"}
    meaning = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": "query", "required": required, **meaning, "schema": described}


def _texts(parameter: Parameter) -> dict[str, Schema]:
    """Return the schemas of the texts that are sent for a parameter, by name: one text, or the entries of a map."""
    meaning = {"description": parameter.description}
    if parameter.type is WireType.MAP:
        free = ("key", "value") if parameter.name == "tags" else ("key",)
        return {
            f"{parameter.name}[0].{field}": {
                "type": "string",
                "maxLength": parameter.length,
                **meaning,
                **({"format": "uuid", "x-entities": [entity.value]} if entity is not None else {}),
            }
            for field, entity in parameter.fields or [(field, None) for field in free]
        }
    return {parameter.name: {**_schema(parameter), **meaning}}


def _schema(parameter: Parameter) -> Schema:
    ids = {"x-entities": [entity.value for entity in parameter.entity]} if parameter.entity else {}
    match parameter.type:
        case WireType.SHORT | WireType.INTEGER | WireType.LONG:
            low, high = NUMBERS[parameter.type]
            bounds = (parameter.minimum, parameter.maximum)
            return {
                "type": "integer",
                "minimum": low if bounds[0] is None else bounds[0],
                "maximum": high if bounds[1] is None else bounds[1],
            }
        case WireType.FLOAT:
            return {"type": "number"}
        case WireType.BOOLEAN:
            return {"type": "boolean"}
        case WireType.UUID:
            return {"type": "string", "format": "uuid", **ids}
        case WireType.LIST:
            return {"type": "string", "description": "separated by commas", **ids}
        case WireType.STRING if parameter.choices:
            return {"type": "string", "enum": list(parameter.choices)}
        case _:
            return {"type": "string", "maxLength": parameter.length}


def _answer(command: Command) -> Schema:
    """Return the schema of a successful response: one key, with the content that the command's shape defines."""
    content = _content(command)
    if command.instead is not None:
        content = {"anyOf": [content, _object({command.instead.key: _object_of(command.instead)})]}
    return _object({command.envelope_key: content}, required=[command.envelope_key])


def _content(command: Command) -> Schema:
    match command.shape, command.response:
        case ((Shape.JOB | Shape.JOB_SUCCESS), _):
            ticket = dict.fromkeys(("jobid", "id", WARNING.name), TYPES[FieldType.STRING])
            return _object(ticket, required=["jobid"])
        case Shape.SUCCESS, _:
            fields = (*SUCCESS_FIELDS, WARNING)
            return _object({field.name: _field(field, DEEPEST) for field in fields}, required=["success"])
        case Shape.LIST, Response() as response:
            rows = {"type": "array", "minItems": 1, "items": _object_of(response)}
            return _object({"count": {"type": "integer"}, response.key: rows})
        case Shape.BARE, Response() as response:
            return _object_of(response)
        case _, Response() as response:
            return _object({response.key: _object_of(response)}, required=[response.key])
        case _:
            return {"type": "object"}


def _object_of(response: Response) -> Schema:
    named = {field.name for field in response.fields}
    fields = (*response.fields, *(field for field in (*JOB_FIELDS, WARNING) if field.name not in named))
    return _object({field.name: _field(field, DEEPEST) for field in fields})


def _field(field: Field, depth: int) -> Schema:
    described = {"description": field.description}
    if not field.fields:
        return {**TYPES[field.type], **described}
    inner: Schema = {"type": "object"}
    if depth > 0:
        inner = _object({each.name: _field(each, depth - 1) for each in field.fields})
    if field.type in (FieldType.OBJECT, FieldType.MAP):
        return {**inner, **described}
    return {"type": "array", "items": inner, **described}


def _object(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
    }
