"""What CloudStack 4.22 declares, as a file of names and types beside this module.

``python -m tests.compatibility.facts CHECKOUT`` writes the file anew from a source tree of CloudStack. A line with
a command has the class of its response and its parameters; ``!`` marks required ones, ``~`` asynchronous commands,
and ``<`` stands before a length. A line with a class of responses has its fields.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.compatibility.annotations import Checkout, JavaCommand, JavaParameter

FILE = Path(__file__).parent / "cloudstack-4.22.txt"
HEADER = "# Facts read from the source of CloudStack 4.22 by `python -m tests.compatibility.facts CHECKOUT`.\n"


@dataclass(frozen=True, slots=True)
class Facts:
    """The commands of a release by name, and the fields of its responses with their JSON types, by class."""

    commands: Mapping[str, JavaCommand]
    responses: Mapping[str, Mapping[str, str]]

    def fields(self, command: str) -> Mapping[str, str]:
        """Return the fields that a command's answer can have, with their JSON types."""
        return self.responses.get(self.commands[command].response, {})


def read_facts() -> Facts:
    """Return the facts in the file."""
    commands: dict[str, JavaCommand] = {}
    responses: dict[str, Mapping[str, str]] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("#"):
            continue
        head, *entries = line.split()
        kind, _, name = head.partition(":")
        if kind == "response":
            responses[name] = dict(entry.split(":") for entry in entries)
        else:
            response, *parameters = entries
            read = [_parameter(entry) for entry in parameters]
            by_name = {parameter.name.lower(): parameter for parameter in read}
            commands[name.rstrip("~")] = JavaCommand(
                name.rstrip("~"), response.strip("-"), name.endswith("~"), by_name
            )
    return Facts(commands, responses)


def _parameter(entry: str) -> JavaParameter:
    name, _, rest = entry.partition(":")
    rest, _, length = rest.partition("<")
    return JavaParameter(name, rest.rstrip("!"), rest.endswith("!"), int(length) if length else None)


def write_facts(checkout: Checkout) -> None:
    """Write the file from a source tree."""
    lines = []
    responses = set()
    for name in sorted(checkout.classes):
        command = checkout.command(name)
        responses.add(command.response)
        entries = [
            f"{one.name}:{one.type}{'!' if one.required else ''}{'' if one.length is None else f'<{one.length}'}"
            for _, one in sorted(command.parameters.items())
        ]
        lines.append(
            " ".join([f"command:{name}{'~' if command.is_async else ''}", command.response or "-", *entries])
        )
    for name in sorted(responses - {""}):
        fields = checkout.fields(name)
        lines.append(" ".join([f"response:{name}", *(f"{field}:{fields[field]}" for field in sorted(fields))]))
    FILE.write_text(HEADER + "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    write_facts(Checkout(Path(sys.argv[1])))
