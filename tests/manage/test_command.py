"""Promises of the product's command itself."""

import importlib
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from bulkdeploy.manage.failures import in_words, is_for_the_operator
from bulkdeploy.manage.main import COMMANDS, main
from bulkdeploy.manage.running import announce
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import bulkdeploy


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_exists_and_explains_itself(name: str) -> None:
    """What the help lists can be run, and has a help text of its own."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help


def test_every_module_of_commands_is_listed() -> None:
    """A click command in ``manage`` that nobody can reach does not exist."""
    folder = Path(importlib.import_module("bulkdeploy.manage.main").__file__ or "").parent
    reachable = {target.partition(":")[0] for target, _ in COMMANDS.values()}
    for path in folder.rglob("*.py"):
        module = ".".join(("bulkdeploy.manage", *path.relative_to(folder).with_suffix("").parts))
        if path.stem in ("main", "generate", "__init__"):
            continue
        tops = [one for one in vars(importlib.import_module(module)).values() if isinstance(one, click.Group)]
        assert tops == [] or module in reachable


def test_help_imports_nothing_heavy() -> None:
    """``--help`` answers without loading the database, HTTP or queue libraries."""
    code = (
        "import sys\n"
        "from bulkdeploy.manage.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print(sorted({'sqlalchemy', 'flask', 'celery', 'numpy', 'pydantic'} & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_an_unreachable_database_is_reported_in_one_line(tmp_path: Path) -> None:
    """A database that does not answer is the operator's to mend: no traceback, and the host is named."""
    settings = Settings(data_dir=tmp_path, database_url="postgresql://nobody@127.0.0.1:9/nothing")
    ended = bulkdeploy(settings, "db", "upgrade")
    assert ended.returncode == 1
    assert "127.0.0.1" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_transaction_that_paused_for_too_long_is_reported_in_one_line(engine: Engine) -> None:
    """PostgreSQL ended it: a command may be repeated, and does not show the statement that it was at."""

    def pause_until_it_ends(connection: Connection) -> None:
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 1"))
        while True:
            connection.execute(text("SELECT 1"))
            time.sleep(0.01)

    with engine.connect() as connection, pytest.raises(DBAPIError) as ended:
        pause_until_it_ends(connection)
    assert is_for_the_operator(ended.value)
    assert "SELECT" not in in_words(ended.value)


def test_a_wrong_configuration_file_is_reported_by_its_setting(tmp_path: Path) -> None:
    """A file with a wrong value ends the command, naming the setting."""
    file = tmp_path / "settings.toml"
    file.write_text("api_processes = 0\n")
    ended = bulkdeploy(Settings(data_dir=tmp_path), "--config", str(file), "db", "revision")
    assert ended.returncode == 1
    assert "api_processes" in ended.stderr or "database_url" in ended.stderr


@pytest.mark.parametrize("words", [("audit",), ("db", "revision"), ("admin", "reencrypt")], ids=" ".join)
def test_a_command_beside_up_finds_its_database(
    words: tuple[str, ...], settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    """Without a configured database it uses the services that ``up`` runs in the same data_dir."""
    del engine
    announce(settings.model_copy(update={"data_dir": tmp_path}))
    beside = settings.model_copy(update={"database_url": None, "redis_url": None, "data_dir": tmp_path})
    ended = bulkdeploy(beside, *words)
    assert ended.returncode == 0, ended.stderr
