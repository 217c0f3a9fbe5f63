"""All commands there are: every module of this folder that has ``COMMANDS`` adds its own.

Adding a command is adding its declaration to a module here; nothing else names it.
"""

import importlib
import pkgutil

import bulkdeploy.commands
from bulkdeploy.declare.command import Command


class DuplicateCommand(Exception):
    """Two declarations have one name."""


def find_commands() -> dict[str, Command]:
    """The commands by name, in alphabetical order.

    Raises:
        DuplicateCommand: a name is declared twice, even if in different case.
    """
    found: dict[str, Command] = {}
    places: dict[str, str] = {}
    for module in pkgutil.iter_modules(bulkdeploy.commands.__path__):
        declared = getattr(importlib.import_module(f"bulkdeploy.commands.{module.name}"), "COMMANDS", ())
        for command in declared:
            if command.name.lower() in places:
                earlier = places[command.name.lower()]
                raise DuplicateCommand(f"{command.name} is declared in {earlier} and again in {module.name}")
            places[command.name.lower()] = module.name
            found[command.name] = command
    return dict(sorted(found.items()))
