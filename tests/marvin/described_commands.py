"""Descriptions of CloudStack's commands, from which Marvin's code generator writes its client."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cloudstack.compare_annotations import NAME, PARAMETER, Checkout

REQUIRED = re.compile(r"required\s*=\s*true")
COLLECTION = re.compile(r"type\s*=\s*CommandType\.(LIST|MAP)")
RESPONSE = re.compile(r"responseObject\s*=\s*(\w+)\.class")


def described_commands(folder: Path, offered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the commands of a checkout in the form of listApis.

    Commands that the service offers are described by the service's own ``listApis`` (``offered``). All others are
    described by the annotations of the checkout, so that a test that calls a missing command reaches the service.
    """
    checkout = Checkout(folder)
    own = {command["name"] for command in offered}
    missing = sorted(set(checkout.commands) - own)
    return [*offered, *(_described(checkout, name) for name in missing)]


def _described(checkout: Checkout, command: str) -> dict[str, Any]:
    texts = [text for name in checkout.commands[command] for text in checkout.above(name)]
    parameters = {name: (required, kind) for text in texts for name, required, kind in _parameters(checkout, text)}
    response = next((found[1] for text in texts if (found := RESPONSE.search(text))), "SuccessResponse")
    return {
        "name": command,
        "description": command,
        "isasync": any("extends BaseAsync" in text for text in texts),
        "params": [
            {"name": name, "description": name, "required": required, "type": kind}
            for name, (required, kind) in parameters.items()
        ],
        "response": [
            {"name": name, "description": name, "type": "string"} for name in sorted(checkout.fields(response))
        ],
    }


def _parameters(checkout: Checkout, text: str) -> Iterator[tuple[str, bool, str]]:
    for inner in PARAMETER.findall(text):
        name = NAME.search(inner)
        if name is not None:
            kind = COLLECTION.search(inner)
            yield (
                checkout.value(*name.groups()),
                REQUIRED.search(inner) is not None,
                kind[1].lower() if kind else "string",
            )
