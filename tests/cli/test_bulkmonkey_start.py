"""What bulkmonkey loads before it answers: libraries that a command does not use are most of its time."""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import Monkey
from tests.support.runs.waiting import PATIENCE_S

LOADED = """
import json, os, sys
from bulkdeploy.cli.program import run_program
status = run_program(os.environ, sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""
OF_WAITING = {"rich.progress", "bulkdeploy.cli.deployments.following"}
OF_OTHERS = {"yaml", "prompt_toolkit", "bulkdeploy.cli.planning.balance", "bulkdeploy.cli.console", *OF_WAITING}
OF_CALLS = {"requests", "urllib3", "bulkdeploy.cli.api_commands", "bulkdeploy.cli.connection.transport"}


@pytest.mark.parametrize(
    ("words", "used", "not_used"),
    [
        (["--help"], {"rich.table"}, OF_CALLS | OF_OTHERS),
        (["list", "zones", "--help"], {"rich.table"}, OF_CALLS | OF_OTHERS),
        (["help", "balance"], {"rich.table"}, OF_CALLS | OF_OTHERS),
        (["list", "zones"], OF_CALLS, OF_OTHERS),
    ],
)
def test_only_what_a_command_uses_is_loaded(
    monkey: Monkey, words: list[str], used: set[str], not_used: set[str]
) -> None:
    """Help that is kept loads no HTTP client, and a list nothing that waits for jobs."""
    assert monkey("sync").status == 0
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words],
        env=monkey.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    status, modules = json.loads(done.stderr.splitlines()[-1])
    assert status == 0
    assert set(modules) & (used | not_used) == used
