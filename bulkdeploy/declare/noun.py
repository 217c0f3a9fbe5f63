"""A noun: one kind of object in zone files, described by the commands that create and change it.

An entry of a file is bound as a call is (``declare.binding``), and created or changed by what the calls use: a call
is a batch of one. Nouns stand beside their commands, as ``NOUNS`` of a module of ``commands``.
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

    Texts are compared in any case.
    """
    return lambda values: tuple(_folded(values.get(name)) for name in names)


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Noun:
    """A section of a zone file.

    Attributes:
        section: its key in the file; entries stand in a list.
        create: the command whose parameters an entry has; those of ``update`` and ``more`` may stand beside them.
        create_many: makes things of bound entries, in their order; (connection, caller, entries) -> what was made.
        read: (connection) -> the live things as rows: ``_id``, ``_uuid``, and their values by parameter name, with
            internal ids for references. What it leaves out (a password) is written when a thing is made and never
            compared. ``_within``, where no parameter names what a thing stands in: its entity and internal id.
        key: what makes an entry and a row the same thing; it gets values with internal ids for references.
        entity: what others refer to it as, by the text of ``name``; None: nothing refers to it.
        parent: the parameter that names what it stands in: an export lists it there.
        update: the command that changes it; None: ``create_many`` sets what is there as well (a setting, a limit).
        update_many: (connection, caller, changes) -> nothing.
        prepare: what ``create_many`` gets in place of entries, as of ``Command.prepare``: (connection, system,
            entries) -> one per entry.
        optional: parameters that calls must give and entries need not.
        compare: how values of a parameter are brought into one form before they are compared.
        more: parameters that calls do not have.
        pairs: the section is a mapping: the parameters that its keys and its values are.
        defaults: what a reference names where an entry says nothing.
        lends: parameters that entries nested in this one have from it where they declare them.
        exports: whether a row is written to exports; not so what every installation has.
        secrets: parameters that exports have only where secrets are asked for; with a required one the whole entry.
        reveal: the row with its secrets, where they are kept encrypted: (row, decrypt) -> row.
        innermost: an entry has from what it stands in the innermost thing only, and not what that stands in.
        patterns: whether ``{01..10}`` in a value stands for ten things.
        last: parameters that keep others from being added, and the values that do not: any other value is set when
            all else is loaded.
        after: sections that must be loaded before, beyond those that it refers to.
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
