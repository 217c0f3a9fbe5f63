"""A small catalogue of entities to bind against, and a short way to bind a request."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from bulkdeploy.declare.binding import Binder, Kinds
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import Parameter, Rule
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity, EntityRef

ZONE = EntityRef(Entity.ZONE, 7, UUID("11111111-2222-3333-4444-555555555555"), "zone-1")
POD = EntityRef(Entity.POD, 8, UUID("11111111-2222-3333-4444-666666666666"), "pod-1")
KNOWN = {str(ref.uuid): ref for ref in (ZONE, POD)} | {"7": ZONE, "8": POD}


class Catalogue:
    """A look-up that remembers whether it was asked."""

    def __init__(self) -> None:
        self.requested: list[Mapping[Kinds, Sequence[str]]] = []

    def __call__(self, wanted: Mapping[Kinds, Sequence[str]]) -> dict[Kinds, dict[str, EntityRef]]:
        """What is known of the ids wanted."""
        self.requested.append({kinds: texts for kinds, texts in wanted.items() if texts})
        return {
            kinds: {text: KNOWN[text.lower()] for text in texts if text.lower() in KNOWN}
            for kinds, texts in wanted.items()
        }


def bind(
    parameters: Sequence[Parameter],
    given_texts: Mapping[str, str],
    rules: tuple[Rule, ...] = (),
    role: RoleType | None = RoleType.ADMIN,
) -> dict[str, Any]:
    """Bind a request to a command of these parameters and rules."""
    command = Command(
        "makeThing", "makes a thing", lambda _: None, Shape.SUCCESS, parameters=tuple(parameters), rules=rules
    )
    return Binder(command).bind(given_texts, role, Catalogue())
