"""Commands are found by looking into the folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bulkdeploy.commands
from bulkdeploy.commands.registry import DuplicateCommand, find_commands
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.store.database.default_rows import USER_READS

DECLARATION = """
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.responses import Shape
COMMANDS = (Command("{name}", "", print, Shape.SUCCESS),)
"""


@pytest.fixture
def extra_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that counts as one of commands for the test."""
    monkeypatch.setattr(bulkdeploy.commands, "__path__", [*bulkdeploy.commands.__path__, str(tmp_path)])
    for name in [name for name in sys.modules if name.startswith("bulkdeploy.commands.extra")]:
        monkeypatch.delitem(sys.modules, name)
    find_commands.cache_clear()
    yield tmp_path
    find_commands.cache_clear()


def test_commands_are_found_by_name() -> None:
    """What a module declares is there under its own name, in alphabetical order."""
    commands = find_commands()
    assert {"login", "logout", "listApis", "listCapabilities"} <= commands.keys()
    assert list(commands) == sorted(commands)
    assert all(name == command.name for name, command in commands.items())


def test_a_new_module_is_enough(extra_folder: Path) -> None:
    """Adding a command is adding a file."""
    (extra_folder / "extra_one.py").write_text(DECLARATION.format(name="tryOne"))
    assert "tryOne" in find_commands()


@pytest.mark.parametrize("name", ["listApis", "LISTAPIS"])
def test_duplicates_are_refused(extra_folder: Path, name: str) -> None:
    """Two declarations of one name, even in different case, stop the process at its start."""
    (extra_folder / "extra_two.py").write_text(DECLARATION.format(name=name))
    with pytest.raises(DuplicateCommand, match="apis"):
        find_commands()


def test_only_what_comes_before_a_login_is_open() -> None:
    """Nothing else can be called without credentials: login, logout, and two empty lists of ways to log in."""
    open_to_all = {name for name, command in find_commands().items() if command.open}
    assert open_to_all == {"login", "logout", "listGuiThemes", "listIdps", "listOauthProvider"}


def test_root_admins_may_call_everything() -> None:
    """There is no command that is not for root admins."""
    assert all(RoleType.ADMIN in command.roles for command in find_commands().values())


def test_default_user_roles_read_what_users_may_read() -> None:
    """The read-only user role names every reading command meant for users, and no other."""
    commands = find_commands().values()
    for_users = {each.name for each in commands if RoleType.USER in each.roles and not each.changes_state}
    assert set(USER_READS) == for_users


def test_job_results_are_declared() -> None:
    """Whatever object an asynchronous command promises, the calls that show jobs declare for ``jobresult``."""
    commands = find_commands()
    promised = {
        command.response for command in commands.values() if command.shape is Shape.JOB and command.response
    }
    for name in ("queryAsyncJobResult", "listAsyncJobs", "bulkDeployVirtualMachine"):
        response = commands[name].response
        assert response is not None
        result = next(field for field in response.fields if field.name == "jobresult")
        declared = {field.name: field.fields for field in result.fields}
        assert {response.key: response.fields for response in promised}.items() <= declared.items()
        assert {"success", "errorcode", "errortext"} <= declared.keys()
