"""Sentinels know where Redis is: a failover loses no job."""

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from bulkdeploy.embedded.valkey import binary, free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import program
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done, assert_all_run, slow_boots, under_way

pytestmark = pytest.mark.long

PASSWORD = "of the servers"
SERVER = ["save ''", "appendonly no", f'requirepass "{PASSWORD}"', f'masterauth "{PASSWORD}"']
WATCHES = [
    "sentinel monitor jobs 127.0.0.1 {primary} 1",
    f'sentinel auth-pass jobs "{PASSWORD}"',
    "sentinel down-after-milliseconds jobs 1000",
    "sentinel failover-timeout jobs 5000",
]


@dataclass
class Watched:
    """A primary, its replica, and a Sentinel that watches them."""

    servers: dict[int, "subprocess.Popen[bytes]"]
    sentinel: int

    @property
    def url(self) -> str:
        """What `redis_url` says; the second Sentinel is not there."""
        password = PASSWORD.replace(" ", "%20")
        return f"sentinel://:{password}@127.0.0.1:{free_port()},127.0.0.1:{self.sentinel}/3?master=jobs"

    def primary(self) -> int:
        """The port that the Sentinel names now."""
        with Redis(port=self.sentinel) as link:
            return int(link.sentinel_get_master_addr_by_name("jobs")[1])

    def kill(self, port: int) -> None:
        """End a server with signal 9."""
        self.servers[port].kill()
        self.servers[port].wait()


def served(place: Path, port: int, lines: list[str], *arguments: str) -> "subprocess.Popen[bytes]":
    """A process of Valkey with such a file of settings."""
    file = place / f"{port}.conf"
    file.write_text("\n".join(["bind 127.0.0.1", f"port {port}", f"dir {place}", *lines, ""]))
    with (place / "valkey.log").open("ab") as log:
        return subprocess.Popen([binary(), file, *arguments], stdout=log, stderr=log)


def answers(port: int, password: str | None) -> bool:
    """Whether a server is up."""
    try:
        with Redis(port=port, password=password) as link:
            return bool(link.ping())
    except RedisError:
        return False


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """They are up, and the Sentinel knows of the replica."""
    primary, replica, sentinel = free_port(), free_port(), free_port()
    servers = {primary: served(tmp_path, primary, SERVER)}
    try:
        wait_for(lambda: answers(primary, PASSWORD))
        servers[replica] = served(tmp_path, replica, [*SERVER, f"replicaof 127.0.0.1 {primary}"])
        wait_for(lambda: answers(replica, PASSWORD))
        watches = [line.format(primary=primary) for line in WATCHES]
        servers[sentinel] = served(tmp_path, sentinel, watches, "--sentinel")
        wait_for(lambda: answers(sentinel, None))
        with Redis(port=sentinel) as link:
            wait_for(lambda: bool(link.sentinel_slaves("jobs")))
        yield Watched(servers, sentinel)
    finally:
        for server in servers.values():
            server.send_signal(signal.SIGKILL)
            server.wait()


def test_a_failover_loses_no_job(fleet: Fleet, quick: Settings, watched: Watched, tmp_path: Path) -> None:
    """The primary dies under load; calls and workers find the new one, and every VM runs once."""
    slow_boots(fleet, 200)
    settings = quick.model_copy(update={"redis_url": watched.url})
    jobs = CeleryJobQueue(watched.url)
    fleet.system = replace(fleet.system, job_queue=jobs)
    with program(settings, tmp_path / "log", *SWEEPER), program(settings, tmp_path / "log", *WORKER):
        fleet.deploy(40)
        wait_for(lambda: under_way(fleet) > 0)
        first = watched.primary()
        watched.kill(first)
        wait_for(lambda: watched.primary() != first)
        fleet.deploy(20)
        wait_for(lambda: all_done(fleet))
    jobs.close()
    assert_all_run(fleet, 60)
