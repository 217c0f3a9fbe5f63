"""The conversion of a request's parameters to the arguments of its command, according to the declaration.

There are two stages. The first needs no database: it checks presence, type, length, bounds and choices of every
parameter in declared order, then the command's rules. Only then a function that is passed in resolves all ids at
once. The error is about the first violated rule. The command's handler checks which entities the caller may use.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from marshmallow import EXCLUDE, Schema, missing
from marshmallow.fields import Field

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.entries import field_of
from bulkdeploy.declare.general_parameters import GENERAL
from bulkdeploy.declare.parameters import Exclusive, Needs, Parameter, Rule, WireType
from bulkdeploy.declare.unsupported_parameters import is_harmless
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, RoleType
from bulkdeploy.domain.entities import EVERY_ID, Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, UnknownEntity

LONGEST_SHOWN = 80
"""Characters of a refused value that an error repeats."""

NOT_GIVEN = missing
"""What a parameter is bound to that counts as not given."""

Kinds: TypeAlias = tuple[Entity, ...]
Found: TypeAlias = Mapping[Kinds, Mapping[str, EntityRef]]
Lookup: TypeAlias = Callable[[Mapping[Kinds, Sequence[str]]], Found]
"""Ids as texts, by the kinds of entity they may name -> what was found, by kinds and by text."""


class Binder:
    """A converter of requests to arguments of one command.

    It is created once per command and used by many threads.
    """

    def __init__(self, command: Command) -> None:
        fields: dict[str, Field[Any]] = {
            parameter.name: field_of(command.name, parameter) for parameter in command.parameters
        }
        self._command = command
        self._schema: Schema = Schema.from_dict(fields, name=command.name)(unknown=EXCLUDE)
        self._by_name = {
            name.lower(): parameter
            for parameter in command.parameters
            for name in (parameter.name, *parameter.spellings)
        }
        self._known = GENERAL | self._by_name.keys() | command.unsupported.keys()
        self._ids = tuple(parameter for parameter in command.parameters if _holds_ids(parameter))
        self._restricted = any(parameter.roles != EVERY_ROLE for parameter in command.parameters)

    def unknown(self, given: Mapping[str, str]) -> list[str]:
        """Return the parameters of a call that neither CloudStack nor this service has (ADR 17).

        The names are returned as the caller spelled them. Entries (``name[0].field``) of a parameter without
        entries are unknown, too.
        """
        return [sent for sent in given if not self._knows(sent)]

    def _knows(self, sent: str) -> bool:
        bare, bracket, _ = sent.partition("[")
        declared = self._by_name.get(bare.lower())
        if declared is not None and bracket:
            return declared.type is WireType.MAP
        return bare.lower() in self._known

    def bind(self, given: Mapping[str, str], role: RoleType | None, lookup: Lookup) -> dict[str, Any]:
        """Return the arguments of a call by parameter name.

        Parameters that were not given, or count as not given, are left out. Names match in any case; if one name is
        given in two cases, the first one counts. Undeclared parameters are ignored (``unknown`` returns them), and
        so are parameters that ``role`` may not set (None: a caller without credentials). A list without elements is
        an empty list for a command that changes something. For a command that reads, it filters nothing, as in
        CloudStack.

        Raises:
            ParameterError: about the first violated rule.
        """
        self._refuse_unsupported(given)
        arguments: dict[str, Any] = self._schema.load(self._declared(given, role))
        if not self._command.changes_state:
            arguments = {name: value for name, value in arguments.items() if value != ()}
        self.check_rules(arguments)
        return self._with_entities(arguments, lookup)

    def value_of(self, parameter: str, text: str | Mapping[str, str]) -> Any:
        """Convert one text according to the parameter's declaration. Ids stay texts.

        Returns ``NOT_GIVEN`` for an absent value. For a MAP, ``text`` has its ``name[0].field`` pairs.

        Raises:
            ParameterError: the text violates a rule of the parameter.
        """
        return self._schema.fields[parameter].deserialize(text)

    def check_rules(self, arguments: Mapping[str, Any]) -> None:
        """Check the rules between parameters, such as that one requires another.

        Raises:
            InvalidCombination: about the first violated rule.
        """
        for rule in self._command.rules:
            _check(rule, arguments)

    def _refuse_unsupported(self, given: Mapping[str, str]) -> None:
        for sent, text in given.items():
            name = sent.partition("[")[0].lower()
            why = self._command.unsupported.get(name)
            if why is not None and not is_harmless(name, text):
                raise InvalidParameter(name, text[:LONGEST_SHOWN], f"it is not supported here: {why}")

    def _declared(self, given: Mapping[str, str], role: RoleType | None) -> dict[str, Any]:
        """Return the texts of declared parameters. The entries of a map parameter are collected in one dictionary.

        Raises:
            InvalidCombination: a parameter is given under two names with different values.
        """
        texts: dict[str, Any] = {}
        names: dict[str, str] = {}
        for sent, text in given.items():
            bare, bracket, _ = sent.partition("[")
            parameter = self._by_name.get(bare.lower())
            if parameter is None or (self._restricted and role not in parameter.roles):
                continue
            if parameter.type is WireType.MAP:
                texts.setdefault(parameter.name, {}).setdefault(sent, text)
            elif not bracket:
                kept = texts.setdefault(parameter.name, text)
                name = names.setdefault(parameter.name, bare.lower())
                if name != bare.lower() and kept != text:
                    raise InvalidCombination(
                        (name, bare.lower()),
                        f"'{name}' and '{bare.lower()}' are names of the same"
                        " parameter: their values must be equal",
                    )
        return texts

    def _with_entities(self, arguments: dict[str, Any], lookup: Lookup) -> dict[str, Any]:
        """Return the arguments with every id replaced by a reference to its entity."""
        given = [parameter for parameter in self._ids if parameter.name in arguments]
        if not given:
            return arguments
        wanted: dict[Kinds, dict[str, None]] = {}
        for parameter in given:
            for kinds, text in _ids(parameter, arguments[parameter.name]):
                named = wanted.setdefault(kinds, {})
                if text != str(EVERY_ID):
                    named[text] = None
        found = lookup({kinds: tuple(texts) for kinds, texts in wanted.items()})
        for parameter in given:
            arguments[parameter.name] = self._with_refs(parameter, arguments[parameter.name], found)
        return arguments

    def _with_refs(self, parameter: Parameter, value: Any, found: Found) -> Any:
        if parameter.type is WireType.MAP:
            return tuple(
                {
                    field: text if entity is None else self._ref(parameter, (entity,), text, found)
                    for field, text in entry.items()
                    for entity in (dict(parameter.fields)[field],)
                }
                for entry in value
            )
        refs = [self._ref(parameter, parameter.entity, text, found) for text in _texts(value)]
        # Two texts may name one object: its uuid and its internal id.
        return tuple(dict.fromkeys(refs)) if parameter.type is WireType.LIST else refs[0]

    def _ref(self, parameter: Parameter, kinds: Kinds, text: str, found: Found) -> EntityRef:
        if text == str(EVERY_ID):
            return everything(kinds[0])
        ref = found[kinds].get(text)
        if ref is None:
            raise UnknownEntity(self._command.name, parameter.name, text)
        return ref


def everything(entity: Entity) -> EntityRef:
    """Return the reference that stands for all entities of a type.

    The id -1 in a call is converted to this reference.
    """
    return EntityRef(entity, EVERY_ID, UUID(int=0), "")


def _holds_ids(parameter: Parameter) -> bool:
    named = any(entity is not None for _, entity in parameter.fields)
    return parameter.resolved and (named or WireType.UUID in (parameter.type, parameter.element))


def _ids(parameter: Parameter, value: Any) -> list[tuple[Kinds, str]]:
    """Return the ids in the value of a parameter, each with the kinds of entities that it may name."""
    if parameter.type is WireType.MAP:
        named = {field: (entity,) for field, entity in parameter.fields if entity is not None}
        return [(named[field], text) for entry in value for field, text in entry.items() if field in named]
    return [(parameter.entity, text) for text in _texts(value)]


def _texts(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


def _check(rule: Rule, arguments: Mapping[str, Any]) -> None:
    if isinstance(rule, Needs):
        name, other = (arguments.get(one) for one in (rule.name, rule.other))
        if name not in (None, False) and other in (None, False):
            is_true = "" if other is None else " to be true"
            text = f"'{rule.name}' parameter requires '{rule.other}'{is_true}"
            raise InvalidCombination((rule.name, rule.other), text)
        return
    given = [name for name in rule.names if arguments.get(name, ()) != ()]
    if len(given) > 1:
        raise InvalidCombination(given, f"'{given[0]}' parameter is mutually exclusive with '{given[1]}' parameter")
    if not given and not isinstance(rule, Exclusive):
        raise InvalidCombination(rule.names, f"One of these parameters must be given: {', '.join(rule.names)}")
