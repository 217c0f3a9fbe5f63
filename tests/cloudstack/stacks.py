"""Two whole stacks, one in front of the other: the same zone on both sides, as after an import."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bulkdeploy.drivers.cloudstack.driver import CloudStackDriver
from bulkdeploy.drivers.cloudstack.options import CloudStackOptions
from bulkdeploy.drivers.registry import FindsDrivers
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.provisioning.running.job_runner import RunnerOptions
from bulkdeploy.services.system import System
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.driver_records import records_in
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.chaos.proxy import Network, Proxy
from tests.support.processes.programs import BULKDEPLOY, Process, program, wait_for
from tests.support.zones.fleet import OPTIONS, Fleet
from tests.support.zones.zone_queries import Zone

PATIENCE_S = 900.0
COMMAND = re.compile(r"\bcommand=(\w+)")
"""In a signed request."""


@dataclass
class Upstream:
    """A stack whose API, worker and sweeper are processes; they can be killed and started again."""

    fleet: Fleet
    settings: Settings
    log: Path
    _running: dict[str, Process] = field(default_factory=dict)
    _begun: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        """Of its API."""
        return f"http://{self.settings.listen}/client/api"

    def start(self, *programs: str) -> None:
        """Start some of ``api``, ``worker`` and ``sweeper``."""
        for name in programs:
            process = self._begun.enter_context(program(self.settings, self.log, *BULKDEPLOY, name))
            self._running[name] = process
        if "api" in programs:
            wait_for(f"{self.settings.api_monitoring_url}/health/ready", self._running["api"], self.log)

    @property
    def port(self) -> int:
        """Of its API."""
        return int(self.settings.listen.rpartition(":")[2])

    def kill(self, *programs: str) -> None:
        """End some of its programs with signal 9."""
        for name in programs:
            self._running[name].kill()
        for name in programs:
            self._running[name].wait()

    def end(self) -> None:
        """End what runs."""
        self._begun.close()

    def hosts(self) -> dict[str, str]:
        """By the names of its VMs that run: their hosts' names; a name that two have fails."""
        rows = self.fleet.zone.rows(
            "SELECT v.name, h.name AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
            " WHERE v.removed IS NULL AND v.state = 'Running'"
        )
        assert len({row.name for row in rows}) == len(rows)
        return {row.name: row.host for row in rows}


@contextmanager
def upstream_stack(fleet: Fleet, log: Path, **changed: object) -> Iterator[Upstream]:
    """A fleet's API, worker and sweeper, as processes."""
    listen = f"127.0.0.1:{free_port()}"
    settings = fleet.settings.model_copy(
        update={"listen": listen, "sweep_interval_seconds": 0.3, "worker_threads": 8, "api_processes": 1, **changed}
    )
    made = Upstream(fleet, settings, log)
    try:
        made.start("worker", "sweeper", "api")
        yield made
    finally:
        made.end()


@dataclass(frozen=True)
class Between:
    """What goes between a front and its upstream.

    Attributes:
        proxy: cuts, truncates, withholds and slows it.
        url: of the upstream, through the proxy.
        received: the calls that the upstream got, by command.
    """

    proxy: Proxy
    url: str
    received: Counter[str]


@contextmanager
def proxied(upstream: Upstream) -> Iterator[Between]:
    """What goes between a front and this upstream."""
    network, port = Network(), free_port()
    received: Counter[str] = Counter()
    proxy = Proxy(network, port, upstream.port, lambda piece: received.update(COMMAND.findall(piece.decode())))
    try:
        yield Between(proxy, f"http://127.0.0.1:{port}/client/api", received)
    finally:
        proxy.close()
        network.close()


def options_for(upstream: Upstream) -> dict[str, object]:
    """Options of the driver, as the upstream's admin."""
    with upstream.fleet.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    return {
        "url": upstream.url,
        "apikey": admin.api_key,
        "secretkey": upstream.fleet.system.cipher.decrypt(admin.secret_key_encrypted),
        "calls_per_second": 1000,
    }


@contextmanager
def front_stack(upstream: Upstream, database_url: str, redis_database: int, **options: object) -> Iterator[Fleet]:
    """A service on a database of its own, whose hypervisors are the upstream's hosts."""
    theirs = upstream.fleet
    engine = create_engine(database_url, pool_size=80)
    given = options_for(upstream) | options
    redis_url = f"{theirs.settings.require_redis_url().rpartition('/')[0]}/{redis_database}"
    settings = theirs.settings.model_copy(
        update={
            "database_url": database_url,
            "redis_url": redis_url,
            "drivers": {"default": "cloudstack"},
            "driver": {"cloudstack": given},
        }
    )
    driver = CloudStackDriver.from_options(CloudStackOptions.model_validate(given))
    driver.use_records(records_in(engine, lambda _: True))
    system = System(
        engine, build_job_queue(settings), theirs.system.cipher, settings.data_dir, theirs.system.drivers
    )
    zone = Zone(engine)
    zone.change("UPDATE templates SET password_enabled = false")  # the upstream takes none from outside
    try:
        yield Fleet(engine, settings, system, zone, driver, theirs.control, theirs.caller)  # type: ignore[arg-type]
    finally:
        driver.close()
        engine.dispose()


def front_settings(front: Fleet) -> Settings:
    """Of the front's programs, with the shortest lease."""
    return front.settings.model_copy(
        update={"lease_seconds": 5, "sweep_interval_seconds": 0.3, "worker_threads": 64}
    )


def assert_equal_on_both_sides(front: Fleet, upstream: Upstream, vms: int) -> None:
    """Each VM once, on the same host; audits find nothing on either side."""
    rows = front.zone.rows(
        "SELECT v.name, h.name AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
        " WHERE v.state = 'Running'"
    )
    assert {row.name: row.host for row in rows} == upstream.hosts()
    assert len(rows) == len(list(front.driver.list_guests())) == vms
    front.assert_intact()
    upstream.fleet.assert_intact()


def run_to_the_end(front: Fleet, options: RunnerOptions = OPTIONS, drivers: FindsDrivers | None = None) -> None:
    """Run the front's jobs until none is left."""
    end = time.monotonic() + PATIENCE_S
    while front.zone.scalar("SELECT count(*) FROM async_jobs WHERE status = 0"):
        assert time.monotonic() < end, [row.progress for row in front.jobs()]
        front.run(options=options, drivers=drivers)
        time.sleep(0.1)
