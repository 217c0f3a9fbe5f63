"""The driver for Ganeti keeps what every driver must keep, on a live cluster: ``make test-ganeti``."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.batches import BatchDriver
from bulkdeploy.drivers.cluster_http import NotAnswered
from bulkdeploy.drivers.contract import (
    BatchContract,
    Caller,
    DriverContract,
    FencingContract,
    HostContract,
    LeftoversContract,
    Machines,
    MigrationContract,
    ResizeContract,
    Rig,
    StorageUnitContract,
    Subjects,
    VolumeContract,
)
from bulkdeploy.drivers.contract_suites import batches
from bulkdeploy.drivers.contract_suites.batches import begin, start
from bulkdeploy.drivers.contract_suites.subjects import guests_of
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.ganeti.rapi import Rapi
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.ganeti.live import CLUSTER, PATIENCE_S, address, needs_cluster, options

pytestmark = needs_cluster

OF_DAEMONS = re.compile(
    r"/(queue|log|lock|livelocks|ganeti/os|uidpool|socket|crypto|instance-reason|bdev-cache)(/|$)|\.new$"
)
"""What Ganeti changes by itself on a node: files that it is writing, and folders.

In the last two folders it leaves what it knew of removed instances, until the node boots.
"""

STEPS = {
    "volume": ("POST", r"/2/instances"),
    "batch": ("POST", r"/2/instances-multi-alloc"),
    "resize": ("POST", r".*/grow"),
    "stop": ("PUT", r".*/shutdown"),
    "delete": ("DELETE", r"/2/instances/[^/]+"),
    "migrate": ("PUT", r".*/migrate"),
}


class FaultyRapi(Rapi):
    """A connection that breaks, once, before the request of a step."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.failing: str | None = None

    def send(self, method: str, path: str, body: object = None, *, timeout_s: float, **query: str) -> Any:
        """See Rapi."""
        expected = STEPS.get(self.failing or "")
        if expected and method == expected[0] and re.fullmatch(expected[1], path):
            self.failing = None
            raise NotAnswered("the connection broke")
        return super().send(method, path, body, timeout_s=timeout_s, **query)


class TestGanetiContract(
    DriverContract,
    VolumeContract,
    HostContract,
    MigrationContract,
    FencingContract,
    BatchContract,
    ResizeContract,
    StorageUnitContract,
    LeftoversContract,
):
    """A cluster of Ganeti's own daemons, whose instances are files."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Batches are of four, and have time: an instance takes Ganeti seconds of CPU."""
        monkeypatch.setattr(batches, "PATIENCE_S", PATIENCE_S)
        monkeypatch.setattr(batches, "MANY", 4)
        monkeypatch.setattr(batches, "THREADS", 3)

    def test_one_that_fails_fails_alone(self, rig: Rig, batches: BatchDriver) -> None:
        """A request for many that breaks fails none of them: each is asked for by itself."""
        placed = [(rig.hosts[number % 2], rig.new_guest()) for number in range(3)]
        rig.fail_next("batch")
        assert begin(batches, [start(host, guest) for host, guest in placed]) == [None] * 3
        assert set(guests_of(rig.driver)) == {guest.uuid for _, guest in placed}

    @pytest.fixture
    def rig(self, engine: Engine) -> Iterator[Rig]:
        """A cluster without instances of ours."""
        made = GanetiDriver.from_options(options())
        rapi = FaultyRapi(made._rapi.access)
        driver = GanetiDriver(options(), rapi)
        hosts = [address(1), address(2)]
        subjects = replace(Subjects(), volume_bytes=1 << 22, memory_mib=16)
        kept = records_in(engine, lambda _: True)
        driver.use_records(replace(kept, directory=FixedDirectory(hosts, shared_pool(subjects.pool_uuid))))

        def fail_next(step: str) -> None:
            rapi.failing = step

        yield Rig(driver, tuple(hosts), fail_next, ("volume",), subjects)
        for guest in {one.uuid for one in driver._instances(60)}:
            rapi.run("DELETE", f"/2/instances/{guest}.bulkdeploy", timeout_s=PATIENCE_S, shutdown_timeout="0")
        driver.close()

    @pytest.fixture
    def traces(self, rig: Rig) -> Callable[[], set[str]]:
        """The files of all nodes and of their shared folder, without jobs, logs and the state of daemons."""
        del rig

        def listed() -> set[str]:
            files = {str(path) for path in Path(str(CLUSTER)).rglob("*")}
            return {name for name in files if not OF_DAEMONS.search(name)}

        return listed

    @pytest.fixture
    def caller(self, rig: Rig) -> Caller:
        """Patient: a job of Ganeti takes seconds of CPU."""
        return Caller(rig.driver, timeout_s=PATIENCE_S)

    @pytest.fixture
    def machines(self) -> Machines:
        """Nodes by name; one that is none."""
        promise = HostPromise(Decimal(2), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "KVM", HostAccess(f"ganeti://{name}"), promise)
            for name in ("node1", "node2", "nobody")
        )
        return Machines((first, second), silent)
