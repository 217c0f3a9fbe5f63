"""Runs CloudStack's integration tests against the service and compares the results with those that are expected.

``python -m tests.marvin CHECKOUT PYTHON [FILE...]`` takes a source tree of CloudStack 4.23 or similar, an
interpreter with Marvin's dependencies, and names of files in ``test/integration/smoke`` (default: all of them).
Each of ``--zones`` services of its own has a zone that Marvin's ``deployDataCenter.py`` makes from the unmodified
``setup/dev/advanced.cfg``; only the address and the keys of the management server are replaced. Files run one
after the other in each zone.
"""

import argparse
import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import BinaryIO
from urllib.parse import urlsplit

from tests.marvin.described_commands import described_commands
from tests.marvin.results import PAGE, Outcome, compare, page, read_outcomes, save, table
from tests.support.api.api_client import ApiClient
from tests.support.processes.whole_service import WholeService, whole_service

RUNNER = Path(__file__).with_name("run_tests.py")
TAGS = "tags=advanced,required_hardware=false"
"""The filter of CloudStack's own continuous integration for its simulator."""

TEMPLATE = "CentOS 5.6 (64-bit) no GUI (Simulator)"

COUNTING = frozenset({"test_list_domains", "test_list_volumes"})
"""Files whose tests count all things of a kind in the zone: they run before others leave such things behind."""

FILE_SECONDS = 1800
"""Longest time that one file of tests may run."""

MARVIN_ADDRESS = "127.0.0.1:8080"
"""The address that some tests use, whatever the configuration of Marvin says. The first service has it, if free."""

SETTINGS = """\
api_processes = 1
worker_processes = 1

[fetch]
allowed_networks = ["127.0.0.0/8"]
"""


@dataclass(frozen=True, slots=True)
class Marvin:
    """Marvin with a client that its own code generator wrote.

    Attributes:
        checkout: the source tree of CloudStack.
        python: an interpreter that has Marvin's dependencies.
        folder: where the copy of Marvin, logs and results are.
    """

    checkout: Path
    python: Path
    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of Marvin's programs."""
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return {**os.environ, "PYTHONPATH": str(self.folder / "marvin"), "PATH": path}

    def generate(self, service: WholeService) -> None:
        """Copy Marvin and let its code generator write the client of the service."""
        shutil.copytree(self.checkout / "tools" / "marvin", self.folder / "marvin")
        offered = _administrator(service).call("listApis")["api"]
        commands = described_commands(self.checkout, offered)
        answer = {"listapisresponse": {"count": len(commands), "api": commands}}
        (self.folder / "apis.json").write_text(json.dumps(answer))
        (self.folder / "marvin" / "marvin" / "cloudstackAPI").mkdir(exist_ok=True)
        program = (
            "import codegenerator as g, sys\n"
            "generator = g.CodeGenerator('.')\n"
            "for command in generator.loadCmdFromJSON(open(sys.argv[1])): generator.generate(command)\n"
            "generator.finalize()\n"
        )
        command = [str(self.python), "-c", program, str(self.folder / "apis.json")]
        subprocess.run(command, cwd=self.folder / "marvin" / "marvin", check=True, env=self.environment)

    def deploy_zone(self, service: WholeService, config: Path) -> None:
        """Make the zone of ``setup/dev/advanced.cfg`` with Marvin's own program.

        Raises:
            CalledProcessError: Marvin reported that the zone could not be made.
        """
        lines = (self.checkout / "setup" / "dev" / "advanced.cfg").read_text().splitlines()
        content = json.loads("\n".join(line for line in lines if not line.strip().startswith("#")))
        address = urlsplit(service.url)
        admin = _administrator(service)
        keys = {"apiKey": admin.api_key, "securityKey": admin.secret_key}
        content["mgtSvr"][0] |= {"mgtSvrIp": address.hostname, "port": address.port, **keys}
        content["logger"]["LogFolderPath"] = str(config.parent)
        config.write_text(json.dumps(content))
        program = self.folder / "marvin" / "marvin" / "deployDataCenter.py"
        with config.with_suffix(".log").open("wb") as log:
            command = [str(self.python), str(program), "-i", str(config)]
            subprocess.run(command, cwd=config.parent, check=True, env=self.environment, stdout=log, stderr=log)

    def seed(self, service: WholeService) -> None:
        """Make the offerings and the template that a new CloudStack has, and that its tests look for."""
        admin = _administrator(service)
        for name, mhz, mib in (("Small Instance", 500, 512), ("Medium Instance", 1000, 1024)):
            admin.call("createServiceOffering", name=name, displaytext=name, cpunumber=1, cpuspeed=mhz, memory=mib)
        for name, gib in (("Small", 5), ("Medium", 20), ("Large", 100)):
            admin.call("createDiskOffering", name=name, displaytext=f"{name} Disk, {gib} GB", disksize=gib)
        admin.call("createDiskOffering", name="Custom", displaytext="Custom Disk", customized=True)
        admin.call(
            "registerTemplate",
            name=TEMPLATE,
            displaytext=TEMPLATE,
            url="http://127.0.0.1/template.qcow2",
            format="QCOW2",
            hypervisor="Simulator",
            ostypeid=admin.call("listOsTypes", description="CentOS 5.6 (64-bit)")["ostype"][0]["id"],
            zoneid=admin.call("listZones")["zone"][0]["id"],
            ispublic=True,
            isfeatured=True,
        )

    def run_file(self, name: str, config: Path) -> Iterable[tuple[str, Outcome]]:
        """Run the tests of one file, if the filter leaves any, and return the outcome of each of them."""
        report = self.folder / "reports" / f"{name}.txt"
        collected = report.with_name(f"{name}-collected.txt")
        report.parent.mkdir(exist_ok=True)
        with report.with_suffix(".log").open("wb") as log, contextlib.suppress(subprocess.TimeoutExpired):
            self._run_nose(name, collected, log, config.parent, "--collect-only")
            if collected.read_text():
                options = ["--with-marvin", f"--marvin-config={config}", f"--log-folder-path={config.parent}"]
                options += ["--zone=Sandbox-simulator", "--hypervisor=simulator"]
                self._run_nose(name, report, log, config.parent, *options)
        return read_outcomes(name, collected, report)

    def _run_nose(self, name: str, report: Path, log: BinaryIO, folder: Path, *options: str) -> None:
        tests = self.checkout / "test" / "integration" / "smoke" / f"{name}.py"
        command = [str(self.python), str(RUNNER), str(report), str(tests), "-s", "-a", TAGS, *options]
        subprocess.run(
            command, cwd=folder, env=self.environment, stdout=log, stderr=log, timeout=FILE_SECONDS, check=False
        )


def main() -> None:
    """Run the tests, print a table, and end with 1 if a result differs from the expected one."""
    parser = argparse.ArgumentParser(prog="python -m tests.marvin", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="source tree of CloudStack")
    parser.add_argument("python", type=Path, help="interpreter with Marvin's dependencies")
    parser.add_argument("files", nargs="*", help="files of test/integration/smoke, such as test_accounts")
    parser.add_argument("--zones", type=int, default=1, help="services, each with a zone, that share the files")
    parser.add_argument("--folder", type=Path, help="where reports and logs are written")
    parser.add_argument("--save", action="store_true", help="write the results as those that are expected")
    given = parser.parse_args()
    smoke = given.checkout / "test" / "integration" / "smoke"
    files = given.files or sorted(path.stem for path in smoke.glob("test_*.py"))
    files = sorted(files, key=lambda name: name not in COUNTING)
    folder = (given.folder or Path(mkdtemp(prefix="marvin-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"Reports are written to {folder}.\n")
    outcomes = dict(_run(Marvin(given.checkout.absolute(), given.python.absolute(), folder), files, given.zones))
    if given.save:
        save(outcomes)
        PAGE.write_text(page())
    sys.stdout.write(table(outcomes))
    differences = compare(outcomes, files)
    sys.stdout.write("".join(f"{line}\n" for line in differences))
    sys.exit(1 if differences else 0)


def _run(marvin: Marvin, files: list[str], zones: int) -> Iterator[tuple[str, Outcome]]:
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in files:
        waiting.put(name)
    found: queue.SimpleQueue[tuple[str, Outcome]] = queue.SimpleQueue()
    generated = threading.Lock()
    failures: list[BaseException] = []

    def serve(number: int) -> None:
        try:
            _serve(marvin, number, waiting, found, generated)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(zones)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    while not found.empty():
        yield found.get()


def _serve(
    marvin: Marvin,
    number: int,
    waiting: "queue.SimpleQueue[str]",
    found: "queue.SimpleQueue[tuple[str, Outcome]]",
    generated: threading.Lock,
) -> None:
    place = marvin.folder / f"zone-{number}"
    place.mkdir()
    settings = place / "settings.toml"
    settings.write_text(SETTINGS)
    listen = MARVIN_ADDRESS if number == 0 and _is_free(MARVIN_ADDRESS) else "127.0.0.1:0"
    with whole_service(place / "data", settings, listen=listen) as service:
        with generated:
            if not (marvin.folder / "apis.json").exists():
                marvin.generate(service)
        config = place / "advanced.cfg"
        marvin.deploy_zone(service, config)
        marvin.seed(service)
        while not waiting.empty():
            name = waiting.get()
            begun = time.monotonic()
            outcomes = list(marvin.run_file(name, config))
            passed = sum(outcome is Outcome.PASSED for _, outcome in outcomes)
            sys.stdout.write(f"{name}: {passed} of {len(outcomes)} passed, {time.monotonic() - begun:.0f} s\n")
            sys.stdout.flush()
            for entry in outcomes:
                found.put(entry)


def _is_free(address: str) -> bool:
    """Return whether a service can listen at an address."""
    host, _, port = address.partition(":")
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex((host, int(port))) != 0


def _administrator(service: WholeService) -> ApiClient:
    found = json.loads(service.run("admin", "credentials", "--json"))
    return ApiClient(f"{service.url}/client/api", found["apikey"], found["secretkey"])


if __name__ == "__main__":
    main()
