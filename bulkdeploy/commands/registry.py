"""The commands of the service: each module of this package with ``COMMANDS`` or ``DERIVED`` adds its commands.

A new command needs only its declaration in a module of this package.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from graphlib import TopologicalSorter
from types import MappingProxyType, ModuleType
from typing import Any

import bulkdeploy.commands
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.jobs.responses import FAILURE_FIELDS, JOB_RESULT
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.parameters import WireType
from bulkdeploy.declare.responses import Field, FieldType, Shape
from bulkdeploy.domain.accounts.accounts import Apis
from bulkdeploy.domain.entities import EVERY_ID, Entity
from bulkdeploy.store.rows.listing import Page

NAMING = frozenset({"id", "zoneid", "podid", "clusterid"})
"""Parameters of list commands that accept -1, which names nothing.

Parameters for domains do not, as in CloudStack.
"""


class DuplicateCommand(Exception):
    """Raised when two command declarations have the same name."""


def find_nouns() -> dict[str, Noun]:
    """Return the nouns of zone files by section. A noun comes after the nouns to which it refers."""
    nouns = {noun.section: noun for module in _modules().values() for noun in getattr(module, "NOUNS", ())}
    by_entity = {noun.entity: noun.section for noun in nouns.values() if noun.entity is not None}
    before = {
        section: {
            *noun.after,
            *(by_entity[kind] for one in noun.create.parameters for kind in one.entity if kind in by_entity),
            *(
                lender.section
                for lender in nouns.values()
                if {one.name for one in noun.create.parameters} & {*lender.lends}
            ),
        }
        - {section}
        for section, noun in nouns.items()
    }
    in_order = {section: sorted(others) for section, others in before.items()}  # sorted, because sets have no order
    return {section: nouns[section] for section in TopologicalSorter(in_order).static_order()}


def _modules() -> dict[str, ModuleType]:
    found = pkgutil.walk_packages(bulkdeploy.commands.__path__, prefix="bulkdeploy.commands.")
    return {module.name: importlib.import_module(module.name) for module in found}


@cache
def find_commands() -> Mapping[str, Command]:
    """Return all commands by name, in alphabetical order.

    Modules are searched once per process.

    Raises:
        DuplicateCommand: two commands have the same name, in any case of letters.
    """
    found: dict[str, Command] = {}
    places: dict[str, str] = {}

    def add(command: Command, place: str) -> None:
        if command.name.lower() in places:
            earlier = places[command.name.lower()]
            raise DuplicateCommand(f"{command.name} is declared in {earlier} and again in {place}")
        places[command.name.lower()] = place
        found[command.name] = command

    modules = _modules()
    for name, module in modules.items():
        for command in getattr(module, "COMMANDS", ()):
            add(command, name)
    for name, module in modules.items():
        for derived in getattr(module, "DERIVED", ()):
            add(derived.make(found[derived.base]), name)
    results = _job_results(found.values())
    return MappingProxyType(
        {name: _with_job_results(_finding_nothing(command), results) for name, command in sorted(found.items())}
    )


def every_api() -> Apis:
    """Return the authorized role types of all APIs, by the name of the API.

    An authorized role type may call the API if no rule of the caller's role matches the API.
    """
    return {name: command.authorized for name, command in find_commands().items()}


def default_rights() -> Apis:
    """Return the role types whose default roles have a rule for the API, by the name of the API.

    APIs that need no credentials are omitted.
    """
    return {name: command.roles for name, command in find_commands().items() if not command.open}


def _job_results(commands: Iterable[Command]) -> tuple[Field, ...]:
    """Return the fields that ``jobresult`` can have: the objects of all commands with jobs, and the failure."""
    objects: dict[str, Field] = {}
    for command in commands:
        if command.shape is Shape.JOB and command.response is not None:
            key = command.response.key
            objects.setdefault(
                key,
                Field(
                    key,
                    FieldType.OBJECT,
                    "the object that the job worked on, as it was when the job finished",
                    command.response.fields,
                ),
            )
    return (*(objects[key] for key in sorted(objects)), *FAILURE_FIELDS)


def _finding_nothing(command: Command) -> Command:
    """Return a list command that also accepts -1 as the id of an entity and then returns an empty list.

    Other commands are returned unchanged.
    """
    if command.shape is not Shape.LIST or command.open:
        return command
    ids = {one.name for one in command.parameters if one.name in NAMING and one.type is WireType.UUID}
    ids -= {one.name for one in command.parameters if one.takes_all or not one.resolved}
    ids -= {one.name for one in command.parameters if one.entity == (Entity.DOMAIN,)}

    def handle(call: Call, *prepared: Any) -> Any:
        named = (call.ref(name) for name in ids)
        if any(ref is not None and ref.id == EVERY_ID for ref in named):
            return Page((), 0)
        return command.handler(call, *prepared)

    if not ids:
        return command
    parameters = tuple(replace(one, takes_all=True) if one.name in ids else one for one in command.parameters)
    return replace(command, handler=handle, parameters=parameters)


def _with_job_results(command: Command, results: tuple[Field, ...]) -> Command:
    """Return the command with the fields of job results in its response if its response contains jobs."""
    response = command.response
    if response is None or JOB_RESULT not in response.fields:
        return command
    fields = tuple(replace(field, fields=results) if field == JOB_RESULT else field for field in response.fields)
    return replace(command, response=replace(response, fields=fields))
