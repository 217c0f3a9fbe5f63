"""What listApis says of commands: the shape that cmk's sync and Go's generator need."""

from typing import Any

import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.discovery import DEEPEST, discover
from bulkdeploy.declare.parameters import Needs, Parameter, WireType, boolean, string, uuid
from bulkdeploy.declare.response_fields import objects, text
from bulkdeploy.declare.responses import Field, Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity

THING = Response("thing", (text("id", "its id"), text("hostid", "its host", ROOT_ADMIN_ONLY)))


def nothing(_: Any) -> None:
    """A handler that is not called."""


LIST = Command("listZones", "Lists zones", nothing, Shape.LIST, THING, since="4.0")
DEPLOY = Command(
    "deployThing",
    "Deploys",
    nothing,
    Shape.JOB,
    THING,
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        uuid("hostid", Entity.HOST, "the host", roles=ROOT_ADMIN_ONLY),
        string("userdata", "data", length=32768, since="4.1"),
        boolean("startvm", "whether to start"),
    ),
)
DELETE = Command("deleteThing", "Deletes", nothing, Shape.SUCCESS)


def entry(command: Command, role: RoleType = RoleType.ADMIN) -> dict[str, Any]:
    """What is said of one command, among the others."""
    entries = discover([LIST, DEPLOY, DELETE], role)
    return next(entry for entry in entries if entry["name"] == command.name)


def test_a_command_to_the_letter() -> None:
    """Name, kind, parameters with types and lengths, relations and answer fields are all there."""
    assert entry(DEPLOY) == {
        "name": "deployThing",
        "description": "Deploys",
        "since": None,
        "isasync": True,
        "related": "listZones",
        "params": [
            parameter("zoneid", "the zone", "uuid", required=True, related="listZones"),
            parameter("hostid", "the host", "uuid"),
            parameter("userdata", "data", "string", length=32768, since="4.1"),
            parameter("startvm", "whether to start", "boolean"),
        ],
        "response": [
            {"name": "id", "description": "its id", "type": "string"},
            {"name": "hostid", "description": "its host", "type": "string"},
            *JOB_FIELDS,
            WARNING,
        ],
    }


def parameter(name: str, description: str, kind: str, **more: Any) -> dict[str, Any]:
    """What is said of one parameter."""
    usual = {"length": 255, "required": False, "since": None, "related": None, "choices": None}
    return {"name": name, "description": description, "type": kind, **usual, **more}


WARNING = {
    "name": "warning",
    "description": "the names of sent parameters that the command does not have; they were ignored",
    "type": "string",
}
JOB_FIELDS = [
    {
        "name": "jobid",
        "description": "the job that is working on the object, or the job of an asynchronous call",
        "type": "string",
    },
    {
        "name": "jobstatus",
        "description": "the status of the job: 0 in progress, 1 succeeded, 2 failed",
        "type": "integer",
    },
]


def test_roles_see_what_is_theirs() -> None:
    """Parameters and fields that a role may not set or see are not shown to it."""
    shown = entry(DEPLOY, RoleType.USER)
    assert [one["name"] for one in shown["params"]] == ["zoneid", "userdata", "startvm"]
    assert [one["name"] for one in shown["response"]] == ["id", "jobid", "jobstatus", "warning"]


def test_answers_of_success() -> None:
    """A command without an object of its own answers success, and is related to nothing."""
    shown = entry(DELETE)
    assert shown["related"] is None
    assert [one["name"] for one in shown["response"]] == [
        "success",
        "displaytext",
        *(one["name"] for one in (*JOB_FIELDS, WARNING)),
    ]


def test_other_answers_are_described() -> None:
    """What a command may answer instead is listed beside its own fields, under its key."""
    command = Command(
        "listThings", "", nothing, Shape.LIST, THING, instead=Response("plan", (text("seed", "the seed"),))
    )
    ((shown,),) = [
        [one for one in entry["response"] if one["name"] == "plan"] for entry in discover([command], RoleType.USER)
    ]
    assert shown["response"] == [{"name": "seed", "description": "the seed", "type": "string"}]


def nested(depth: int) -> Field:
    """Objects in objects, ``depth`` levels down."""
    return text("name", "") if depth == 0 else objects("inner", "", (nested(depth - 1),))


def test_nesting_is_described_to_a_depth() -> None:
    """Objects in objects are described so far that every answer of ours is covered, and no further."""
    command = Command("listDeep", "", nothing, Shape.LIST, Response("deep", (nested(DEEPEST + 2),)))
    ((shown,),) = [
        [one for one in entry["response"] if one["name"] == "inner"]
        for entry in discover([command], RoleType.ADMIN)
    ]
    levels = 0
    while "response" in shown:
        (shown,) = shown["response"]
        levels += 1
    assert levels == DEEPEST


@pytest.mark.parametrize("role", list(RoleType))
def test_every_command_satisfies_cmk(role: RoleType) -> None:
    """Cmk's sync crashes unless every entry has these keys with these types."""
    described = [command for command in find_commands().values() if command.described]
    entries = discover(find_commands().values(), role)
    assert [entry["name"] for entry in entries] == [command.name for command in described]
    for shown in entries:
        assert (type(shown["name"]), type(shown["description"]), type(shown["isasync"])) == (str, str, bool)
        assert shown["description"]
        for one in shown["params"]:
            assert [type(one[key]) for key in ("name", "type", "description", "required", "length")] == [
                str,
                str,
                str,
                bool,
                int,
            ]
            assert one["description"]
            assert one["name"] == one["name"].lower()
        assert all(field["name"] and field["type"] for field in shown["response"])


def test_parameter_types_are_cloudstacks() -> None:
    """Every wire type has the name that clients switch on."""
    assert {kind.value for kind in WireType} == {
        "uuid",
        "string",
        "integer",
        "long",
        "short",
        "float",
        "boolean",
        "list",
        "map",
        "date",
        "tzdate",
    }


@pytest.mark.parametrize("command", find_commands().values(), ids=lambda command: command.name)
def test_declarations_are_whole(command: Command) -> None:
    """Names are unique, ids name something, lists have elements, and rules speak of declared parameters."""
    names = [one.name.lower() for one in command.parameters]
    assert len(names) == len(set(names))
    assert command.response is not None or command.shape in (Shape.SUCCESS, Shape.JOB_SUCCESS)
    for one in command.parameters:
        assert bool(one.entity) == (WireType.UUID in (one.type, one.element)), one.name
        assert (one.element is not None) == (one.type is WireType.LIST), one.name
    for rule in command.rules:
        named = (rule.name, rule.other) if isinstance(rule, Needs) else rule.names
        assert set(named) <= set(names)


def test_irregular_parameters_are_declared_alike() -> None:
    """A list of ids says what its elements are, as a single id does."""
    ids = Parameter("zoneids", WireType.LIST, "zones", element=WireType.UUID, entity=(Entity.ZONE,))
    command = Command("listThings", "", nothing, Shape.LIST, THING, parameters=(ids,))
    assert discover([command, LIST], RoleType.ADMIN)[0]["params"][0]["related"] == "listZones"
