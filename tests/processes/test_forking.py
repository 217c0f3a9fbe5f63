"""Promises of programs that tests fork instead of starting."""

import importlib

import pytest

from bulkdeploy.manage.main import COMMANDS
from tests.support.processes.forking import FORKED_COMMANDS, IMPORTED


@pytest.mark.parametrize("module", IMPORTED)
def test_what_is_imported_before_forks_exists(module: str) -> None:
    """Python skips what it cannot import there, and each fork would import the product again."""
    assert importlib.import_module(module)


def test_only_commands_without_http_are_forked() -> None:
    """The library of metrics reads once, when it is imported, where an API server counts."""
    assert set(COMMANDS) - set(FORKED_COMMANDS) == {"up", "api", "demo", "confd", "iallocator"}
