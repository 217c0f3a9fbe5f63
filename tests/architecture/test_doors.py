"""Who starts programs and who opens connections is listed; a new place says why callers cannot choose a target."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source_files import nodes_of
from tests.architecture.test_imports import SOURCES, module_of

PROGRAMS: Mapping[str, str] = {
    "bulkdeploy.processes.run_program": "allocators and extensions, which the settings file names",
    "bulkdeploy.embedded": "PostgreSQL and Valkey of the product's own wheels",
    "bulkdeploy.manage.programs.stack": "the product's own programs",
    "bulkdeploy.manage.backups": "PostgreSQL's own programs for backups, on the machine of whoever runs it",
    "bulkdeploy.cli.shell.shell": "the user's own shell, on the user's machine",
    "bulkdeploy.cli.output.screen": "the user's own pager, on the user's machine",
}
CONNECTIONS: Mapping[str, str] = {
    "bulkdeploy.security.guarded_fetch": "checks and pins every address",
    "bulkdeploy.security.network_addresses": "asks the kernel for its own addresses; sends nothing",
    "bulkdeploy.drivers.vnc": "screens of guests, at the addresses of hosts",
    "bulkdeploy.drivers.exchanges.streams": "socket pairs within the process",
    "bulkdeploy.drivers.exchanges.cluster_http": "clusters that the driver's options name",
    "bulkdeploy.drivers.incus": "the cluster that the driver's options name",
    "bulkdeploy.drivers.libvirt.hosts": "looks up the address of a host whose url was checked",
    "bulkdeploy.drivers.ganeti": "the cluster that the driver's options name",
    "bulkdeploy.drivers.cloudstack": "the cloud that the driver's options name",
    "bulkdeploy.cloudstack.client": "the cloud that the driver's options, or the operator, name",
    "bulkdeploy.cloudstack.exchanges": "the same, and the API that the profile of a client names",
    "bulkdeploy.embedded": "the embedded servers, on loopback",
    "bulkdeploy.manage": "the product's own programs, on loopback",
    "bulkdeploy.cli": "the service that the user names, from the user's machine",
    "bulkdeploy.confd": "answers datagrams",
    "bulkdeploy.api": "listens",
    "bulkdeploy.services": "passes sockets of consoles on",
    "bulkdeploy.drivers.abilities.consoles": "passes sockets of consoles on",
    "bulkdeploy.drivers.extension.driver": "passes sockets of consoles on",
    "bulkdeploy.drivers.extension.extension_call": "passes sockets of consoles on",
    "bulkdeploy.drivers.libvirt.driver": "passes sockets of consoles on",
    "bulkdeploy.drivers.libvirt.console": "passes sockets of consoles on",
    "bulkdeploy.drivers.contract_suites": "reads consoles in tests of drivers",
    "bulkdeploy.provisioning.running.job_runner": "reads the machine's name",
    "bulkdeploy.queue.celery_app": "options of the broker's sockets",
    "bulkdeploy.store.ledger.addresses": "reads addresses as numbers",
    "bulkdeploy.wiring.opentelemetry": "reads the machine's name",
    "workers.app": "reads the machine's name",
}
STARTERS = {"subprocess", "pty"}
"""Modules that start programs; so do these functions of ``os``."""

EXECUTES = ("system", "popen", "exec", "spawn", "posix_spawn")
CONNECTORS = {"socket", "requests", "urllib3", "urllib.request", "http.client", "ftplib", "smtplib", "telnetlib"}
RESTARTS = ("bulkdeploy.manage.", "bulkdeploy.cli.concealment")
"""They replace themselves by the product's own program, on the machine of whoever runs it."""

SHELL = {"bulkdeploy.cli.shell.shell", "bulkdeploy.cli.output.screen"}


def imported(path: Path) -> set[str]:
    """The modules that a file imports."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
    return found


def strangers(listed: Mapping[str, str], modules: set[str]) -> Iterator[str]:
    """Modules of the product that import one of these and are not listed, nor is a package of theirs."""
    for path in SOURCES:
        name = module_of(path)
        if imported(path) & modules and not any(f"{name}.".startswith(f"{one}.") for one in listed):
            yield name


def test_programs_are_started_in_listed_places_only() -> None:
    """A path that a caller can choose never gets to one of them."""
    assert list(strangers(PROGRAMS, STARTERS)) == []


def test_nothing_is_executed_by_other_functions() -> None:
    """``os.system`` and its kind are nowhere."""
    calls = [
        f"{module_of(path)}: {ast.unparse(node.func)}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if ast.unparse(node.func.value) == "os" and node.func.attr.startswith(EXECUTES)
    ]
    assert [call for call in calls if not call.startswith(RESTARTS)] == []


def test_connections_are_opened_in_listed_places_only() -> None:
    """A URL that a caller can choose gets to ``guarded_fetch`` and to no other."""
    assert list(strangers(CONNECTIONS, CONNECTORS)) == []


def test_a_shell_runs_on_the_machine_of_its_user_only() -> None:
    """The service gives no text to a shell."""
    shells = {
        module_of(path)
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.keyword) and node.arg == "shell" and not _is_false(node.value)
    }
    assert shells == SHELL


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
