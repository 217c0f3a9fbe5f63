"""The generator of docs/reference/zone-files.md: the sections of zone files with their keys."""

from collections.abc import Iterable

from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.parameters import WireType
from bulkdeploy.manage.zone_files.entries import Section

HEADER = """\
# Zone files, section by section

`make generate` writes this page from the declarations in `bulkdeploy/commands`.
[inventory.md](../how-to/inventory.md) describes how files are written. Keys are the parameters of the commands
named. **Bold** ones must be there, unless the entry around them has them. Keys that only files have, and calls
have not, are in *italics*.
"""


def zone_file_page(nouns: Iterable[Noun]) -> str:
    """Return the page, in the order in which sections are loaded."""
    sections = [Section(noun) for noun in nouns]
    return "\n".join([HEADER, *(_section(section, sections) for section in sections)])


def _section(section: Section, all_sections: Iterable[Section]) -> str:
    noun = section.noun
    commands = [noun.create.name, *((noun.update.name,) if noun.update else ())]
    within = [f"`{outer.noun.section}`" for outer in all_sections if section.stands_in(outer)]
    lines = [f"## {noun.section}", "", f"Commands: {', '.join(commands)}."]
    if within:
        lines[-1] += f" May stand in {', '.join(within)}."
    if noun.pairs:
        lines[-1] += f" A mapping of {noun.pairs[0]} to {noun.pairs[1]}."
    lines += ["", "| key | type | meaning |", "|---|---|---|"]
    own = {parameter.name for parameter in noun.more}
    for name, parameter in section.parameters.items():
        kind = "name" if WireType.UUID in (parameter.type, parameter.element) else parameter.type.value
        if kind == "name" and parameter.type is WireType.LIST:
            kind = "names"
        shown = f"**{name}**" if name in section.required else f"*{name}*" if name in own else name
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        lines.append(f"| {shown} | {kind} | {parameter.description.replace('|', chr(92) + '|')}{choices} |")
    return "\n".join([*lines, ""])
