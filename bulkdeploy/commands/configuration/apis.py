"""listApis: the description of all commands that the caller may use."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.discovery import DEEPEST, discover
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import flag, number, objects, text
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.errors import UnknownApi
from bulkdeploy.store.rows.listing import Page


def list_apis(call: Call) -> Page:
    """Return the APIs that the caller may call, or the one named.

    Raises:
        UnknownApi: the name is that of no API, or of one that the caller may not call.
    """
    wanted = call.text("name")
    caller = call.caller
    allowed = [
        command
        for command in find_commands().values()
        if command.open or caller.may_call(command.name, command.authorized)
    ]
    entries = discover(allowed, caller.role_type)
    if wanted is not None:
        entries = [entry for entry in entries if entry["name"] == wanted]
        if not entries:
            raise UnknownApi(wanted)
    return Page(entries, len(entries))


def _answer_fields(depth: int) -> tuple[Field, ...]:
    """Return the description of a response field. Objects contain their fields, up to ``depth`` levels."""
    plain = (
        text("name", "the field's name"),
        text("description", "allow or deny"),
        text("type", "its type"),
    )
    if depth == 0:
        return plain
    return (*plain, objects("response", "the fields of the objects that it holds", _answer_fields(depth - 1)))


COMMANDS = (
    Command(
        name="listApis",
        authorized=EVERY_ROLE,
        description="Lists the APIs that the caller may call, with their parameters and answers",
        handler=list_apis,
        shape=Shape.LIST,
        since="4.1.0",
        response=Response(
            "api",
            (
                text("name", "the API's name"),
                text("description", "what it does"),
                text("since", "the version of CloudStack that has it first"),
                flag("isasync", "whether it answers with a job to poll"),
                text("related", "the APIs that answer the same objects"),
                objects(
                    "params",
                    "its parameters",
                    (
                        text("name", "the parameter's name"),
                        text("description", "allow or deny"),
                        text("type", "its type"),
                        number("length", "the longest text it takes, in characters"),
                        flag("required", "whether it must be given"),
                        text("since", "the version of CloudStack that has it first"),
                        text("related", "the APIs that list what it may name"),
                        Field("choices", FieldType.LIST, "the values it takes, where it takes only these"),
                    ),
                ),
                objects("response", "the fields of its answer", _answer_fields(DEEPEST)),
            ),
        ),
        parameters=(string("name", "the exact name of an API"),),
        errors=(UnknownApi,),
    ),
)
