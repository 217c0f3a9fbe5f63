"""Calling any command there is: good parameters by its declaration, things of any owner, pictures of rows."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import orjson
import psycopg
from sqlalchemy import Connection, text

from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.api.wire import WireAnswer, WireRequest
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare import value_rules
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import ExactlyOne, Needs, Parameter, WireType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.security.signature import sign
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.rows.entities import SOURCES
from bulkdeploy.store.tables import catalog
from bulkdeploy.store.tables.schema import metadata
from tests.access.tenants import OPENED, RIVAL_ADMIN, STOPPED, own
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.processes.services import database_clone
from tests.support.zones.world import ADMIN, RIVAL, World

COMMANDS = {name: command for name, command in find_commands().items() if not command.open}
OF_NOBODY = frozenset({"sessions", "api_calls", "api_keys"})
"""Tables that calls and these tests write as they go."""

TEXTS = {
    "name": "walker",
    "username": "walker",
    "password": "a long enough password",
    "publickey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x",
    "userdata": "aGVsbG8=",
    "url": "http://images.example/walker",
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

BY_RULE = {
    value_rules.IP_ADDRESS: "10.78.0.9",
    value_rules.CIDR: "10.78.0.0/24",
    value_rules.NETMASK: "255.255.255.0",
    value_rules.TIME_ZONE: "UTC",
    value_rules.URL: "http://images.example/walker",
    value_rules.PORT: "623",
}
"""Texts that keep the rules that "x" breaks."""

SUFFIXES = {Entity.VIRTUAL_MACHINE: STOPPED, Entity.VOLUME: "-free", Entity.SNAPSHOT: "-of-volume"}
"""Which of a tenant's things is taken where a call does not want a certain one."""

OF_ACCOUNTS = frozenset(
    {Entity.JOB, Entity.DEPLOYMENT, Entity.BULK_OPERATION, Entity.EVENT, Entity.DEDICATED_VLAN_RANGE}
)
"""Kinds of things of accounts that have no name."""

UNNAMED = {
    Entity.SNAPSHOT_POLICY: "snapshot_policies t JOIN volumes v ON v.id = t.volume_id"
    " WHERE v.name = :name || '-kept'",
    Entity.PROJECT_INVITATION: "project_invitations t JOIN projects p ON p.id = t.project_id WHERE p.name = :name",
    Entity.PROJECT_ROLE: "roles t JOIN projects p ON p.id = t.project_id WHERE p.name = :name",
    Entity.PROJECT_ROLE_PERMISSION: "role_rules t JOIN roles r ON r.id = t.role_id"
    " JOIN projects p ON p.id = r.project_id WHERE p.name = :name",
    Entity.ACCOUNT: "accounts t WHERE t.name = :owner",
    Entity.DOMAIN: "domains t JOIN accounts a ON a.domain_id = t.id WHERE a.name = :owner",
    Entity.USER: "users t JOIN accounts a ON a.id = t.account_id WHERE a.name = :owner",
    Entity.NIC: "nics t JOIN virtual_machines v ON v.id = t.vm_id"
    " WHERE NOT t.is_default AND v.name = :name || '-stopped'",
    Entity.SECONDARY_IP: "nic_secondary_ips t JOIN nics n ON n.id = t.nic_id"
    " JOIN virtual_machines v ON v.id = n.vm_id WHERE v.name = :name || '-stopped'",
    Entity.SECURITY_GROUP_RULE: "security_group_rules t JOIN security_groups g ON g.id = t.security_group_id"
    " WHERE g.name = :name AND t.direction = :suffix",
}
"""Where things are that have no name of their own."""


OWNERSHIP = re.compile(
    rb"does not have permission to (operate|use)|is not a member of this project|does not belong to"
)
"""How a call is refused that names what is not the caller's."""


class Walker:
    """Calls commands in this process as any user of a world, through everything but the socket.

    Not a mock: the dispatcher is what the web application hands every request to.
    """

    def __init__(self, world: World, system: System, commands: Mapping[str, Command] | None = None) -> None:
        self.world, self._system = world, system
        self._dispatcher = Dispatcher(system, commands or find_commands(), refuse_undeclared_fields=True)
        self._things: dict[tuple[Entity, str | None, str], str | None] = {}
        self._named: dict[tuple[str, str], str] = {}
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

    @contextmanager
    def in_a_copy(self, postgres_url: str, commands: Mapping[str, Command] | None = None) -> Iterator["Walker"]:
        """The same in a copy of the world, which goes afterwards: what is done there is not done here.

        ``commands``: others than those that there are.
        """
        self.world.engine.dispose()
        with database_clone(postgres_url, str(self.world.engine.url.database)) as url:
            engine = create_engine(url, pool_size=5)
            system = System(engine, self._system.job_queue, self._system.cipher, self._system.data_dir, SIMULATED)
            copy = Walker(self.world, system, commands)
            copy._things, copy._named = self._things, self._named
            yield copy
            engine.dispose()

    def begin_anew(self, postgres_url: str, *, with_security_groups: bool) -> None:
        """Let this copy be as the world is once more; the engine stays, with all statements that it knows."""
        engine, world = self._system.engine, self.world.engine
        engine.dispose()
        world.dispose()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{engine.url.database}" WITH (FORCE)')
            copied = f'"{engine.url.database}" TEMPLATE "{world.url.database}" STRATEGY FILE_COPY'
            connection.execute(f"CREATE DATABASE {copied}")
        if with_security_groups:
            self.want_security_groups()

    def want_security_groups(self) -> None:
        """From now on the zone and its network have security groups."""
        with self._system.engine.begin() as connection:
            connection.execute(text("UPDATE zones SET security_groups_enabled = true WHERE name = 'small'"))
            offering = "SELECT network_offering_id FROM networks WHERE name = 'guests'"
            added = "services || '[\"SecurityGroup\"]'"
            connection.execute(text(f"UPDATE network_offerings SET services = {added} WHERE id = ({offering})"))

    def named(self, table: str, name: str) -> str:
        """The uuid of something by its name."""
        if (table, name) not in self._named:
            self._named[table, name] = self.world.id_of(table, name)
        return self._named[table, name]

    def connected(self) -> AbstractContextManager[Connection]:
        """Open a connection to the database of this world."""
        return self._system.engine.connect()

    def picture(self) -> dict[str, Any]:
        """What every table holds, in short."""
        with self._system.engine.connect() as connection:
            return {row[0]: tuple(row[1:]) for row in connection.execute(text(self._picture))}

    def thing(self, entity: Entity, owner: str | None, suffix: str = "") -> str | None:
        """The uuid of something of this kind that a tenant owns, or of anything there is; None: there is none.

        ``suffix``: the end of the thing's name, where a tenant has several.
        """
        key = entity, owner, suffix or SUFFIXES.get(entity, "")
        if key not in self._things:
            with self.world.engine.connect() as connection:
                values = {"owner": owner, "name": owner and own(owner), "suffix": key[2]}
                found = connection.execute(text(_select(entity, owner)), values).scalar()
            self._things[key] = None if found is None else str(found)
        return self._things[key]

    def number(self, entity: Entity, uuid: str) -> int:
        """The internal id of something."""
        return int(self.world.scalar(f"SELECT id FROM {SOURCES[entity].table.name} WHERE uuid = :uuid", uuid=uuid))

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
        if parameter.name in TEXTS:
            return TEXTS[parameter.name]
        return BY_RULE[parameter.rule] if parameter.rule in BY_RULE else SAMPLES.get(parameter.type)

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
                fields = [field for field, _ in by_name[name].fields] or ["key"]
                sent[f"{name}[0].{fields[0]}" if by_name[name].type is WireType.MAP else name] = value
        return sent


def is_owned(entity: Entity) -> bool:
    """Whether things of this kind belong to accounts."""
    return entity in UNNAMED or "account_id" in SOURCES[entity].table.c


def id_parameters(command: Command) -> Iterator[tuple[Parameter, Entity]]:
    """The parameters of a command that name things of accounts, with the kinds of things."""
    for parameter in command.parameters:
        for entity in parameter.entity:
            if is_owned(entity):
                yield parameter, entity


def secrets_of(walker: Walker, victim: str, by: str) -> set[bytes]:
    """What only the victim's may see: ids, and the beginning of its names. Its domain is seen by all in it."""
    kinds = {entity for entity in SOURCES if is_owned(entity)}
    if by not in (RIVAL, RIVAL_ADMIN, OPENED):
        kinds -= {Entity.DOMAIN}
    found = {walker.thing(entity, victim) for entity in kinds}
    return {own(victim).encode()} | {uuid.encode() for uuid in found if uuid is not None}


def content(answer: WireAnswer) -> dict[str, Any]:
    """What stands in an answer's envelope."""
    (inner,) = orjson.loads(answer.body).values()
    return dict(inner)


def _select(entity: Entity, owner: str | None) -> str:
    """The newest of the things, where several would do."""
    source = SOURCES[entity]
    if owner is not None and entity in UNNAMED:
        return f"SELECT t.uuid FROM {UNNAMED[entity]} ORDER BY t.id LIMIT 1"
    where = ["t.removed IS NULL"] if "removed" in source.table.c else []
    if source.rows is not None:
        rows = str(source.rows.compile(compile_kwargs={"literal_binds": True}))
        where.append(rows.replace(f"{source.table.name}.", "t."))
    tables, order = f"{source.table.name} t", "t.id"
    if owner is not None:
        tables, order = f"{tables} JOIN accounts a ON a.id = t.account_id", "t.id DESC"
        if entity is Entity.PROJECT:
            where.append("t.name = :name")
        elif entity in OF_ACCOUNTS:
            where.append("a.name = :owner")
        else:
            of_project = ":suffix LIKE '%-project' AND a.name = :owner || '-project'"
            where.append(f"(a.name = :owner OR {of_project}) AND t.{source.name} = :name || :suffix")
    condition = f"WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT t.uuid FROM {tables} {condition} ORDER BY {order} LIMIT 1"
