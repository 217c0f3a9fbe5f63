"""The system that chaos is brought to: real servers and programs, with a proxy before whatever has a socket."""

import http.client
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import yaml
from cryptography.fernet import Fernet
from pydantic import SecretStr
from sqlalchemy import Engine

from bulkdeploy.drivers.simulator.control import Distribution, Latency, Step, set_latency
from bulkdeploy.drivers.simulator.database import connect
from bulkdeploy.embedded.postgres import PORT, SUPERUSER, PostgresServer
from bulkdeploy.embedded.processes import spawn
from bulkdeploy.embedded.valkey import ValkeyServer, free_port
from bulkdeploy.manage import database
from bulkdeploy.manage.programs.programs import API, SWEEPER, WORKER, command_line, environment
from bulkdeploy.manage.zone_files.inventory import load
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.drivers import simulator_url
from bulkdeploy.wiring.settings import Settings
from tests.chaos.proxy import Network, Proxy
from tests.support.api.api_client import ApiClient

DATABASE = "chaos"
SMALL_ZONE = Path(__file__).parents[1] / "zones" / "small.yaml"
APIS = 2
SHORT_WAIT = "lock_timeout=1s"
"""For the thread that pauses workers: one that waits for a paused worker's lock does not let it go on."""

LEASE_S = 5
SWEEP_INTERVAL_S = 0.5
SLOW_BOOT_MS = 1000.0
HOSTS_PER_CLUSTER = 10
RESTART_AFTER_S = 0.3
PATIENCE_S = 180.0
AMPLE = {"user_vm": 10**6, "volume": 10**6, "cpu": 10**6, "memory": "999 TiB", "primary_storage": "9999 TiB"}


@dataclass
class Program:
    """A program that is started again when it ends."""

    name: str
    arguments: Sequence[str]
    settings: Settings
    log: Path
    process: subprocess.Popen[bytes] | None = None
    ended_at: float = 0.0
    starts: int = 0

    def keep_running(self) -> None:
        """Start it if it does not run; from the main thread, and not at once after its end."""
        now = time.monotonic()
        if self.process is not None:
            if self.process.poll() is None:
                return
            self.process, self.ended_at = None, now
        if now < self.ended_at + RESTART_AFTER_S:
            return
        with self.log.open("ab") as output:
            self.process = spawn(
                command_line(tuple(self.arguments)),
                death_signal=signal.SIGKILL,
                output=output,
                environment=environment(self.settings, dict(os.environ)),
            )
        self.starts += 1

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of what it tells those who watch over it.

        Raises:
            OSError: it does not listen.
        """
        host, _, port = str(self.settings.monitoring_listen).rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def end(self) -> None:
        """Kill it for good."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class System:
    """Servers, proxies, programs, and ways past the proxies for those who watch."""

    directory: Path
    postgres: PostgresServer
    valkey: ValkeyServer
    network: Network
    settings: Settings
    direct: Settings
    """The same, past the proxies."""

    proxies: dict[str, Proxy]
    programs: list[Program]
    clients: list[ApiClient]
    """The admin, at each API process by way of its proxy."""

    engine: Engine = field(repr=False)
    """Past the proxy, for those who watch."""

    def keep_running(self) -> None:
        """Start what has ended."""
        for program in self.programs:
            program.keep_running()

    @property
    def workers(self) -> list[Program]:
        """The workers among the programs."""
        return [program for program in self.programs if program.arguments == WORKER]

    @property
    def sweeper(self) -> Program:
        """The sweeper."""
        (sweeper,) = (program for program in self.programs if program.arguments == SWEEPER)
        return sweeper

    @property
    def simulator_url(self) -> str:
        """The simulated hypervisors' database, past the proxy."""
        return simulator_url(self.direct)

    def simulator(self) -> psycopg.Connection:
        """The simulated hypervisors' controls, past the proxy."""
        return connect(self.simulator_url)

    def stop(self) -> None:
        """Stop everything."""
        self.engine.dispose()
        for program in self.programs:
            program.end()
        for proxy in self.proxies.values():
            proxy.close()
        self.network.close()
        self.valkey.stop()
        self.postgres.stop()


def start_system(directory: Path, workers: int) -> System:
    """Servers with a loaded zone; the programs, so many workers among them, are started by ``keep_running``."""
    postgres = PostgresServer(directory / "postgres", directory / "postgres.log")
    valkey = ValkeyServer(directory / "valkey.log")
    postgres.launch()
    valkey.start()
    postgres.wait_until_ready()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    network = Network()
    sockets = directory / "proxy"
    sockets.mkdir(mode=0o700)
    postgres_proxy = Proxy(network, sockets / f".s.PGSQL.{PORT}", postgres.socket_dir / f".s.PGSQL.{PORT}")
    valkey_proxy = Proxy(network, free_port(), valkey.port)
    direct = Settings(
        database_url=postgres.url(DATABASE),
        redis_url=valkey.url(),
        data_dir=directory / "data",
        secret_key=SecretStr(Fernet.generate_key().decode()),
        admin_password=SecretStr("chaos"),
        api_processes=1,
        worker_threads=32,
        lease_seconds=LEASE_S,
        sweep_interval_seconds=SWEEP_INTERVAL_S,
        driver_timeout_seconds=6,
        log_level="WARNING",
        drivers={"default": "simulator"},
    )
    database.prepare(direct)
    watched = f"{postgres.url(DATABASE)}&options={quote(f'-c {SHORT_WAIT}')}"
    engine = create_engine(watched, pool_size=4, application_name="chaos watcher")
    load_zone(direct, directory)
    settings = direct.model_copy(
        update={
            "database_url": f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(sockets), safe='')}",
            "redis_url": valkey.url().replace(f":{valkey.port}/", f":{valkey_proxy.address}/"),
        }
    )
    proxies = {"postgres": postgres_proxy, "valkey": valkey_proxy}
    names = {f"worker-{number}": WORKER for number in range(workers)} | {"sweeper": SWEEPER}
    programs = [
        Program(name, program, _watched(settings), directory / f"{name}.log") for name, program in names.items()
    ]
    with engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    secret = build_cipher(direct).decrypt(admin.secret_key_encrypted)
    clients = []
    for number in range(APIS):
        port = free_port()
        mine = settings.model_copy(update={"listen": f"127.0.0.1:{port}"})
        programs.append(Program(f"api-{number}", API, mine, directory / f"api-{number}.log"))
        proxy = proxies[f"api-{number}"] = Proxy(network, free_port(), port)
        clients.append(ApiClient(f"http://127.0.0.1:{proxy.address}", admin.api_key, secret))
    return System(directory, postgres, valkey, network, settings, direct, proxies, programs, clients, engine)


def _watched(settings: Settings) -> Settings:
    return settings.model_copy(update={"monitoring_listen": f"127.0.0.1:{free_port()}"})


def load_zone(settings: Settings, directory: Path) -> None:
    """The small zone with more hosts, known to the simulator, whose steps take their time."""
    text = SMALL_ZONE.read_text().replace("{1..3}", f"{{1..{HOSTS_PER_CLUSTER}}}")
    for first in (11, 21):
        text = text.replace(f"{{{first}..{first + 2}}}", f"{{{first}..{first + HOSTS_PER_CLUSTER - 1}}}")
    zone = yaml.safe_load(text)
    for holder in _holders(zone):
        holder["limits"] = dict(AMPLE)
    path = directory / "zone.yaml"
    path.write_text(yaml.safe_dump(zone))
    load(settings, path)
    with connect(simulator_url(settings)) as simulator:
        set_latency(simulator, Latency(Step.BOOT, Distribution.EXPONENTIAL, 150))
        set_latency(simulator, Latency(Step.STOP, Distribution.EXPONENTIAL, 60))
        set_latency(simulator, Latency(Step.DELETE, Distribution.EXPONENTIAL, 40))


def _holders(within: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All domains and accounts of a zone file, or in a domain."""
    yield from within.get("accounts", ())
    for domain in within.get("domains", ()):
        yield domain
        yield from _holders(domain)


def slow_hypervisors(simulator: psycopg.Connection) -> None:
    """Let guests take a second to boot, so that jobs are still under way when their worker wakes up."""
    set_latency(simulator, Latency(Step.BOOT, Distribution.EXPONENTIAL, SLOW_BOOT_MS))


def new_directory() -> Path:
    """A directory for one run; other accounts may pass through it to the servers' data."""
    directory = Path(tempfile.mkdtemp(prefix="bulkdeploy-chaos-"))
    directory.chmod(0o755)
    return directory


def remove_directory(directory: Path) -> None:
    """Forget a run's data and logs."""
    shutil.rmtree(directory, ignore_errors=True)
