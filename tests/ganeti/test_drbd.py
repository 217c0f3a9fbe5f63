"""Instances with a secondary node, through a live cluster whose kernel devices are files: ``make test-ganeti``."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.batches import StartCall
from bulkdeploy.drivers.contract import Caller, MigrationContract, Rig, Subjects
from bulkdeploy.drivers.contract_suites import migration
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.ganeti.live import PATIENCE_S, address, gnt, mirrored_cluster, needs_cluster, options
from tests.ganeti.service import nodes
from tests.ganeti.test_contract import FaultyRapi
from tests.support.runs.waiting import wait_for

pytestmark = needs_cluster


@pytest.fixture(scope="module", autouse=True)
def drbd() -> Iterator[None]:
    """DRBD is among the cluster's disk templates."""
    if len(nodes()) < 3:
        pytest.skip("a secondary that moves needs three nodes")
    with mirrored_cluster():
        yield


@pytest.fixture
def directory() -> FixedDirectory:
    """Three nodes."""
    return FixedDirectory([address(node) for node in (1, 2, 3)], shared_pool(Subjects().pool_uuid))


@pytest.fixture
def rig(engine: Engine, directory: FixedDirectory) -> Iterator[Rig]:
    """A cluster without instances of ours."""
    made = GanetiDriver.from_options(options(disk_template="drbd"))
    rapi = FaultyRapi(made._rapi.access)
    driver = GanetiDriver(options(disk_template="drbd"), rapi)
    driver.use_records(replace(records_in(engine, lambda _: True), directory=directory))
    subjects = replace(Subjects(), volume_bytes=1 << 22, memory_mib=16)

    def fail_next(step: str) -> None:
        rapi.failing = step

    yield Rig(driver, tuple(directory.hosts()), fail_next, ("volume",), subjects)
    for guest in {one.uuid for one in driver._instances(60)}:
        driver._rapi.run("DELETE", f"/2/instances/{guest}.bulkdeploy", timeout_s=PATIENCE_S, shutdown_timeout="0")
    driver.close()


@pytest.fixture
def caller(rig: Rig) -> Caller:
    """Patient: a job of Ganeti takes seconds of CPU."""
    return Caller(rig.driver, timeout_s=PATIENCE_S)


def where(guest: UUID) -> tuple[str, str]:
    """Primary and secondary of an instance."""
    row = gnt("gnt-instance", "list", "--no-headers", "--separator=:", "-o", "pnode,snodes", f"{guest}.bulkdeploy")
    primary, secondary = row.strip().split(":")
    return primary, secondary


class TestMirroredMigration(MigrationContract):
    """What every driver must keep, where a guest moves by way of its secondary."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Few move at once: each of the jobs takes Ganeti seconds of CPU."""
        monkeypatch.setattr(migration, "THREADS", 2)
        monkeypatch.setattr(migration, "MOVING", 2)


def test_a_batch_gets_secondaries_in_one_request(rig: Rig) -> None:
    """Each on another node than its primary, spread over the cluster; nothing is asked twice."""
    made = [(rig.hosts[number % 3], rig.new_guest()) for number in range(6)]
    driver: Any = rig.driver
    for answer in driver.begin([StartCall(host, guest, 1) for host, guest in made], timeout_s=PATIENCE_S):
        answer()
    pairs = [where(guest.uuid) for _, guest in made]
    assert [primary for primary, _ in pairs] == [host.name for host, _ in made]
    assert {secondary for _, secondary in pairs} == {"node1", "node2", "node3"}
    assert all(primary != secondary for primary, secondary in pairs)


def test_what_a_node_keeps_for_another_is_no_longer_ours(rig: Rig, caller: Caller) -> None:
    """The memory that the failure of the primary would bring is left out of the secondary's."""
    first, second = rig.hosts[:2]
    before = rig.driver.memory_of_hosts(rig.hosts, timeout_s=PATIENCE_S)
    guest = replace(rig.new_guest(), memory_mib=48)
    caller.run(first, guest)
    primary, secondary = where(guest.uuid)
    after = rig.driver.memory_of_hosts(rig.hosts, timeout_s=PATIENCE_S)
    lost = {host.name: before[host.uuid] - after[host.uuid] for host in rig.hosts}
    assert lost == {host.name: 48 if host.name == secondary else 0 for host in rig.hosts}
    assert (primary, second.name in lost) == (first.name, True)


def test_a_guest_that_fits_beside_no_node_is_refused(rig: Rig, caller: Caller) -> None:
    """With the planner's words, and nothing is made; there may be capacity later."""
    large = rig.new_guest()
    large = replace(large, volumes=tuple(replace(one, size_bytes=40 << 30) for one in large.volumes))
    with pytest.raises(DriverError, match="MiB of disk space") as refused:
        caller.run(rig.hosts[0], large)
    assert refused.value.transient
    assert list(rig.driver.list_guests()) == []


def test_a_guest_moves_to_any_node_and_leaves_one_that_is_emptied(
    rig: Rig, caller: Caller, directory: FixedDirectory
) -> None:
    """To a node that is not its secondary by way of a new one; no mirror stays on a host in maintenance."""
    guest = rig.new_guest()
    first = rig.hosts[0]
    caller.run(first, guest)
    _, secondary = where(guest.uuid)
    (third,) = (host for host in rig.hosts if host.name not in (first.name, secondary))
    directory.closed.add(first.uuid)
    caller.migrate(first, third, guest)
    assert where(guest.uuid)[0] == third.name
    assert caller.look(third, guest) is PowerState.RUNNING
    wait_for(lambda: where(guest.uuid) == (third.name, secondary), "a secondary elsewhere", patience_s=PATIENCE_S)


def test_a_guest_whose_primary_died_starts_elsewhere(rig: Rig, caller: Caller) -> None:
    """On its secondary, and from there on the node that was chosen; its mirror leaves the dead node."""
    guest = rig.new_guest()
    dead = rig.hosts[2]
    caller.run(dead, guest)
    _, secondary = where(guest.uuid)
    (chosen,) = (host for host in rig.hosts if host.name not in (dead.name, secondary))
    gnt("gnt-node", "modify", "--offline=yes", "--force", dead.name)
    try:
        rig.driver._records.fences.release(guest.uuid, 2)
        again = Caller(rig.driver, fence=3, timeout_s=PATIENCE_S)
        again.run(chosen, guest)
        assert where(guest.uuid)[0] == chosen.name
        assert again.look(chosen, guest) is PowerState.RUNNING
        wait_for(lambda: where(guest.uuid)[1] == secondary, "a mirror on a living node", patience_s=PATIENCE_S)
    finally:
        gnt("gnt-node", "modify", "--offline=no", "--force", dead.name)


def test_a_move_that_was_begun_goes_on(rig: Rig, caller: Caller) -> None:
    """Who died after the first step: the next one does what is left, and no more."""
    guest = rig.new_guest()
    first = rig.hosts[0]
    caller.run(first, guest)
    _, secondary = where(guest.uuid)
    (third,) = (host for host in rig.hosts if host.name not in (first.name, secondary))
    gnt("gnt-instance", "replace-disks", f"--new-secondary={third.name}", f"{guest.uuid}.bulkdeploy")
    jobs = len(gnt("gnt-job", "list", "--no-headers", "-o", "id").split())
    caller.migrate(first, third, guest)
    assert where(guest.uuid) == (third.name, first.name)
    assert len(gnt("gnt-job", "list", "--no-headers", "-o", "id").split()) == jobs + 1
