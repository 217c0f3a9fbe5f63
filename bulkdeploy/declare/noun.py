"""A noun: one kind of object in zone files, described by the commands that create and change it.

An entry of a file is converted in the same way as a call (``declare.binding``), and is created or changed by the
same functions, because a call is a batch of one. Nouns are declared next to their commands, as ``NOUNS`` of a
module of ``commands``.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Parameter
from bulkdeploy.domain.entities import Entity, EntityRef

Values: TypeAlias = Mapping[str, Any]
"""Values by parameter name. Of an entry: as bound. Of a row: the same, with internal ids in place of references."""

Change: TypeAlias = tuple[EntityRef, Values]
"""What is changed, and the values that it gets."""


def by(*names: str) -> Callable[[Values], Hashable]:
    """Return a function that identifies an object by the values of these parameters.

    Texts are compared without case.
    """
    return lambda values: tuple(_folded(values.get(name)) for name in names)


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Noun:
    """A section of a zone file.

    Attributes:
        section: the key of the section in the file, whose value is a list of entries.
        create: the command whose parameters an entry has. The parameters of ``update`` and ``more`` are also
            allowed.
        create_many: (connection, caller, entries) -> references. Creates the objects of bound entries, in order.
        read: (connection) -> rows. Returns the live objects with ``_id``, ``_uuid`` and their values by parameter
            name, with internal ids for references. Values that it omits, such as a password, are written when an
            object is created and are never compared. If no parameter names the object that contains the object,
            ``_within`` has the entity and the internal id of the container.
        key: returns a key that is equal for an entry and a row of the same object. It gets values with internal ids
            for references.
        entity: the entity by which other entries refer to it, by the text of ``name``; None if no entry refers to
            it.
        parent: the parameter that names the container of the object. An export lists the object there.
        update: the command that changes the object. If it is None, ``create_many`` also changes existing objects
            (such as a setting or a limit).
        update_many: (connection, caller, changes) -> None.
        prepare: (connection, system, entries) -> one value per entry, which ``create_many`` gets instead of the
            entries, as for ``Command.prepare``.
        optional: parameters that are required in calls and optional in entries.
        compare: functions that normalise values of a parameter before they are compared.
        more: parameters that calls do not have.
        pairs: if the section is a mapping, the parameters of its keys and of its values.
        defaults: the objects that references name if an entry does not contain them.
        lends: parameters that nested entries inherit from this entry if they declare them.
        exports: whether a row is written to exports. Objects of every new installation are not.
        secrets: parameters that exports contain only if secrets are requested. If one is required, the whole entry
            is omitted otherwise.
        reveal: (row, decrypt) -> row. Returns the row with its secrets, which are stored encrypted.
        innermost: whether an entry inherits only from its direct container, and not from the containers of that.
        patterns: whether ``{01..10}`` in a value stands for ten objects.
        last: parameters that prevent further additions, with the values that do not. Other values are set after all
            else is loaded.
        after: sections that must be loaded before this one, in addition to sections to which it refers.
    """

    section: str
    create: Command
    create_many: Callable[[Any, Any, Sequence[Any]], Sequence[EntityRef]]
    read: Callable[[Any], Sequence[Values]]
    key: Callable[[Values], Hashable]
    entity: Entity | None = None
    name: str = "name"
    parent: str | None = None
    update: Command | None = None
    update_many: Callable[[Any, Any, Sequence[Change]], None] | None = None
    prepare: Callable[[Any, Any, Sequence[Values]], Sequence[Any]] | None = None
    optional: tuple[str, ...] = ()
    compare: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    more: tuple[Parameter, ...] = ()
    pairs: tuple[str, str] | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    lends: tuple[str, ...] = ()
    exports: Callable[[Values], bool] = lambda _: True
    secrets: tuple[str, ...] = ()
    reveal: Callable[[Values, Callable[[bytes], str]], Values] | None = None
    innermost: bool = False
    patterns: bool = False
    last: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
