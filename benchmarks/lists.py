"""Every list command at 25,000 hosts, 25,000 VMs, 5,000 accounts and domains: ``make bench-lists``.

In one process, from the signed request to the bytes of the answer, without a socket: statements are counted where
they are run. One JSON object per line on standard output, progress on standard error, a table at the end. With
``HOSTS``, ``VMS`` and ``ACCOUNTS`` in the environment, other sizes.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median
from urllib.parse import quote, urlencode

import structlog
from flask.testing import FlaskClient
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine, event, text

from benchmarks.generation import Size
from benchmarks.ground import BenchmarkZone, ground, say
from bulkdeploy.api.app import create_app
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.responses import Shape
from bulkdeploy.security.signature import sign
from bulkdeploy.services.system import System
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.system import build_job_queue

PAGE = 500
REPEATS = {"page": 9, "all": 3}
EVERYTHING = {
    "listall": "true",
    "showcapacities": "true",
    "templatefilter": "all",
    "isofilter": "all",
}
ALL_HOSTS, ALL_VMS, ALL_ACCOUNTS = 25_000, 25_000, 5_000
HOSTS_PER_CLUSTER, HOSTS_PER_POD = 25, 250

OWNERS = """
INSERT INTO domains (name, parent_id, path, lineage, level)
    SELECT 'd' || i, 1, 'ROOT/d' || i, '', 1 FROM generate_series(1, :accounts) i;
UPDATE domains SET lineage = '/1/' || id || '/' WHERE lineage = '';
INSERT INTO accounts (name, domain_id, account_type, role_id)
    SELECT 'a-' || name, id, 0, 4 FROM domains WHERE name ~ '^d[0-9]+$';
INSERT INTO users (username, account_id, firstname, lastname, email)
    SELECT name, id, 'First', 'Last', name || '@example' FROM accounts WHERE name LIKE 'a-d%';
INSERT INTO projects (name, domain_id, account_id) SELECT 'p-' || name, domain_id, id FROM accounts
    WHERE name LIKE 'a-d%' AND id % 10 = 0;
INSERT INTO security_groups (name, account_id) SELECT 'default', id FROM accounts WHERE name LIKE 'a-d%';
INSERT INTO security_group_rules (security_group_id, direction, protocol, start_port, end_port, cidr)
    SELECT id, 'ingress', 'tcp', 22, 22, '0.0.0.0/0' FROM security_groups;
INSERT INTO affinity_groups (name, affinity_type, account_id, domain_id)
    SELECT 'apart', 'host anti-affinity', id, domain_id FROM accounts WHERE name LIKE 'a-d%';
INSERT INTO ssh_key_pairs (name, account_id, fingerprint, public_key)
    SELECT 'key', id, 'aa:bb', 'ssh-rsa x' FROM accounts WHERE name LIKE 'a-d%';
INSERT INTO instance_groups (name, account_id) SELECT 'web', id FROM accounts WHERE name LIKE 'a-d%';
INSERT INTO user_data (name, account_id, content) SELECT 'data', id, 'aGk=' FROM accounts WHERE name LIKE 'a-d%';
INSERT INTO networks (name, display_text, zone_id, network_offering_id, guest_type, acl_type, account_id, domain_id)
    SELECT 'n-' || a.name, '', z.id, o.id, 'L2', 'Account', a.id, a.domain_id FROM accounts a,
        (SELECT min(id) AS id FROM zones) z, (SELECT min(id) AS id FROM network_offerings) o
    WHERE a.name LIKE 'a-d%';
INSERT INTO resource_tags (resource_type, resource_id, key, value, account_id)
    SELECT 'UserVm', id, 'colour', 'red', account_id FROM virtual_machines;
INSERT INTO events (event_type, description, account_id, resource_type, resource_id, resource_uuid)
    SELECT 'VM.START', 'started', account_id, 'VirtualMachine', id, uuid FROM virtual_machines
"""
"""Owners, and one of everything that each of them owns; a tag and an event of each VM."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One list command, one page of it or all of it.

    Attributes:
        median_ms, p95_ms: from the request to the answer's bytes, in this process and its database.
        statements: how many SQL statements one call runs.
        size_bytes: the answer's body.
    """

    command: str
    rows: int
    whole: bool
    median_ms: float
    p95_ms: float
    statements: int
    size_bytes: int


def main() -> None:
    """Measure every list there is."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    hosts, vms = _requested("HOSTS", ALL_HOSTS), _requested("VMS", ALL_VMS)
    size = Size(
        zones=1,
        pods=max(1, hosts // HOSTS_PER_POD),
        clusters=max(1, hosts // HOSTS_PER_CLUSTER),
        hosts=hosts,
        vms=vms,
    )
    measured: list[Measured] = []
    with ground() as shared, shared.zone(size, audited=False) as bench:
        _add_owners(bench.engine, _requested("ACCOUNTS", ALL_ACCOUNTS))
        client, keys = _client(bench)
        for command in find_commands().values():
            if command.shape is Shape.LIST and command.name.startswith("list"):
                for one in _measure(bench.engine, client, keys, command):
                    measured.append(one)
                    print(json.dumps(asdict(one)), flush=True)
    _show(measured)


def _requested(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


def _add_owners(engine: Engine, accounts: int) -> None:
    began = time.monotonic()
    with engine.begin() as connection:
        for statement in OWNERS.split(";\n"):
            connection.execute(text(statement), {"accounts": accounts} if ":accounts" in statement else {})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    say(f"added {accounts} accounts and domains in {time.monotonic() - began:.0f} s")


def _client(bench: BenchmarkZone) -> tuple[FlaskClient, tuple[str, str]]:
    """The application, and the keys of the first admin."""
    cipher = build_cipher(bench.settings)
    system = System(bench.engine, build_job_queue(bench.settings), cipher, bench.settings.data_dir)
    with bench.engine.connect() as connection:
        admin = admin_row(connection)
    if admin is None:
        raise RuntimeError("the database has no admin")
    return create_app(system).test_client(), (admin.api_key, cipher.decrypt(admin.secret_key_encrypted))


def _measure(engine: Engine, client: FlaskClient, keys: tuple[str, str], command: Command) -> Iterator[Measured]:
    declared = {parameter.name for parameter in command.parameters}
    fixed = {name: value for name, value in EVERYTHING.items() if name in declared}
    missing = {parameter.name for parameter in command.parameters if parameter.required} - fixed.keys()
    if missing:
        say(f"{command.name} needs {', '.join(sorted(missing))}: not measured")
        return
    ways: Mapping[str, dict[str, str]] = {"page": {"page": "1", "pagesize": str(PAGE)}, "all": {"pagesize": "-1"}}
    for way, paging in ways.items():
        if "page" not in declared and way == "page":
            continue
        wanted = {**fixed, **(paging if "page" in declared else {})}
        yield _timed(engine, client, _query(command.name, wanted, keys), command, way)


def _query(name: str, parameters: Mapping[str, str], keys: tuple[str, str]) -> str:
    values = {**parameters, "command": name, "response": "json", "apiKey": keys[0]}
    return "/client/api?" + urlencode({**values, "signature": sign(values, keys[1])}, quote_via=quote)


def _timed(engine: Engine, client: FlaskClient, query: str, command: Command, way: str) -> Measured:
    times: list[float] = []
    body, statements = b"", 0
    for _ in range(REPEATS[way] + 1):
        with _counted(engine) as ran:
            began = time.perf_counter()
            answer = client.get(query)
            body = answer.data
            times.append(1000 * (time.perf_counter() - began))
        if answer.status_code != 200:
            raise RuntimeError(f"{command.name} answered {answer.status_code}: {body[:200]!r}")
        statements = len(ran)
    ((_, inner),) = json.loads(body).items()
    rows = next((len(value) for value in inner.values() if isinstance(value, list)), 0)
    ordered = sorted(times[1:])
    return Measured(
        command=command.name,
        rows=rows,
        whole=way == "all",
        median_ms=round(median(ordered), 2),
        p95_ms=round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 2),
        statements=statements,
        size_bytes=len(body),
    )


@contextmanager
def _counted(engine: Engine) -> Iterator[list[str]]:
    """The statements that the engine runs inside the block."""
    ran: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        ran.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield ran
    finally:
        event.remove(engine, "before_cursor_execute", note)


def _show(measured: list[Measured]) -> None:
    """The slowest first."""
    table = Table(title=f"Lists: a page of {PAGE}, and all there is")
    for name in ("command", "rows", "median ms", "p95 ms", "statements", "KiB"):
        table.add_column(name, justify="left" if name == "command" else "right")
    for one in sorted(measured, key=lambda each: -each.median_ms):
        what = f"{one.command}{' (all)' if one.whole else ''}"
        table.add_row(
            what,
            str(one.rows),
            f"{one.median_ms:.1f}",
            f"{one.p95_ms:.1f}",
            str(one.statements),
            f"{one.size_bytes / 1024:.0f}",
        )
    Console(stderr=True).print(table)


if __name__ == "__main__":
    main()
