"""A parameter with hundreds of values costs no more than its values: no statement grows with their number.

PostgreSQL plans every condition, subquery and join of a statement; the time of planning grows with a power of their
number. A list that was filtered by 400 tags took minutes and gigabytes of the server's memory.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import Engine

from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.store.database.engine import create_reading_engine
from tests.access.walking import COMMANDS, Walker
from tests.security.test_number_ranges import good_call

pytestmark = pytest.mark.long

FEW, MANY = 3, 600
PARTS = re.compile(r"\b(SELECT|JOIN|AND|OR)\b")


def many_parameters(name: str) -> Iterator[Parameter]:
    """Yield the parameters of a command that take any number of values."""
    for parameter in COMMANDS[name].parameters:
        if parameter.type in (WireType.MAP, WireType.LIST):
            yield parameter


def values(parameter: Parameter, sample: str | None, count: int) -> dict[str, str]:
    """So many values of a parameter: different ones where anything is accepted, else the same one again."""
    if parameter.type is WireType.LIST:
        return {parameter.name: ",".join([sample or "x"] * count)}
    fields = [name for name, _ in parameter.fields] or ["key", "value"]
    return {
        f"{parameter.name}[{at}].{field}": f"{field}{at}" if field in ("key", "value") else "1"
        for at in range(count)
        for field in fields[: 1 + at % 2]
    }


@contextmanager
def counted() -> Iterator[list[int]]:
    """The parts of each statement that reads or changes rows, in the order in which they are executed."""
    parts: list[int] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if not statement.lstrip().upper().startswith("INSERT"):
            parts.append(len(PARTS.findall(statement)))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield parts
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("name", [name for name in COMMANDS if any(many_parameters(name))])
def test_no_statement_grows_with_the_number_of_values(walker: Walker, postgres_url: str, name: str) -> None:
    """The largest statement of a call has as many conditions with hundreds of values as with a few."""
    wrong: list[str] = []
    with walker.in_a_copy(postgres_url) as copy:
        for parameter in many_parameters(name):
            by, sent = good_call(copy, name, parameter)
            rest = {key: value for key, value in sent.items() if key.partition("[")[0] != parameter.name}
            largest = []
            for count in (FEW, MANY):
                with counted() as parts:
                    answer = copy.call(name, by, rest | values(parameter, copy.sample(parameter, by), count))
                largest.append(max(parts, default=0))
                if answer.status == 530:
                    wrong.append(f"{parameter.name} x {count}: {orjson.loads(answer.body)}")
            if largest[1] > largest[0] + 20:
                wrong.append(f"{parameter.name}: {largest[0]} parts with {FEW} values, {largest[1]} with {MANY}")
    assert not wrong, "\n".join(wrong)


def test_a_list_does_not_occupy_the_server_for_ever(database_url: str) -> None:
    """The server itself ends a statement for reading, even if its caller has gone."""
    engine = create_reading_engine(database_url)
    with engine.connect() as connection:
        assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "1min"
    engine.dispose()
