"""One worker that sleeps, or whose database is away, for longer than its leases; nobody kills it afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from bulkdeploy.embedded.postgres import PORT
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.wiring.settings import Settings
from tests.chaos.proxy import Network, Proxy
from tests.support.processes.programs import program
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done, assert_all_run, paused, proxied, slow_boots, under_way, unfinished
from tests.workers.test_monitoring import get

pytestmark = pytest.mark.long

VMS = 150
ROUNDS = 3
THREADS = 32
BOOT_MS = 1000


def _lines(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def _assert_it_came_to_rest(fleet: Fleet, log: Path, live: str) -> None:
    """Every VM runs, no job took more tries than leases were lost under it, and no try was lost twice."""
    assert_all_run(fleet, VMS)
    assert max(job.attempts for job in fleet.jobs()) <= ROUNDS + 1
    lost = [job for line in _lines(log, "leases_lost") for job in line["jobs"]]
    assert len(lost) <= ROUNDS * VMS
    assert get(live) == (200, '{"status": "live"}')
    assert "Traceback" not in log.read_text()


def test_a_worker_that_sleeps_again_and_again_ends_its_jobs(fleet: Fleet, quick: Settings, tmp_path: Path) -> None:
    """Each time all its jobs are taken from it while it sleeps, and sent to it again: it is the only one."""
    slow_boots(fleet, BOOT_MS)
    log, address = tmp_path / "log", f"127.0.0.1:{free_port()}"
    watched = quick.model_copy(
        update={"monitoring_listen": address, "log_format": "json", "worker_threads": THREADS}
    )
    with program(quick, tmp_path / "sweeper", *SWEEPER), program(watched, log, *WORKER) as worker:
        fleet.deploy(VMS)
        for _ in range(ROUNDS):
            wait_for(lambda: under_way(fleet) >= min(THREADS, unfinished(fleet)))
            with paused(worker):
                wait_for(lambda: under_way(fleet) == 0)
        wait_for(lambda: all_done(fleet))
        _assert_it_came_to_rest(fleet, log, f"http://{address}/health/live")


def test_a_worker_whose_database_is_away_for_longer_than_its_leases_ends_its_jobs(
    fleet: Fleet, quick: Settings, server_folder: Path, tmp_path: Path
) -> None:
    """The database does not answer the worker until others have taken all its jobs from it, again and again."""
    slow_boots(fleet, BOOT_MS)
    url = make_url(quick.require_database_url())
    socket = f".s.PGSQL.{PORT}"
    network = Network()
    proxy = Proxy(network, server_folder / socket, Path(str(url.query["host"])) / socket)
    log, address = tmp_path / "log", f"127.0.0.1:{free_port()}"
    changed = {
        "monitoring_listen": address,
        "log_format": "json",
        "worker_threads": THREADS,
        "database_url": proxied(url, server_folder),
    }
    with (
        program(quick, tmp_path / "sweeper", *SWEEPER),
        program(quick.model_copy(update=changed), log, *WORKER),
    ):
        fleet.deploy(VMS)
        for number in range(ROUNDS):
            wait_for(lambda: under_way(fleet) >= min(THREADS, unfinished(fleet)))
            proxy.hold()
            wait_for(lambda: under_way(fleet) == 0)
            if number % 2:
                proxy.cut()
            proxy.release()
        wait_for(lambda: all_done(fleet))
        _assert_it_came_to_rest(fleet, log, f"http://{address}/health/live")
    proxy.close()
    network.close()
