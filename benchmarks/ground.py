"""What all rows stand on: embedded servers as `bulkdeploy up` runs them, and databases cloned from templates.

PostgreSQL keeps its default durability (fsync, full page writes, synchronous commit). A zone is generated
once per size, then every row works on a copy of its own, which is dropped afterwards.
"""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from cryptography.fernet import Fernet
from pydantic import SecretStr
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from benchmarks.generation import Size, generate_zones, register_with_hypervisors
from bulkdeploy.embedded.postgres import PostgresServer
from bulkdeploy.embedded.processes import spawn
from bulkdeploy.embedded.processes import stop as stop_process
from bulkdeploy.embedded.valkey import ValkeyServer, free_port
from bulkdeploy.manage import database
from bulkdeploy.manage.auditing.audit import check
from bulkdeploy.manage.programs.programs import command_line, environment
from bulkdeploy.wiring.drivers import simulator_url
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_engine

PATIENCE_S = 60.0
REDIS_DATABASES = 64
LARGE = Size(zones=1, pods=100, clusters=1000, hosts=25_000, vms=100_000)
LISTED = Size(zones=1, pods=100, clusters=1000, hosts=25_000, vms=25_000)
EMPTY = Size(zones=1, pods=10, clusters=100, hosts=2_500, vms=0)
_numbers = itertools.count()


class NotIntact(Exception):
    """The audit found something after a row: its figures count for nothing."""


@dataclass
class Ground:
    """The servers, and one template database per size of zone."""

    directory: Path
    postgres: PostgresServer
    valkey: ValkeyServer
    templates: dict[Size, str] = field(default_factory=dict)
    secret: str = field(default_factory=lambda: Fernet.generate_key().decode())
    redis_numbers: Iterator[int] = field(default_factory=lambda: itertools.cycle(range(1, REDIS_DATABASES)))

    def settings(self, name: str) -> Settings:
        """Settings on the database of this name and an own number of Valkey's."""
        return Settings(
            database_url=with_database(self.postgres.url(), name),
            redis_url=self.valkey.url(next(self.redis_numbers)),
            data_dir=self.directory / "data",
            secret_key=SecretStr(self.secret),
            admin_password=SecretStr("benchmark"),
            log_level="WARNING",
            drivers={"default": "simulator"},
        )

    def template(self, size: Size) -> str:
        """The name of a database with a zone of this size, and its simulated hypervisors beside it."""
        if size not in self.templates:
            name = f"template_{len(self.templates)}"
            began = time.monotonic()
            self._statement(f'CREATE DATABASE "{name}"')
            settings = self.settings(name)
            database.prepare(settings)
            engine = build_engine(settings)
            try:
                generate_zones(engine, size, prefix="bench")
                register_with_hypervisors(engine, simulator_url(settings))
            finally:
                engine.dispose()
            for each in (name, f"{name}_simulator"):
                with psycopg.connect(with_database(self.postgres.url(), each), autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")
            self.templates[size] = name
            say(f"generated {size.hosts} hosts, {size.vms} VMs in {time.monotonic() - began:.0f} s")
        return self.templates[size]

    @contextmanager
    def zone(self, size: Size, *, audited: bool = True) -> Iterator["BenchmarkZone"]:
        """A copy of the template to work on; on leaving it is audited, then dropped.

        Raises:
            NotIntact: the audit found a breach.
        """
        template = self.template(size)
        name = f"bench_{next(_numbers)}"
        for suffix in ("", "_simulator"):
            self._statement(f'CREATE DATABASE "{name}{suffix}" TEMPLATE "{template}{suffix}" STRATEGY FILE_COPY')
        settings = self.settings(name)
        engine = build_engine(settings, application_name="bulkdeploy bench", least_pool_size=20)
        bench = BenchmarkZone(settings, engine, self)
        try:
            with bench.programs:
                yield bench
            if audited:
                bench.audit()
        finally:
            engine.dispose()
            for suffix in ("", "_simulator"):
                self._statement(f'DROP DATABASE "{name}{suffix}" WITH (FORCE)')

    def _statement(self, statement: str) -> None:
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


@dataclass
class GeneratedZone:
    """A database with a generated zone."""

    settings: Settings
    engine: Engine


@dataclass
class BenchmarkZone(GeneratedZone):
    """One row's own database and message broker, and the programs that it started on them."""

    ground: Ground
    programs: ExitStack = field(default_factory=ExitStack)

    def start(self, program: Sequence[str], settings: Settings | None = None) -> subprocess.Popen[bytes]:
        """Start a program (arguments of the interpreter) that ends with the row, or before by ``end``."""
        log = (self.ground.directory / f"{program[-1]}-{next(_numbers)}.log").open("ab")
        process = spawn(
            [sys.executable, *program],
            death_signal=signal.SIGKILL,
            output=log,
            environment=environment(settings or self.settings, dict(os.environ)),
        )
        log.close()
        self.programs.callback(end, process)
        return process

    def api(
        self, program: Sequence[str] = ("-m", "bulkdeploy.manage.main", "api"), settings: Settings | None = None
    ) -> "Api":
        """An API server with its configured number of processes, ready to serve."""
        settings = (settings or self.settings).model_copy(update={"listen": f"127.0.0.1:{free_port()}"})
        process = self.start(command_line(tuple(program))[1:], settings)
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(f"{settings.url}/health/ready"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NotIntact(f"{program} did not become ready")
            time.sleep(0.05)
        return Api(settings, process)

    def audit(self, without: frozenset[str] = frozenset()) -> None:
        """Check every invariant but those named, and the rows against the simulated hypervisors.

        Raises:
            NotIntact: there are breaches.
        """
        findings = [one for one in check(self.settings) if one.name not in without]
        breaches = [f"{one.name}: {breach}" for one in findings for breach in one.breaches]
        say(f"audit: {sum(one.compared for one in findings)} checked, {len(breaches)} breaches")
        if breaches:
            raise NotIntact("; ".join(breaches[:5]))

    def simulator_pids(self) -> list[int]:
        """The database sessions in which simulated hypervisors keep their accounting."""
        with psycopg.connect(simulator_url(self.settings), autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'bulkdeploy-simulator'"
            )
            return [row[0] for row in rows]


@dataclass(frozen=True)
class Api:
    """A running API server."""

    settings: Settings
    process: subprocess.Popen[bytes]


@contextmanager
def ground() -> Iterator[Ground]:
    """Start the servers in a directory of their own; stop them and remove it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="bulkdeploy-bench-"))
    directory.chmod(0o755)
    postgres = PostgresServer(directory / "postgres", directory / "postgres.log")
    valkey = ValkeyServer(directory / "valkey.log", databases=REDIS_DATABASES)
    try:
        postgres.launch()
        valkey.start()
        postgres.wait_until_ready()
        yield Ground(directory, postgres, valkey)
    finally:
        valkey.stop()
        postgres.stop()
        shutil.rmtree(directory, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program politely, else by force; harmless when it has ended."""
    stop_process(process, signal.SIGTERM, patience_seconds=20)


def with_database(url: str, name: str) -> str:
    """``url`` pointing at another database of the same server."""
    return make_url(url).set(database=name).render_as_string(hide_password=False)


def say(words: str) -> None:
    """Tell who watches what goes on, beside the report."""
    print(f"# {words}", file=sys.stderr, flush=True)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own http URL
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
