"""Every command there is, asked by everybody: closed to whom it is closed to, and never acting on others' things.

Nothing here names a command: one more command is one more stop of the walk.
"""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.domain.accounts import RoleType
from bulkdeploy.services.system import System
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.access.walking import COMMANDS, Walker, content, id_parameters, secret_ids
from tests.lists.world import ADMIN, DOMAIN_ADMIN, RIVAL, USER, World

RESOURCE_ADMIN, RIVAL_ADMIN, DISABLED, DENIED = "resource-admin", "rivals-admin", "disabled-user", "denied-user"
ROLE_TYPES = {
    ADMIN: RoleType.ADMIN,
    RESOURCE_ADMIN: RoleType.RESOURCE_ADMIN,
    DOMAIN_ADMIN: RoleType.DOMAIN_ADMIN,
    RIVAL_ADMIN: RoleType.DOMAIN_ADMIN,
    USER: RoleType.USER,
    RIVAL: RoleType.USER,
}
PEOPLE = """
INSERT INTO roles (name, role_type) VALUES ('denied', 'User');
INSERT INTO role_rules (role_id, rule, permission, sort_order)
    SELECT id, '*', 'deny', 0 FROM roles WHERE name = 'denied';
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT p.name, d.id, p.type, r.id FROM (VALUES ('resource-admin', 'customers', 3, 'Resource Admin'),
        ('rivals-admin', 'rivals', 2, 'Domain Admin'), ('disabled-user', 'acme', 0, 'User'),
        ('denied-user', 'acme', 0, 'denied'), ('rival-project', 'rivals', 5, 'User')) p(name, domain, type, role)
    JOIN domains d ON d.name = p.domain JOIN roles r ON r.name = p.role;
INSERT INTO users (username, account_id, state)
    SELECT name, id, CASE name WHEN 'disabled-user' THEN 'disabled' ELSE 'enabled' END FROM accounts
    WHERE name IN ('resource-admin', 'rivals-admin', 'disabled-user', 'denied-user');
INSERT INTO projects (name, domain_id, account_id) SELECT 'of rival', domain_id, id FROM accounts
    WHERE name = 'rival-project';
INSERT INTO events (event_type, description, account_id)
    SELECT 'VM.STOP', 'x', id FROM accounts WHERE name = 'rival';
UPDATE async_jobs j SET account_id = v.account_id FROM virtual_machines v WHERE v.id = j.instance_id;
UPDATE deployments d SET account_id = v.account_id FROM virtual_machines v WHERE v.deployment_id = d.id
"""


@pytest.fixture(scope="module")
def walker(world: World, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Walker:
    """Somebody who can call as anybody, in a world where everybody owns something of each kind."""
    with world.engine.begin() as connection:
        for statement in PEOPLE.split(";"):
            connection.execute(text(statement))
    settings = Settings(
        database_url=world.engine.url.render_as_string(hide_password=False).replace("+psycopg", ""),
        redis_url=redis_url,
        data_dir=tmp_path_factory.mktemp("walk"),
    )
    system = System(world.engine, build_job_queue(settings), world.cipher, settings.data_dir)
    return Walker(world, Dispatcher(system, find_commands(), refuse_undeclared_fields=True))


def test_reading_is_told_by_the_name() -> None:
    """Commands that are not called as readers are must say that they change something: guards go by it."""
    reading = ("list", "get", "query", "find")
    assert [name for name, one in COMMANDS.items() if one.changes_state == name.startswith(reading)] == []


@pytest.mark.parametrize("by", [None, DISABLED])
def test_without_good_credentials_everything_is_closed(walker: Walker, by: str | None) -> None:
    """Nobody in particular, and a disabled user with good keys, get 401 from every command."""
    open_to_them = [name for name in COMMANDS if walker.call(name, by, {}).status != 401]
    assert open_to_them == []


@pytest.mark.parametrize("by", [*ROLE_TYPES, DENIED])
def test_commands_are_closed_to_other_roles(walker: Walker, by: str) -> None:
    """What a caller's role may not call answers 432 and is not in its listApis; all else is in it."""
    closed = {name for name, command in COMMANDS.items() if by == DENIED or ROLE_TYPES[by] not in command.roles}
    wrong = {name for name in closed if walker.call(name, by, {}).status != 432}
    assert wrong == set()
    if by != DENIED:
        shown = {api["name"] for api in content(walker.call("listApis", by, {}))["api"]}
        assert shown & set(COMMANDS) == set(COMMANDS) - closed


@pytest.mark.parametrize("name", ["Read-Only Admin - Default", "Read-Only User - Default"])
def test_read_only_roles_change_nothing(walker: Walker, name: str) -> None:
    """No default role that only reads may call what changes something."""
    account = f"reader {name}"
    with walker.world.engine.begin() as connection:
        made = "INSERT INTO accounts (name, domain_id, account_type, role_id) SELECT :account, 1, 1, id FROM roles"
        connection.execute(text(f"{made} WHERE name = :role"), {"account": account, "role": name})
        user = "INSERT INTO users (username, account_id) SELECT name, id FROM accounts WHERE name = :account"
        connection.execute(text(user), {"account": account})
    writing = [name for name, command in COMMANDS.items() if command.changes_state]
    assert len(writing) > 10
    assert [name for name in writing if walker.call(name, account, {}).status != 432] == []


@pytest.mark.parametrize(
    ("by", "victim"), [(USER, "rival"), (DOMAIN_ADMIN, "rival"), (RIVAL, "acme"), (RIVAL_ADMIN, "acme")]
)
def test_nobody_acts_on_or_sees_the_things_of_others(walker: Walker, by: str, victim: str) -> None:
    """An id of another account, in any parameter of any command, is refused or finds nothing; no row changes."""
    secrets = secret_ids(walker, victim)
    assert len(secrets) > 10
    problems: list[str] = []
    before = walker.picture()
    for name, command in COMMANDS.items():
        role = ROLE_TYPES[by]
        if role not in command.roles:
            continue
        for parameter, entity in id_parameters(command):
            theirs = walker.thing(entity, victim)
            if theirs is None or role not in parameter.roles:
                continue
            sent = {**walker.plausible(command, by, parameter.name), parameter.name: theirs}
            answer = walker.call(name, by, sent)
            what = f"{name} {parameter.name}={entity.value}: {answer.status} {answer.body[:200]!r}"
            leaked = {uuid for uuid in secrets - set(sent.values()) if uuid.encode() in answer.body}
            if leaked or answer.status not in (200, 431, 531, 535, 536):
                problems.append(what)
            if (answer.status == 200 or command.changes_state) and (after := walker.picture()) != before:
                changed = [table for table in after if after[table] != before[table]]
                problems.append(f"{what} changed {changed}")
                before = after
    assert problems == []


def bad_values(parameter: Parameter) -> Iterator[tuple[str, str, int]]:
    """Values that a parameter cannot have, under the name they are sent by, and the code they get."""
    name, kind = parameter.name, parameter.element or parameter.type
    if parameter.type is WireType.MAP:
        yield f"{name}[x].key", "x", 430
    elif kind is WireType.UUID:
        yield name, str(uuid4()), 431
        if parameter.since is None:
            yield name, "x", 431
            yield name, "9" * 18, 431
    elif kind in (WireType.INTEGER, WireType.LONG, WireType.SHORT, WireType.FLOAT):
        yield name, "1x", 431
        yield name, "9" * 40, 431
    elif kind is WireType.STRING:
        yield name, "x" * (parameter.length + 1), 431
        yield name, "a\x00b", 431
    elif kind in (WireType.DATE, WireType.TZDATE):
        yield name, "yesterday", 431
    if parameter.required and parameter.type is not WireType.MAP and kind is not WireType.BOOLEAN:
        yield name, "", 431


def test_bad_input_changes_nothing(walker: Walker) -> None:
    """Every parameter of every command with every kind of bad value: the code, its name in the text, no change.

    Nor is any of it an error in the log: it is the client's mistake.
    """
    problems: list[str] = []
    before = walker.picture()
    with capture_logs() as log:
        for name, command in COMMANDS.items():
            for parameter in command.parameters:
                good = walker.plausible(command, ADMIN, parameter.name)
                good = {key: value for key, value in good.items() if key.partition("[")[0] != parameter.name}
                cases = [({**good, sent: value}, code) for sent, value, code in bad_values(parameter)]
                if parameter.required:
                    cases.append((good, 431))
                for sent, code in cases:
                    answer = walker.call(name, ADMIN, sent)
                    if answer.status != code or parameter.name.encode() not in answer.body:
                        problems.append(f"{name} {parameter.name} {sent}: {answer.status} {answer.body[:200]!r}")
            if command.changes_state and (after := walker.picture()) != before:
                problems.append(f"{name} changed {[table for table in after if after[table] != before[table]]}")
                before = after
        problems += [str(entry) for entry in log if entry["log_level"] == "error"]
    assert problems == []
