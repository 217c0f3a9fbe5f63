"""The example driver of docs/tutorials/drivers.md, as a stranger would use it: built, tested, and put to work."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.processes.programs import api_process, bulkdeploy, program
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import template_database

pytestmark = pytest.mark.long

__all__ = ["template_database"]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "example_driver"
GUIDE = ROOT / "docs" / "tutorials" / "drivers.md"


def run(*arguments: str, cwd: Path, **environment: str) -> str:
    """Run a module of this interpreter to its end; what it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the example was installed into, from its wheel, without any index."""
    folder = tmp_path_factory.mktemp("example")
    source, wheels, site = folder / "source", folder / "wheels", folder / "site"
    copytree(EXAMPLE, source)
    pip = ("pip", "--disable-pip-version-check")
    run(
        *pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source), cwd=folder
    )
    (wheel,) = wheels.glob("*.whl")
    run(*pip, "install", "--no-index", "--no-deps", "--target", str(site), str(wheel), cwd=folder)
    return site


def test_the_guide_shows_the_files_as_they_are() -> None:
    """Driver, packaging and tests stand in docs/tutorials/drivers.md word for word, and the driver is short."""
    shown = re.findall(r"^```(?:python|toml)\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for name in ("bulkdeploy_notebook.py", "pyproject.toml", "test_notebook.py"):
        assert (EXAMPLE / name).read_text() in shown, name
    lines = (EXAMPLE / "bulkdeploy_notebook.py").read_text().splitlines()
    assert sum(bool(line) and not line.startswith(("from ", "import ", '"""')) for line in lines) <= 64


def test_the_installed_example_keeps_the_contract(site: Path, tmp_path: Path) -> None:
    """Its own tests, which subclass the suites that come with the product, pass on what was installed."""
    (tmp_path / "test_notebook.py").write_text((EXAMPLE / "test_notebook.py").read_text())
    reported = run("pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path, PYTHONPATH=f"{site}{os.pathsep}{ROOT}")
    assert re.search(r"^\d\d+ passed", reported, re.MULTILINE), reported


@pytest.fixture
def named(settings: Settings, tmp_path: Path) -> Settings:
    """Settings that name the example for KVM, and nothing for other hypervisors."""
    options = {"notebook": {"path": str(tmp_path / "notebook")}}
    return settings.model_copy(update={"drivers": {"KVM": "notebook"}, "driver": options, "worker_threads": 4})


@pytest.fixture
def service(named: Settings, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a running service that has the example installed."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    log = tmp_path / "programs.log"
    with program(named, log, *WORKER), program(named, log, *SWEEPER), api_process(named, log) as url:
        yield url
    assert "Traceback" not in log.read_text()


@pytest.fixture
def caller(service: str, engine: Engine, cipher: FernetCipher) -> ApiClient:
    """A client of that service."""
    with engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    return ApiClient(service, admin.api_key, cipher.decrypt(admin.secret_key_encrypted))


def finished(caller: ApiClient, command: str, **parameters: object) -> dict[str, Any]:
    """The job of a call, when it has ended."""
    job_id = caller.call(command, **parameters)["jobid"]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        job = caller.call("queryAsyncJobResult", jobid=job_id)
        if job["jobstatus"] != 0:
            assert job["jobstatus"] == 1, job
            return dict(job["jobresult"]["virtualmachine"])
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)


def test_a_service_that_names_it_runs_vms_with_it(caller: ApiClient, named: Settings) -> None:
    """A VM is deployed, audited and destroyed on it; what it cannot do is refused before a job is made."""
    ids = {
        parameter: caller.call(command, **found)[key][0]["id"]
        for parameter, command, key, found in (
            ("zoneid", "listZones", "zone", {}),
            ("serviceofferingid", "listServiceOfferings", "serviceoffering", {"name": "Small"}),
            ("templateid", "listTemplates", "template", {"name": "Debian 12", "templatefilter": "all"}),
        )
    }
    vm = finished(caller, "deployVirtualMachine", **ids)
    assert vm["state"] == "Running"
    audited = bulkdeploy(named, "audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    jobs = caller.call("listAsyncJobs", listall=True)["count"]
    with pytest.raises(ApiFailure, match="does not support live migration") as refused:
        caller.call("migrateVirtualMachine", virtualmachineid=vm["id"], autoselect=True)
    assert refused.value.status == 431
    (root,) = caller.call("listVolumes", virtualmachineid=vm["id"], listall=True)["volume"]
    with pytest.raises(ApiFailure, match="does not support resizing of volumes") as refused:
        caller.call("resizeVolume", id=root["id"], size=50)
    assert refused.value.status == 431
    assert caller.call("listAsyncJobs", listall=True)["count"] == jobs
    finished(caller, "stopVirtualMachine", id=vm["id"])
    assert caller.call("resizeVolume", id=root["id"], size=50)["jobid"]
    finished(caller, "startVirtualMachine", id=vm["id"])
    audited = bulkdeploy(named, "audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert not {"id", "state"} & finished(caller, "destroyVirtualMachine", id=vm["id"], expunge=True).keys()
    assert bulkdeploy(named, "audit").returncode == 0


@pytest.mark.parametrize("command", ["api", "worker", "sweeper", "audit"])
def test_every_program_reports_a_wrong_option_by_its_name(
    command: str, named: Settings, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver without what it needs ends a program at its start, in words and without a traceback."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    ended = bulkdeploy(named.model_copy(update={"driver": {}, "listen": "127.0.0.1:0"}), command)
    assert ended.returncode != 0
    assert "driver.notebook.path (BULKDEPLOY_DRIVER__NOTEBOOK__PATH): Field required" in ended.stderr
    assert "Traceback" not in ended.stderr
