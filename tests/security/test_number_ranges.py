"""No number that a caller sends, however large or small, makes a call fail inside."""

from collections.abc import Iterator

import orjson
import pytest
from structlog.testing import capture_logs

from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.domain.accounts.accounts import RoleType
from tests.access.probes import BESIDE, Scene
from tests.access.walking import COMMANDS, Walker
from tests.support.zones.world import ADMIN, USER

pytestmark = pytest.mark.long

NUMBERS = frozenset({WireType.INTEGER, WireType.LONG, WireType.SHORT, WireType.FLOAT})
EDGES = tuple(sign * (2**bits + step) for bits in (15, 31, 63) for step in (-1, 0, 1) for sign in (1, -1))
"""The numbers around the ends of the ranges that a database column of two, four or eight bytes has."""


BYTES = {WireType.SHORT: 2, WireType.INTEGER: 4, WireType.LONG: 8}


def number_parameters(name: str) -> Iterator[Parameter]:
    """Yield the parameters of a command that take a number, or a list of numbers."""
    for parameter in COMMANDS[name].parameters:
        if (parameter.element or parameter.type) in NUMBERS:
            yield parameter


def is_out_of_range(parameter: Parameter, value: int) -> bool:
    """Return whether the declaration of a parameter excludes a value."""
    bits = 8 * BYTES.get(parameter.element or parameter.type, 8) - 1
    least = -(2**bits) if parameter.minimum is None else parameter.minimum
    most = 2**bits - 1 if parameter.maximum is None else parameter.maximum
    return not least <= value <= most


def good_call(walker: Walker, name: str, parameter: Parameter) -> tuple[str, dict[str, str]]:
    """Return a caller and the parameters of a call that is good but for one number."""
    by = USER if RoleType.USER in COMMANDS[name].roles else ADMIN
    sent = walker.plausible(COMMANDS[name], by, parameter.name)
    scene = Scene(walker, by, USER)
    for other, value in BESIDE.get(name, {}).items():
        if isinstance(value, str):
            sent[other] = value
        elif value is not None and by == USER:
            sent[other] = value(scene)
    return by, sent


@pytest.mark.parametrize("name", [name for name in COMMANDS if any(number_parameters(name))])
def test_no_number_fails_inside(walker: Walker, postgres_url: str, name: str) -> None:
    """Every number parameter accepts or rejects numbers around the ends of all ranges.

    A number outside of the declared range is rejected with 431 and a text that names the parameter and the number.
    """
    wrong: list[str] = []
    with walker.in_a_copy(postgres_url) as copy, capture_logs() as log:
        for parameter in number_parameters(name):
            by, sent = good_call(copy, name, parameter)
            for value in EDGES:
                answer = copy.call(name, by, {**sent, parameter.name: str(value)})
                error = orjson.loads(answer.body).popitem()[1].get("errortext", "")
                named = parameter.name in error and str(value) in error
                if answer.status == 530 or (
                    is_out_of_range(parameter, value) and (answer.status, named) != (431, True)
                ):
                    wrong.append(f"{parameter.name}={value}: {answer.status} {answer.body[:200]!r}")
        wrong += [str(entry) for entry in log if entry["log_level"] == "error"]
    assert not wrong, "\n".join(wrong)
