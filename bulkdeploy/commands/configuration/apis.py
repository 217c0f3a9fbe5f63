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
    """Return the APIs that the caller may call, or only the API of the given name.

    Raises:
        UnknownApi: no API has the name, or the caller may not call it.
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
    """Return the fields that describe a response field. Objects contain their fields, up to ``depth`` levels."""
    plain = (
        text("name", "the field's name"),
        text("description", "the description"),
        text("type", "the type of the field"),
    )
    if depth == 0:
        return plain
    return (*plain, objects("response", "the fields of the objects in this field", _answer_fields(depth - 1)))


COMMANDS = (
    Command(
        name="listApis",
        authorized=EVERY_ROLE,
        description="Lists the APIs that the caller may call, with their parameters and response fields",
        handler=list_apis,
        shape=Shape.LIST,
        since="4.1.0",
        response=Response(
            "api",
            (
                text("name", "the API's name"),
                text("description", "a description"),
                text("since", "the first version of CloudStack that has it"),
                flag("isasync", "whether the API returns a job whose result must be polled"),
                text("related", "the APIs that return the same objects"),
                objects(
                    "params",
                    "the parameters of the API",
                    (
                        text("name", "the parameter's name"),
                        text("description", "the description"),
                        text("type", "the type of the parameter"),
                        number("length", "the maximum length of the value, in characters"),
                        flag("required", "whether the parameter is required"),
                        text("since", "the first version of CloudStack that has it"),
                        text("related", "the APIs that list the objects whose ids the parameter accepts"),
                        Field("choices", FieldType.LIST, "the accepted values; absent if any value is accepted"),
                    ),
                ),
                objects("response", "the fields of the response", _answer_fields(DEEPEST)),
            ),
        ),
        parameters=(string("name", "the exact name of an API"),),
        errors=(UnknownApi,),
    ),
)
