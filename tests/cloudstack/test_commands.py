"""The commands for operators of a CloudStack: what is missing is told before anything is imported."""

from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from bulkdeploy.cloudstack.client import Access
from bulkdeploy.manage.importing import report_lines
from bulkdeploy.manage.main import main
from bulkdeploy.manage.upstream.checking import CHANGING, check_cloudstack
from bulkdeploy.manage.upstream.importing import ImportReport
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
    """One line for each need; the changing calls come last."""
    ended = run(tmp_path, world.client(), "check", "cloudstack", "--calls-per-second", "1000")
    assert ended.exit_code == 0, ended.output
    assert "ok       listVirtualMachines: " in ended.output
    assert ended.output.splitlines()[-1] == "ok       queryAsyncJobResult: is allowed"


def test_a_check_makes_no_call_that_the_oldest_would_refuse(world: World) -> None:
    """Nor does it need one."""
    keys = world.client()
    client = DescribedClient(
        Access(f"{world.url}/client/api", keys.api_key, keys.secret_key, calls_per_second=1000)
    )
    assert [need for need in check_cloudstack(client) if need.remedy] == []
    client.close()


def test_all_calls_that_are_refused_are_told(world: World, tmp_path: Path) -> None:
    """With CloudStack's words; the last line says what key to give."""
    ended = run(tmp_path, world.client("acme"), "check", "cloudstack", "--calls-per-second", "1000")
    assert ended.exit_code == 1
    *lines, remedy = ended.output.splitlines()
    refused = [line for line in lines if line.startswith("missing  ")]
    assert any(
        line.startswith("missing  listDomains: 432 The API [listDomains] does not exist") for line in refused
    )
    assert any(line.startswith("missing  listHosts: 432 ") for line in refused)
    assert any(line.startswith("ok       listZones: ") for line in lines)
    assert "root admin" in remedy


def test_rights_that_a_root_admin_lacks_are_told_before_anything_is_deployed(
    fresh_world: World, tmp_path: Path
) -> None:
    """A role that only reads, but for one list, and that may start what is there."""
    admin = fresh_world.client()
    role = admin.call("createRole", name="reader", type="Admin")["role"]["id"]
    for rule in ("listVolumes", "list*", "queryAsyncJobResult", "start*", "*"):
        permission = "deny" if rule in ("listVolumes", "*") else "allow"
        admin.call("createRolePermission", roleid=role, rule=rule, permission=permission)
    person = {"email": "r@example.org", "firstname": "R", "lastname": "R", "password": "a long password"}
    admin.call("createAccount", username="reader", roleid=role, **person)
    ended = run(tmp_path, fresh_world.client("reader"), "check", "cloudstack", "--calls-per-second", "1000")
    assert ended.exit_code == 1
    *lines, remedy = ended.output.splitlines()
    refused = [line.split(":")[0].removeprefix("missing  ") for line in lines if line.startswith("missing  ")]
    allowed = {"startVirtualMachine", "queryAsyncJobResult"}
    unread = ["the account of the key", "listVolumes"]
    assert refused == [*unread, *(command for command in CHANGING if command not in allowed)]
    assert "role allows these calls" in remedy


def test_wrong_keys_are_told_first(tmp_path: Path) -> None:
    """With CloudStack's words."""
    with paging_server() as server:
        client = ApiClient(server.url.removesuffix("/client/api"), API_KEY, f"not {SECRET_KEY}")
        ended = run(tmp_path, client, "check", "cloudstack")
    assert ended.exit_code == 1
    assert "unable to verify user credentials" in ended.output


@pytest.mark.parametrize("given", ["the key itself", "@/nowhere/at/all", "@/dev/null"])
def test_keys_are_read_from_files_only(given: str) -> None:
    """Others can read command lines; what is no key is told before it is tried."""
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
    given = {"url": url, "apikey": client.api_key, "secretkey": client.secret_key}
    driven = {"drivers": {"default": "cloudstack"}, "driver": {"cloudstack": given}}
    settings = settings.model_copy(update=driven)
    ended = bulkdeploy(settings, "import", "cloudstack", "--url", url, *keys, "--calls-per-second", "1000")
    assert ended.returncode == 0, ended.stderr
    created, *others, calls = ended.stdout.splitlines()
    assert created.startswith("created: 3 domains, ")
    assert any("dedications are not imported" in line for line in others)
    assert calls.endswith(" calls were made")


def test_many_things_that_are_left_out_for_one_reason_are_one_line() -> None:
    """With their number and some of their names; who wants to see each can."""
    broken = [f"virtualmachines web {number} ({uuid4()}): its state is Error" for number in range(1000)]
    others = [f"hosts kvm-1 ({uuid4()}): cannot be read: KeyError('name')", "dedications are not imported: 2"]
    report = ImportReport(left_out=[*others, *broken])
    *lines, _ = report_lines(report, dry_run=True)
    assert lines[1:3] == [f"left out: {text}" for text in others]
    assert len(lines) == 4
    named = ", ".join(text.removeprefix("virtualmachines ").partition(":")[0] for text in broken[:3])
    assert lines[3] == f"left out: 1000 virtualmachines: its state is Error: {named} and 997 more (--each)"
    assert len(report_lines(report, dry_run=True, each=True)) == 1004
