"""Descriptions of CloudStack's commands, from which Marvin's code generator writes its client."""

from pathlib import Path
from typing import Any

from tests.compatibility.annotations import Checkout


def described_commands(folder: Path, offered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the commands of a checkout in the form of listApis.

    Commands that the service offers are described by the service's own ``listApis`` (``offered``). All others are
    described by the annotations of the checkout, so that a test that calls a missing command reaches the service.
    """
    checkout = Checkout(folder)
    own = {command["name"] for command in offered}
    missing = sorted(set(checkout.classes) - own)
    return [*offered, *(_described(checkout, name) for name in missing)]


def _described(checkout: Checkout, name: str) -> dict[str, Any]:
    command = checkout.command(name)
    fields = checkout.fields(command.response or "SuccessResponse")
    return {
        "name": name,
        "description": name,
        "isasync": command.is_async,
        "params": [
            {"name": one.name, "description": one.name, "required": one.required, "type": one.type}
            for one in command.parameters.values()
        ],
        "response": [{"name": field, "description": field, "type": "string"} for field in sorted(fields)],
    }
