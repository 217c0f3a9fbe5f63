"""Pools of Ceph without a cluster: errors of the programs, measurements, and which clients are blocked."""

import errno
from functools import partial
from itertools import count
from threading import Event, Thread
from types import SimpleNamespace
from uuid import uuid4

import pytest

from bulkdeploy.domain.virtual_machines.usage import PoolUsage
from bulkdeploy.drivers.libvirt import ceph
from bulkdeploy.drivers.libvirt.ceph import CONNECT_S, FAILURES_KEPT_S, CephError, CephPool, PoolSizes
from bulkdeploy.drivers.records import Pool
from bulkdeploy.processes.run_program import ProgramEnd
from tests.support.runs.waiting import PATIENCE_S

SIZE = PoolUsage(1, 2)


def new_pool() -> Pool:
    """A pool of Ceph without credentials."""
    return Pool(uuid4(), "ceph", "RBD", "10.0.0.1", "/vms", None)


@pytest.mark.parametrize(
    ("program", "code", "complained", "number", "transient"),
    [
        ("rbd", errno.EPERM, "rbd: error", errno.EPERM, False),
        ("rbd", errno.ETIMEDOUT, "rbd: couldn't connect to the cluster!", errno.ETIMEDOUT, True),
        ("ceph", 1, "[errno 110] RADOS timed out (error connecting to the cluster)", errno.ETIMEDOUT, True),
        ("ceph", 1, "[errno 13] RADOS permission denied (error connecting to the cluster)", errno.EACCES, False),
        ("ceph", errno.EACCES, "Error EACCES: access denied", errno.EACCES, False),
        ("ceph", 1, "", None, True),
    ],
)
def test_a_monitor_that_does_not_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, program: str, code: int, complained: str, number: int | None, transient: bool
) -> None:
    """The exit code of rbd is a system error; that of ceph is 1 for any failure to connect."""
    monkeypatch.setattr(ceph, "run_program", lambda *_, **__: ProgramEnd(code, "", complained))
    pool = CephPool(new_pool(), lambda: 1.0)
    fail = partial(pool.block, ["10.0.0.2:0/1"]) if program == "ceph" else partial(pool.rbd, "rm", "vms/image")
    with pytest.raises(CephError) as failed:
        fail()
    assert (failed.value.code, failed.value.transient) == (number, transient)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A monotonic clock that only tests advance."""
    now = [1000.0]
    monkeypatch.setattr(ceph, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_cluster_that_does_not_answer_is_measured_seldom(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """The time for which a failure is kept begins after the measurement, however long that took."""
    measured = count()

    def time_out(_: CephPool) -> PoolUsage:
        next(measured)
        clock[0] += CONNECT_S
        raise CephError("no monitor answered")

    monkeypatch.setattr(CephPool, "size", time_out)
    sizes, pools = PoolSizes(), [new_pool(), new_pool()]
    assert [sizes.of(pool) for _ in range(50) for pool in pools] == [None] * 100
    assert next(measured) == len(pools)
    clock[0] += FAILURES_KEPT_S
    sizes.of(pools[0])
    assert next(measured) == len(pools) + 2


def test_nobody_waits_for_a_measurement_that_is_not_the_first(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """While a thread measures a pool, others get its size of before, and measure other pools."""
    begun, may_end, slow, fast = Event(), Event(), new_pool(), new_pool()
    monkeypatch.setattr(CephPool, "size", lambda _: SIZE)
    sizes = PoolSizes()
    assert sizes.of(slow) == SIZE
    clock[0] += FAILURES_KEPT_S

    def measure(pool: CephPool) -> PoolUsage:
        if pool._pool is slow:
            begun.set()
            assert may_end.wait(PATIENCE_S)
        return PoolUsage(3, 4)

    monkeypatch.setattr(CephPool, "size", measure)
    measuring = Thread(target=sizes.of, args=(slow,))
    measuring.start()
    assert begun.wait(PATIENCE_S)
    assert (sizes.of(slow), sizes.of(fast)) == (SIZE, PoolUsage(3, 4))
    may_end.set()
    measuring.join()
    assert sizes.of(slow) == PoolUsage(3, 4)
