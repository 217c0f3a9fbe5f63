"""A call that changes state is one transaction, opened by the dispatcher: all or nothing, whatever happens."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.api.wire import WireAnswer, WireRequest
from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command, SuccessText
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import TransactionConflict, WriteWhereReading, after_commit
from tests.support.api.api_client import ApiClient

NAME = "name of a test"
CONFLICTS = 2


class Trial:
    """Calls of a command whose handler a test gives, and what they did."""

    def __init__(self, system: System, client: ApiClient) -> None:
        self._system = system
        self._client = client
        self.sent: list[int] = []

    def __call__(self, handler: Callable[..., Any], prepare: Callable[[Call], Any] | None = None) -> WireAnswer:
        """The answer."""
        command = Command(
            "tryThing", "", handler, Shape.SUCCESS, roles=EVERY_ROLE, changes_state=True, prepare=prepare
        )
        return Dispatcher(self._system, {command.name: command}).answer(
            WireRequest(self._client.signed("tryThing"))
        )

    def write(self, call: Call) -> None:
        """Write a row; after the commit send how many there are."""
        call.connection.execute(
            text("INSERT INTO configuration_values (scope, scope_id, name, value) VALUES ('global', 0, :name, '')"),
            {"name": NAME},
        )
        after_commit(call.connection, lambda engine: self.sent.append(rows(engine)))


def rows(engine: Engine) -> int:
    """How many rows were committed."""
    counted = text("SELECT count(*) FROM configuration_values WHERE name = :name")
    with engine.connect() as connection:
        return int(connection.execute(counted, {"name": NAME}).scalar_one())


@pytest.fixture
def trial(system: System, client: ApiClient) -> Trial:
    """A command to try."""
    return Trial(system, client)


@pytest.fixture
def conflicts() -> Iterator[list[str]]:
    """The transaction of a call loses its first CONFLICTS races, each at its commit."""
    lost: list[str] = []

    def lose(place: str) -> None:
        if place == f"{Failpoint.CALL_COMMIT}.before" and len(lost) < CONFLICTS:
            lost.append(place)
            raise TransactionConflict

    failpoints.arm(lose)
    yield lost
    failpoints.arm(None)


def test_a_repeated_call_is_done_once(trial: Trial, engine: Engine, conflicts: list[str]) -> None:
    """The handler runs anew as a whole: one effect, one sending after the commit, one answer."""
    handled: list[int] = []

    def handle(call: Call) -> SuccessText:
        handled.append(len(handled) + 1)
        trial.write(call)
        return SuccessText(f"attempt {handled[-1]}")

    answer = trial(handle)
    assert (answer.status, len(conflicts), handled) == (200, CONFLICTS, [1, 2, 3])
    assert b"attempt 3" in answer.body
    assert (rows(engine), trial.sent) == (1, [1])


def test_what_a_command_prepares_is_not_repeated(trial: Trial, engine: Engine, conflicts: list[str]) -> None:
    """It runs once, before the transaction, where it can read and not write; each attempt gets its result."""
    prepared: list[str] = []
    received: list[str] = []

    def prepare(call: Call) -> str:
        with pytest.raises(WriteWhereReading):
            trial.write(call)
        prepared.append(str(call.connection.execute(text("SELECT 'once'")).scalar_one()))
        return "hash"

    def handle(call: Call, hashed: str) -> None:
        received.append(hashed)
        trial.write(call)

    assert trial(handle, prepare).status == 200
    assert (prepared, received, len(conflicts)) == (["once"], ["hash"] * (CONFLICTS + 1), CONFLICTS)
    assert (rows(engine), trial.sent) == (1, [1])


@pytest.mark.parametrize("error", [InvalidParameter("name", "x", "it must be y"), RuntimeError("a fault")])
def test_a_handler_that_raises_leaves_nothing_and_sends_nothing(
    trial: Trial, engine: Engine, error: Exception
) -> None:
    """Whatever went wrong after the write: it was never there."""

    def handle(call: Call) -> None:
        trial.write(call)
        raise error

    assert trial(handle).status == (431 if isinstance(error, InvalidParameter) else 530)
    assert (rows(engine), trial.sent) == (0, [])


def test_an_error_that_a_handler_returns_is_answered_and_keeps_what_was_done(trial: Trial, engine: Engine) -> None:
    """A refusal may leave its mark: a wrong password is counted."""

    def handle(call: Call) -> InvalidParameter:
        trial.write(call)
        return InvalidParameter("name", "x", "it must be y")

    assert trial(handle).status == 431
    assert (rows(engine), trial.sent) == (1, [1])


def test_a_preparation_that_raises_begins_no_transaction(trial: Trial, engine: Engine) -> None:
    """The hypervisor does not answer, so nothing is tried."""

    def prepare(_: Call) -> None:
        raise InvalidParameter("url", "x", "nobody there")

    assert trial(trial.write, prepare).status == 431
    assert (rows(engine), trial.sent) == (0, [])
