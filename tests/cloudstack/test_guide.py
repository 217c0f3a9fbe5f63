"""The tutorial docs/tutorials/beside-a-cloudstack.md, command by command, before a double of CloudStack.

The commands run in a shell as the page has them. Only the url of the API, the keys and the folder of the keys are
replaced.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api.session_client import Browser
from tests.support.cloudstack.double import API_KEY, SECRET_KEY, CloudStackDouble, serving
from tests.support.cloudstack.zone import SHARED, SMALL, TEMPLATE, ZONE, id_of
from tests.support.processes.programs import BULKDEPLOY
from tests.support.processes.whole_service import WholeService, whole_service
from tests.support.runs.waiting import PATIENCE_S, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "beside-a-cloudstack.md"
URL_OF_THE_PAGE, FOLDER_OF_THE_PAGE = "https://cloud.example.org/client/api", "/etc/bulkdeploy/"
VMS = 5


def blocks_of(section: str) -> list[str]:
    """Return the code blocks of a section of the page."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"```\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def double() -> CloudStackDouble:
    """A CloudStack with three hosts."""
    return CloudStackDouble({id_of(name): name for name in ("kvm-1", "kvm-2", "kvm-3")})


@pytest.fixture
def url(double: CloudStackDouble) -> Iterator[str]:
    """The url of the double's API."""
    with serving(double) as url:
        yield url


class Shell:
    """A shell in a folder, where ``bulkdeploy`` is the command of this checkout beside a running service."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._environment = {name: value for name, value in os.environ.items() if "BULKDEPLOY" not in name}

    def use(self, service: WholeService) -> None:
        """Let ``bulkdeploy`` mean a service."""
        programs = self._folder / "bin"
        programs.mkdir()
        command = [
            sys.executable,
            *BULKDEPLOY,
            "--config",
            str(service.config),
            "--data-dir",
            str(service.data_dir),
        ]
        (programs / "bulkdeploy").write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
        (programs / "bulkdeploy").chmod(0o755)
        self._environment["PATH"] = f"{programs}:{self._environment['PATH']}"

    def replaced(self, text: str) -> str:
        """Return a text of the page for this double."""
        return text.replace(URL_OF_THE_PAGE, self._url).replace(FOLDER_OF_THE_PAGE, "")

    def run(self, command: str, given: str = "") -> str:
        """Run a line of the page and return its output; it must succeed."""
        ended = subprocess.run(
            ["bash", "-c", self.replaced(command)],
            cwd=self._folder,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a line of the page that runs until it is ended."""
        return subprocess.Popen(
            ["bash", "-c", f"exec {self.replaced(command)}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def rows(admin: Browser, command: str, **parameters: str) -> list[dict[str, str]]:
    """Return the rows of a list call."""
    ((_, body),) = admin.call(command, listall="true", **parameters).json().items()
    return next((value for name, value in body.items() if name != "count"), [])


@pytest.mark.long
def test_the_page_brings_a_bulk_call_to_a_cloudstack(double: CloudStackDouble, url: str, tmp_path: Path) -> None:
    """Keys, settings, check, import, audit; then a bulk call deploys VMs there, and ``follow`` sees a change."""
    shell = Shell(tmp_path, url)
    keys, settings, check, first_import = blocks_of("The first twenty minutes")
    for line, key in zip(keys.splitlines(), (API_KEY, SECRET_KEY), strict=True):
        shell.run(line, given=f"{key}\n")
    assert {(tmp_path / f"upstream.{name}").stat().st_mode & 0o777 for name in ("apikey", "secretkey")} == {0o600}
    config = tmp_path / "bulkdeploy.toml"
    filled = settings.replace('apikey = "..."', f'apikey = "{API_KEY}"').replace('y = "..."', f'y = "{SECRET_KEY}"')
    config.write_text(shell.replaced(filled))

    with whole_service(tmp_path / "data", config) as service:
        shell.use(service)
        assert "missing" not in shell.run(check)
        dry, real, audit = (shell.run(line) for line in first_import.splitlines())
        assert dry.splitlines()[0] == real.splitlines()[0]
        assert "nothing was kept" in dry
        assert "left out" not in real
        assert audit
        admin = Browser(service.url)
        assert admin.login("admin", service.password).ok
        assert {row["name"] for row in rows(admin, "listHosts", type="Routing")} == {"kvm-1", "kvm-2", "kvm-3"}

        call = {"zoneid": ZONE, "serviceofferingid": SMALL, "templateid": TEMPLATE, "networkids": SHARED}
        plan = admin.call("bulkDeployVirtualMachine", virtualmachinecount=str(VMS), dryrun="true", **call)
        assert plan.ok, plan.text
        assert admin.call("bulkDeployVirtualMachine", virtualmachinecount=str(VMS), **call).ok
        wait_for(lambda: len(double.running()) == VMS)
        wait_for(lambda: len(rows(admin, "listVirtualMachines", state="Running")) == VMS)
        assert {row["id"]: row["hostid"] for row in rows(admin, "listVirtualMachines")} == double.running()

        (follow,) = blocks_of("Keep the inventory current")
        following = shell.start(follow.strip())
        try:
            with double.changed("VM.STOP", next(iter(double.running()))) as vm:
                vm.update(state="Stopped")
                del vm["hostid"]
            wait_for(lambda: len(rows(admin, "listVirtualMachines", state="Stopped")) == 1)
        finally:
            following.terminate()
            assert following.wait(PATIENCE_S) == 0
        shell.run("bulkdeploy audit")
    assert double.unexpected == []
