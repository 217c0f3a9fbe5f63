"""listDetailOptions, which suggests values for details in CloudStack."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import text_map
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE


def list_detail_options(call: Call) -> Mapping[str, Any]:
    """Return no suggested values, because any text is accepted as a detail."""
    del call
    return {"details": {}}


COMMANDS = (
    Command(
        name="listDetailOptions",
        authorized=EVERY_ROLE,
        description=(
            "Lists suggested values for the details of resources. The list is always empty: any text is accepted "
            "as a detail"
        ),
        handler=list_detail_options,
        shape=Shape.OBJECT,
        response=Response("detailoptions", (text_map("details", "always empty"),)),
        parameters=(
            string("resourcetype", "the type of the resource, such as UserVm", required=True),
            string("resourceid", "the resource"),
        ),
    ),
)
