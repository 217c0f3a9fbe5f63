"""The value of a secret parameter is in no answer, log line, event or job."""

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from bulkdeploy.commands.registry import find_commands
from tests.access.walking import COMMANDS, Walker
from tests.support.zones.world import ADMIN

MARK = "xyzzyPLUGH"
"""Part of every secret that these tests send."""

VALUES = {
    "with a control character": f"{MARK}\x00",
    "too long": MARK * 200_000,
    "blank at its ends": f" {MARK} ",
    "short": MARK,
    "with signs": f"{MARK}!\"<>&'%00\u00e9",
}
SECRETS = [
    (name, parameter.name)
    for name, command in COMMANDS.items()
    for parameter in command.parameters
    if parameter.is_secret
]


def test_there_are_secret_parameters() -> None:
    """The parameters that carry passwords, keys and user data are known as secrets."""
    expected = {("createUser", "password"), ("updateUser", "usersecretkey"), ("deployVirtualMachine", "userdata")}
    assert expected <= set(SECRETS)
    named = {name for command in find_commands().values() for name in (one.name for one in command.parameters)}
    assert {name for name in named if "password" in name or "secret" in name} <= {
        *("password", "currentpassword", "usersecretkey", "passwordenabled", "passwordhash")
    }


@pytest.mark.parametrize(("command", "parameter"), SECRETS)
def test_no_value_of_a_secret_is_repeated(walker: Walker, postgres_url: str, command: str, parameter: str) -> None:
    """No answer to a rejected call has the value; no log line, event, alert or job has it in any case.

    The answer to a good call may show user data to its owner.
    """
    with walker.in_a_copy(postgres_url) as copy, capture_logs() as log:
        answers = [
            copy.call(command, ADMIN, {**copy.plausible(COMMANDS[command], ADMIN, parameter), parameter: value})
            for value in VALUES.values()
        ]
        with copy.connected() as connection:
            kept = [
                row
                for table in ("events", "async_jobs", "alerts")
                for row in connection.execute(text(f"SELECT t::text FROM {table} t")).scalars()
            ]
    shown = [
        *(answer.body.decode() for answer in answers if answer.status != 200),
        *kept,
        *(str(entry) for entry in log),
    ]
    assert not [line for line in shown if MARK in line]
