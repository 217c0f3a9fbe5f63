"""The driver for Ganeti keeps what every driver must keep, on a live cluster: ``make test-ganeti``."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.batches import BatchDriver
from bulkdeploy.drivers.contract import (
    BatchContract,
    Caller,
    DeclaredOffContract,
    DriverContract,
    FencingContract,
    HostContract,
    LeftoversContract,
    Machines,
    MigrationContract,
    Outage,
    OutageContract,
    ResizeContract,
    Rig,
    StorageUnitContract,
    Subjects,
    VolumeContract,
)
from bulkdeploy.drivers.contract_suites import batches
from bulkdeploy.drivers.contract_suites.batches import begin, start
from bulkdeploy.drivers.contract_suites.subjects import guests_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.ganeti.rapi import Rapi
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.ganeti.live import (
    CLUSTER,
    PATIENCE_S,
    address,
    guest_files,
    kill_daemons,
    needs_cluster,
    options,
    set_offline,
    start_daemons,
)
from tests.support.runs.waiting import wait_for

pytestmark = needs_cluster

OF_DAEMONS = re.compile(
    r"/(queue|log|lock|livelocks|ganeti/os|uidpool|socket|crypto|instance-reason|bdev-cache)(/|$)|\.new$"
)
"""What Ganeti changes by itself on a node: files that it is writing, and folders.

In the last two folders it leaves what it knew of removed instances, until the node boots.
"""

NODE_DAEMON = "ganeti-noded"

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


@pytest.fixture
def rig(engine: Engine) -> Iterator[Rig]:
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

    def release(guest: UUID) -> None:
        kept.fences.release(guest, LAST_FENCE)

    yield Rig(driver, tuple(hosts), fail_next, ("volume",), subjects, release, PATIENCE_S)
    for guest in {one.uuid for one in driver._instances(60)}:
        rapi.run("DELETE", f"/2/instances/{guest}.bulkdeploy", timeout_s=PATIENCE_S, shutdown_timeout="0")
    driver.close()


@pytest.fixture
def caller(rig: Rig) -> Caller:
    """Patient: a job of Ganeti takes seconds of CPU."""
    return Caller(rig.driver, timeout_s=PATIENCE_S)


class TestGanetiContract(
    DriverContract,
    VolumeContract,
    HostContract,
    MigrationContract,
    FencingContract,
    BatchContract,
    ResizeContract,
    StorageUnitContract,
    DeclaredOffContract,
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
    def traces(self, rig: Rig) -> Callable[[], set[str]]:
        """The files of all nodes and of their shared folder, without jobs, logs and the state of daemons."""
        del rig

        def listed() -> set[str]:
            files = {str(path) for path in Path(str(CLUSTER)).rglob("*")}
            return {name for name in files if not OF_DAEMONS.search(name)}

        return listed

    @pytest.fixture
    def machines(self) -> Machines:
        """Nodes by name; one that is none."""
        promise = HostPromise(Decimal(2), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "KVM", HostAccess(f"ganeti://{name}"), promise)
            for name in ("node1", "node2", "nobody")
        )
        return Machines((first, second), silent)


class TestGanetiOutages(OutageContract):
    """Node 2 falls silent, and its operators have not told Ganeti that it is off."""

    @pytest.fixture
    def rig(self, rig: Rig) -> Rig:
        """The node that falls silent comes first."""
        return replace(rig, hosts=rig.hosts[::-1])

    @pytest.fixture
    def outage(self, rig: Rig) -> Iterator[Outage]:
        """Kill node daemons while their instances run on, and start them again before `rig` removes instances."""

        def cut_off(host: HostAddress) -> None:
            kill_daemons(host.name, NODE_DAEMON)

        def bring_back(host: HostAddress) -> None:
            start_daemons(host.name, NODE_DAEMON)
            wait_for(
                lambda: bool(rig.driver.answers(host, timeout_s=PATIENCE_S)),
                "the node answers",
                patience_s=PATIENCE_S,
            )

        yield Outage(cut_off, bring_back)
        for host in rig.hosts:
            bring_back(host)

    def test_a_copy_on_a_node_that_was_off_ends(self, rig: Rig, caller: Caller, outage: Outage) -> None:
        """Ganeti was told that a silent node is off: its guest starts elsewhere, and its copy ends on return."""
        old, new = rig.hosts
        running, stopped = rig.new_guest(), rig.new_guest()
        later = Caller(rig.driver, fence=2, timeout_s=PATIENCE_S)
        for guest in (running, stopped):
            caller.run(old, guest)
        outage.cut_off(old)
        for guest in (running, stopped):
            rig.release(guest.uuid)
            with pytest.raises(DriverError, match=f"gnt-node modify --offline=yes {old.name}") as refused:
                later.run(new, guest)
            assert refused.value.transient
        set_offline(old.name, offline=True)
        try:
            for guest in (running, stopped):
                later.run(new, guest)
            later.stop(new, stopped)
        finally:
            start_daemons(old.name, NODE_DAEMON)
            set_offline(old.name, offline=False)
        names = {f"{guest.uuid}.bulkdeploy" for guest in (running, stopped)}
        assert guest_files(old.name).keys() == names
        outage.bring_back(old)
        for _ in range(2):
            rig.driver.end_leftovers(old, (), timeout_s=PATIENCE_S)
        assert guest_files(old.name).keys() == set()
        assert guest_files(new.name).keys() == {f"{running.uuid}.bulkdeploy"}
        assert {one.host_uuid for one in rig.driver.find_guest(running.uuid)} == {new.uuid}
