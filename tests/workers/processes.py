"""Questions about jobs that processes work on, and things done to those processes."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from redis import Redis
from sqlalchemy.engine import URL

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import Distribution, Latency, Step, set_latency
from bulkdeploy.embedded.valkey import ValkeyServer
from tests.support.processes.programs import Process
from tests.support.zones.fleet import Fleet

Start: TypeAlias = Callable[..., Process]
"""Starts a program by its arguments."""


def unfinished(fleet: Fleet) -> int:
    """How many jobs are not finished."""
    return int(fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE status = 0"))


def all_done(fleet: Fleet) -> bool:
    """Whether every job is finished."""
    return unfinished(fleet) == 0


def under_way(fleet: Fleet) -> int:
    """How many jobs are leased."""
    return int(fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE phase = 'running' AND status = 0"))


def consumers(redis_url: str) -> int:
    """Workers that wait for messages in this test's database of Redis."""
    redis = Redis.from_url(redis_url)
    own = str(redis.connection_pool.connection_kwargs["db"])
    return sum(client["cmd"] == "brpop" and client["db"] == own for client in redis.client_list())


def owners(fleet: Fleet) -> set[str]:
    """The workers that hold, or were the last to hold, a lease."""
    rows = fleet.zone.rows("SELECT DISTINCT lease_owner FROM async_jobs WHERE lease_owner IS NOT NULL")
    return {row.lease_owner for row in rows}


def slow_boots(fleet: Fleet, milliseconds: int) -> None:
    """Let every boot take this long."""
    set_latency(fleet.control, Latency(Step.BOOT, Distribution.FIXED, milliseconds))


def kill(server: ValkeyServer) -> None:
    """End it with signal 9."""
    assert server.process is not None
    server.process.kill()
    server.process.wait()


@contextmanager
def paused(process: Process) -> Iterator[None]:
    """A process that does not run meanwhile."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def proxied(url: URL, folder: Path) -> str:
    """The same database behind a socket in ``folder``."""
    return url.update_query_dict({"host": str(folder)}).render_as_string(hide_password=False)


def assert_all_run(fleet: Fleet, count: int) -> None:
    """Every job succeeded, so many guests run, and nothing is lost, twice or leaked."""
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    assert len(fleet.guests()) == count
    fleet.assert_intact()
