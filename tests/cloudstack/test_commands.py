"""The commands for operators of a CloudStack: what is missing is told before anything is imported."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bulkdeploy.cloudstack.client import Access
from bulkdeploy.manage.main import main
from bulkdeploy.manage.upstream.checking import check_cloudstack
from bulkdeploy.wiring.settings import Settings
from tests.cloudstack.described_client import DescribedClient
from tests.cloudstack.paging_server import API_KEY, SECRET_KEY, paging_server
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import bulkdeploy
from tests.support.zones.world import World


def run(folder: Path, client: ApiClient, *command: str) -> Result:
    """A command with the keys of a client."""
    (folder / "api").write_text(f"{client.api_key}\n")
    (folder / "secret").write_text(client.secret_key)
    keys = ("--apikey", f"@{folder / 'api'}", "--secretkey", f"@{folder / 'secret'}")
    return CliRunner().invoke(main, [*command, "--url", f"{client.url}/client/api", *keys])


def test_a_cloud_that_has_everything_is_told_need_by_need(world: World, tmp_path: Path) -> None:
    """One line for each, and no other call than lists."""
    ended = run(tmp_path, world.client(), "check", "cloudstack", "--calls-per-second", "1000")
    assert ended.exit_code == 0, ended.output
    assert "ok       listVirtualMachines: " in ended.output
    assert "none was made" in ended.output.splitlines()[-1]


def test_a_check_makes_no_call_that_the_oldest_would_refuse(world: World) -> None:
    """Nor does it need one."""
    keys = world.client()
    client = DescribedClient(
        Access(f"{world.url}/client/api", keys.api_key, keys.secret_key, calls_per_second=1000)
    )
    assert [need for need in check_cloudstack(client) if need.remedy] == []
    client.close()


def test_the_first_call_that_is_refused_is_the_last_line(world: World, tmp_path: Path) -> None:
    """A user sees neither domains nor hosts: the remedy says what key to give."""
    ended = run(tmp_path, world.client("acme"), "check", "cloudstack", "--calls-per-second", "1000")
    assert ended.exit_code == 1
    *_, refused, remedy = ended.output.splitlines()
    assert refused.startswith("missing  listDomains: ")
    assert "root admin" in remedy


def test_wrong_keys_are_told_first(tmp_path: Path) -> None:
    """With CloudStack's words."""
    with paging_server() as server:
        client = ApiClient(server.url.removesuffix("/client/api"), API_KEY, f"not {SECRET_KEY}")
        ended = run(tmp_path, client, "check", "cloudstack")
    assert ended.exit_code == 1
    assert "unable to verify user credentials" in ended.output


@pytest.mark.parametrize("given", ["the key itself", "@/nowhere/at/all"])
def test_keys_are_read_from_files_only(given: str) -> None:
    """Others can read command lines."""
    command = ["check", "cloudstack", "--url", "http://127.0.0.1", "--apikey", given, "--secretkey", given]
    ended = CliRunner().invoke(main, command)
    assert ended.exit_code == 2
    assert "Invalid value for '--apikey'" in ended.output


def test_an_import_says_what_it_did(world: World, settings: Settings, tmp_path: Path) -> None:
    """What was created, what was left out and why, and how many calls that took."""
    client = world.client()
    (tmp_path / "api").write_text(client.api_key)
    (tmp_path / "secret").write_text(client.secret_key)
    keys = ("--apikey", f"@{tmp_path / 'api'}", "--secretkey", f"@{tmp_path / 'secret'}")
    url = f"{client.url}/client/api"
    ended = bulkdeploy(settings, "import", "cloudstack", "--url", url, *keys, "--calls-per-second", "1000")
    assert ended.returncode == 0, ended.stderr
    created, *others, calls = ended.stdout.splitlines()
    assert created.startswith("created: 3 domains, ")
    assert any("dedications are not imported" in line for line in others)
    assert calls.endswith(" calls were made")
