"""Every command there is, asked by everybody: closed to whom it is closed to, and never acting on others' things.

Nothing here names a command: one more command is one more stop of the walk.
"""

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from bulkdeploy.api.wire import WireAnswer
from bulkdeploy.commands.virtual_machines import bulk_operations
from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.domain.accounts.accounts import RoleType
from tests.access.probes import Probe, Scene, probes
from tests.access.tenants import BELOW, DENIED, DISABLED, OPENED, RIVAL_ADMIN, ROLE_TYPES
from tests.access.walking import COMMANDS, Walker, content, secrets_of
from tests.lists.test_shapes import EMPTY
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER

pytestmark = pytest.mark.long

NEVER_GOOD = {
    # There is no setting that is set for a domain.
    "listConfigurations domainid=Domains",
    "updateConfiguration domainid=Domains",
    # No job of the operation is unfinished, nor of the deployment.
    "cancelBulkOperation id=BulkOperations",
    "cancelBulkOperation id=BulkDeployments",
    "listBulkOperations id=BulkDeployments",  # users make single deployments only
    # A walker's only user is the caller, which moves neither itself nor without naming an account.
    "moveUser id=Users",
    "moveUser accountid=Accounts",
    # The first volume of a tenant is attached to no VM, and its first schedule is of another VM than the first.
    "createTemplate domainid=Domains",
    "createTemplate projectid=Projects",
    *(
        f"deleteResourceSchedule {what}"
        for what in ("resourceid=VirtualMachines", "id=VMSchedule", "ids=VMSchedule")
    ),
    "deleteVMSchedule virtualmachineid=VirtualMachines",
    *(f"listResourceSchedule {what}" for what in ("id=VMSchedule", "ids=VMSchedule")),
    # The schedules of tenants are of VMs, and no other account has a permission for their networks.
    "listVMSchedule groupid=InstanceGroups",
    "listVMSchedule deploymentid=BulkDeployments",
    "listNetworkPermissions networkid=Networks",
    # No member has the role of its project, which may therefore be deleted.
    "listProjectAccounts projectroleid=ProjectRole",
}


SELECTING = {operation.name for operation in bulk_operations.OPERATIONS}
"""Commands that select VMs in the right state: ``test_bulk_operations`` shows that owners succeed with these."""


def is_good(probe: Probe) -> bool:
    """Return whether an owner succeeds with the call."""
    return str(probe) not in NEVER_GOOD and probe.command.name not in SELECTING


def test_names_of_commands_say_whether_they_change_anything() -> None:
    """Commands that are not called as readers are must say that they change something: guards go by it."""
    reading = ("list", "get", "query", "find", "generateClusterDrsPlan")
    assert [name for name, one in COMMANDS.items() if one.changes_state == name.startswith(reading)] == []


@pytest.mark.parametrize("by", [None, DISABLED])
def test_without_good_credentials_everything_is_closed(walker: Walker, by: str | None) -> None:
    """Nobody in particular, and a disabled user with good keys, get 401 from every command."""
    open_to_them = [name for name in COMMANDS if walker.call(name, by, {}).status != 401]
    assert open_to_them == []


@pytest.mark.parametrize("by", [*ROLE_TYPES, DENIED])
def test_commands_are_closed_to_other_roles(walker: Walker, by: str) -> None:
    """A command that a role may not call answers 432; listApis has all others that are described."""
    closed = {name for name, command in COMMANDS.items() if by == DENIED or ROLE_TYPES[by] not in command.roles}
    wrong = {name for name in closed if walker.call(name, by, {}).status != 432}
    assert wrong == set()
    if by != DENIED:
        shown = {api["name"] for api in content(walker.call("listApis", by, {}))["api"]}
        described = {name for name, command in COMMANDS.items() if command.described}
        assert shown & set(COMMANDS) == described - closed


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


BY_NUMBER_TOO = (NEIGHBOUR, OPENED)
"""Who names things by number, too: a user of the same domain, and one whose role may call everything."""


def ids(scene: Scene, probe: Probe, theirs: str) -> Iterator[tuple[str, str]]:
    """Ids written in the same way: of another's thing, and of nothing. Newer parameters know no numbers."""
    walker = scene.walker
    yield theirs, str(uuid4())
    (parameter,) = (one for one in probe.command.parameters if one.name == probe.parameter)
    if parameter.since is None and scene.by in BY_NUMBER_TOO:
        yield str(walker.number(probe.entity, theirs)), str(10**17 + 1)


def reported(answer: WireAnswer, named: str) -> tuple[int, str]:
    """An answer, but for what the call named."""
    return answer.status, re.sub(rf"\b{named}\b", "ID", answer.body.decode())


def what_is_wrong(copy: Walker, scene: Scene, probe: Probe, secrets: set[bytes]) -> Iterator[str]:
    """How a stranger's probe was answered otherwise than one that names nothing at all."""
    sent = probe.sent(scene)
    known = probe.is_known_to(scene)
    for pair in ids(scene, probe, sent[probe.parameter]):
        answers = []
        for named in pair:
            answer = copy.call(probe.command.name, scene.by, {**sent, probe.parameter: named})
            answers.append(reported(answer, named))
            given = ",".join([*sent.values(), named]).encode()
            if any(secret in answer.body for secret in secrets if secret not in given):
                yield f"told: {probe} {named} {sent}: {answer.body[:300]!r}"
        if not known and answers[0] != answers[1]:
            yield f"another's is not as nothing: {probe} {sent}: {answers}"
        if known and probe.command.changes_state and answers[0][0] not in (431, 531):
            yield f"not refused: {probe} {sent}: {answers[0]}"


@pytest.mark.parametrize("by", [NEIGHBOUR, RIVAL, RIVAL_ADMIN, BELOW, OPENED])
def test_other_accounts_can_neither_change_nor_see(walker: Walker, postgres_url: str, by: str) -> None:
    """An id of another account, in any parameter of any command, is answered to the letter as an id of nothing.

    So by uuid and by number. No row changes, and no answer tells an id or a name of what the other one owns.
    """
    problems: list[str] = []
    scene, secrets = Scene(walker, by, USER), secrets_of(walker, USER, by)
    role = ROLE_TYPES.get(by, RoleType.USER)
    calls = list(probes(role, opened=by == OPENED))
    with walker.in_a_copy(postgres_url) as copy:
        for with_groups in (False, True):
            if with_groups:
                copy.want_security_groups()
            before = copy.picture()
            for probe in calls:
                if probe.wants_security_groups is with_groups:
                    problems += what_is_wrong(copy, scene, probe, secrets)
            after = copy.picture()
            problems += [f"changed: {table}" for table in after if after[table] != before[table]]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(("by", "role"), [(USER, RoleType.USER), (DOMAIN_ADMIN, RoleType.DOMAIN_ADMIN)])
def test_owners_succeed_where_other_accounts_are_refused(
    walker: Walker, postgres_url: str, by: str, role: RoleType
) -> None:
    """The calls that strangers are refused are good ones: by the owner, or its admin, they are done."""
    problems: list[str] = []
    scene = Scene(walker, by, USER)
    calls = [
        (probe, probe.sent(scene))
        for probe in probes(role)
        if (role is RoleType.USER or RoleType.USER not in probe.command.roles) and is_good(probe)
    ]
    with walker.in_a_copy(postgres_url) as copy:
        with_groups = changed = False
        for probe, sent in sorted(calls, key=lambda call: call[0].wants_security_groups):
            answer = copy.call(probe.command.name, by, sent)
            if probe.wants_security_groups is not with_groups or (changed and not is_done(probe, answer)):
                # The world is another one than it needs, or what was done before stands in its way.
                with_groups = probe.wants_security_groups
                copy.begin_anew(postgres_url, with_security_groups=with_groups)
                changed, answer = False, copy.call(probe.command.name, by, sent)
            if not is_done(probe, answer):
                problems.append(f"{probe} {sent}: {answer.status} {answer.body[:300]!r}")
            changed = changed or probe.command.changes_state
    assert not problems, "\n".join(problems)


UNABLE = {
    "createConsoleEndpoint": b"does not support VNC console (driver",
    "runCustomAction": b"does not support custom actions (driver",
}
"""Commands that hypervisors of the walk have no ability for, and what says so."""


def is_done(probe: Probe, answer: WireAnswer) -> bool:
    """Whether a probe was done, and shows something where there can be anything.

    What simulated hypervisors cannot do is refused once everything else was found right.
    """
    if probe.command.name in UNABLE:
        return answer.status == 431 and UNABLE[probe.command.name] in answer.body
    return answer.status == 200 and bool(content(answer) or probe.command.name in EMPTY)


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
            if not parameter.takes_all:
                yield name, "-1", 431
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
    assert not problems, "\n".join(problems)
