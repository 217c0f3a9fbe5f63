"""Calling any command there is: plausible parameters by its declaration, things of any owner, pictures of rows."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from sqlalchemy import Table, text

from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.api.wire import WireAnswer, WireRequest
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import ExactlyOne, Needs, Parameter, WireType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.signature import sign
from bulkdeploy.store.entities import SOURCES
from bulkdeploy.store.tables import catalog
from bulkdeploy.store.tables.schema import metadata
from tests.lists.world import ADMIN, World

COMMANDS = {name: command for name, command in find_commands().items() if not command.open}
OF_NOBODY = frozenset({"sessions", "api_calls", "api_keys"})
"""Tables that calls and these tests write as they go."""

TEXTS = {
    "username": "walker",
    "password": "a long enough password",
    "publickey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x",
    "userdata": "aGVsbG8=",
}
SAMPLES = {
    WireType.STRING: "x",
    WireType.INTEGER: "1",
    WireType.LONG: "1",
    WireType.SHORT: "1",
    WireType.FLOAT: "1",
    WireType.BOOLEAN: "true",
    WireType.DATE: "2026-01-31",
    WireType.TZDATE: "2026-01-31T00:00:00+0000",
    WireType.LIST: "x",
    WireType.MAP: "x",
}


class Walker:
    """Calls commands in this process as any user of a world, through everything but the socket.

    Not a mock: the dispatcher is what the web application hands every request to.
    """

    def __init__(self, world: World, dispatcher: Dispatcher) -> None:
        self.world, self._dispatcher = world, dispatcher
        self._things: dict[tuple[Entity, str | None], str | None] = {}
        tables = (table for table in metadata.sorted_tables if table.name not in OF_NOBODY)
        assert catalog
        self._picture = " UNION ALL ".join(
            f"SELECT '{table.name}', count(*), sum(hashtextextended(t::text, 0)) FROM {table.name} t"
            for table in tables
        )

    def call(self, command: str, by: str | None, parameters: Mapping[str, str]) -> WireAnswer:
        """The answer to a signed call; to an unsigned one where nobody calls."""
        sent = {"response": "json", **parameters, "command": command}
        if by is not None:
            client = self.world.client(by)
            sent["apiKey"] = client.api_key
            sent["signature"] = sign(sent, client.secret_key)
        return self._dispatcher.answer(WireRequest(sent, "POST"))

    def picture(self) -> dict[str, Any]:
        """What every table holds, in short."""
        with self.world.engine.connect() as connection:
            return {row[0]: tuple(row[1:]) for row in connection.execute(text(self._picture))}

    def thing(self, entity: Entity, owner: str | None) -> str | None:
        """The uuid of something of this kind that an account owns, or that nobody owns; None: there is none."""
        if (entity, owner) not in self._things:
            with self.world.engine.connect() as connection:
                found = connection.execute(text(_select(entity, owner)), {"owner": owner}).scalar()
            self._things[entity, owner] = None if found is None else str(found)
        return self._things[entity, owner]

    def sample(self, parameter: Parameter, owner: str) -> str | None:
        """A value that a parameter could have in a call of this account; the admin may name anything."""
        if parameter.choices:
            return parameter.choices[0]
        for entity in parameter.entity:
            value = self.thing(entity, owner if is_owned(entity) and owner != ADMIN else None)
            if value is not None:
                return value
        if parameter.entity:
            return None
        if parameter.minimum is not None and parameter.minimum > 1:
            return str(parameter.minimum)
        if parameter.type is WireType.LIST and parameter.element in (WireType.INTEGER, WireType.LONG):
            return "1"
        return TEXTS.get(parameter.name, SAMPLES.get(parameter.type))

    def plausible(self, command: Command, owner: str, with_one: str = "") -> dict[str, str]:
        """Parameters that a call of this account could have, ``with_one`` of them among them."""
        by_name = {parameter.name: parameter for parameter in command.parameters}
        wanted = {name for name, parameter in by_name.items() if parameter.required} | {with_one} - {""}
        for rule in command.rules:
            if isinstance(rule, ExactlyOne) and not wanted & set(rule.names):
                wanted.add(rule.names[0])
        for rule in command.rules * 2:
            if isinstance(rule, Needs) and rule.name in wanted:
                wanted.add(rule.other)
        sent: dict[str, str] = {}
        for name in sorted(wanted):
            value = self.sample(by_name[name], owner)
            if value is not None:
                sent[f"{name}[0].key" if by_name[name].type is WireType.MAP else name] = value
        return sent


def is_owned(entity: Entity) -> bool:
    """Whether things of this kind belong to accounts."""
    return entity in (Entity.ACCOUNT, Entity.DOMAIN, Entity.NIC) or "account_id" in SOURCES[entity].table.c


def id_parameters(command: Command) -> Iterator[tuple[Parameter, Entity]]:
    """The parameters of a command that name things of accounts, with the kinds of things."""
    for parameter in command.parameters:
        for entity in parameter.entity:
            if is_owned(entity):
                yield parameter, entity


def content(answer: WireAnswer) -> dict[str, Any]:
    """What stands in an answer's envelope."""
    (inner,) = orjson.loads(answer.body).values()
    return dict(inner)


def secret_ids(walker: Walker, owner: str) -> set[str]:
    """The ids of everything that an account owns and that only its own may see."""
    found = {walker.thing(entity, owner) for entity in SOURCES if is_owned(entity)}
    return {uuid for uuid in found if uuid is not None}


def _select(entity: Entity, owner: str | None) -> str:
    source = SOURCES[entity]
    table: Table = source.table
    name, columns = table.name, table.c
    where = ["t.removed IS NULL"] if "removed" in columns else []
    if source.kind is not None:
        where.append(f"t.kind = '{source.kind.value}'")
    if "is_public" in columns:
        shared = "SELECT FROM template_permissions p WHERE p.template_id = t.id"
        where.append(f"NOT t.is_public AND NOT EXISTS ({shared})")
    tables = f"{name} t"
    if owner is not None:
        if entity is Entity.ACCOUNT:
            where.append("t.name = :owner")
        elif entity is Entity.DOMAIN:
            tables += " JOIN accounts a ON a.domain_id = t.id"
            where.append("a.name = :owner")
        elif "account_id" in columns:
            tables += " JOIN accounts a ON a.id = t.account_id"
            where.append("a.name IN (:owner, :owner || '-project')")
        elif "vm_id" in columns:
            tables += " JOIN virtual_machines v ON v.id = t.vm_id JOIN accounts a ON a.id = v.account_id"
            where.append("a.name = :owner")
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT t.uuid FROM {tables}{condition} ORDER BY t.id LIMIT 1"
