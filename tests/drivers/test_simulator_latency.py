"""How long simulated steps take, without a clock: draws and naps are looked at, not time."""

import statistics
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.simulator.control import (
    Distribution,
    FaultKind,
    FaultRule,
    Latency,
    Step,
    add_fault,
    clear_latencies,
    latency_scale,
    list_latencies,
    set_latency,
    set_latency_scale,
)
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from tests.drivers.subjects import Caller, address, guests_of, new_guest, new_host
from tests.support.runs.waiting import PATIENCE_S

DRAWS = 20_000


def latencies(control: Connection, step: str) -> list[float]:
    """What the step takes, in ms, for DRAWS draws of a caller: 0/DRAWS, 1/DRAWS, ..."""
    rows = control.execute(
        "SELECT simulator_code.latency(ARRAY[%s], n / %s::double precision) FROM generate_series(0, %s) AS n",
        [step, DRAWS, DRAWS - 1],
    )
    return [row[0] for row in rows]


def test_fixed_is_always_the_mean(control: Connection) -> None:
    """FIXED has no spread."""
    set_latency(control, Latency(Step.BOOT, Distribution.FIXED, 800.0))
    assert set(latencies(control, "boot")) == {800.0}


def test_uniform_fills_its_range_evenly(control: Connection) -> None:
    """UNIFORM lies within mean +- spread, a quarter of it in each quarter."""
    set_latency(control, Latency(Step.BOOT, Distribution.UNIFORM, 100.0, 40.0))
    drawn = latencies(control, "boot")
    assert min(drawn) >= 60
    assert max(drawn) < 140
    assert statistics.quantiles(drawn) == pytest.approx([80, 100, 120], abs=1.5)


def test_exponential_has_its_mean_and_its_tail(control: Connection) -> None:
    """EXPONENTIAL has deviation = mean and median = mean x ln 2."""
    set_latency(control, Latency(Step.STOP, Distribution.EXPONENTIAL, 50.0))
    drawn = latencies(control, "stop")
    assert min(drawn) >= 0
    assert statistics.fmean(drawn) == pytest.approx(50, rel=0.04)
    assert statistics.stdev(drawn) == pytest.approx(50, rel=0.06)
    assert statistics.median(drawn) == pytest.approx(34.66, rel=0.05)


def test_normal_has_its_mean_and_deviation(control: Connection) -> None:
    """NORMAL has 68 % within one deviation and 95 % within two."""
    set_latency(control, Latency(Step.VOLUME, Distribution.NORMAL, 1000.0, 100.0))
    drawn = latencies(control, "volume")
    assert statistics.fmean(drawn) == pytest.approx(1000, abs=4)
    assert statistics.stdev(drawn) == pytest.approx(100, rel=0.04)
    for deviations, share in ((1, 0.683), (2, 0.954)):
        inside = sum(abs(value - 1000) <= deviations * 100 for value in drawn)
        assert inside / DRAWS == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("distribution", [Distribution.UNIFORM, Distribution.NORMAL])
def test_time_never_runs_backwards(control: Connection, distribution: Distribution) -> None:
    """A spread wider than the mean is cut at 0."""
    set_latency(control, Latency(Step.BOOT, distribution, 10.0, 100.0))
    assert min(latencies(control, "boot")) == 0


def test_steps_are_drawn_apart(control: Connection) -> None:
    """One call's steps do not all take long together."""
    for step in (Step.VOLUME, Step.BOOT):
        set_latency(control, Latency(step, Distribution.UNIFORM, 100.0, 100.0))
    together = statistics.correlation(latencies(control, "volume"), latencies(control, "boot"))
    assert abs(together) < 0.05


def test_a_call_takes_the_time_of_the_steps_it_goes_through(
    simulator: SimulatorDriver, control: Connection, naps: list[float]
) -> None:
    """A start takes volume + network + boot, one that fails what came before; nothing to do takes none."""
    for step, milliseconds in {"volume": 1000, "network": 200, "boot": 30, "stop": 4, "delete": 5}.items():
        set_latency(control, Latency(Step(step), Distribution.FIXED, float(milliseconds)))
    host, guest, caller = new_host("alpha"), new_guest(), Caller(simulator)
    simulator.sync_hosts([host])
    add_fault(control, FaultRule(Step.NETWORK, FaultKind.TRANSIENT, remaining=1))
    with pytest.raises(DriverError):
        caller.run(address(host), guest)
    for _ in range(2):
        caller.run(address(host), guest)
    for _ in range(2):
        caller.stop(address(host), guest)
    for _ in range(2):
        caller.remove(None, guest)
    assert naps == pytest.approx([1.2, 1.23, 0.004, 0.005])


def test_pulling_the_plug_takes_no_time(simulator: SimulatorDriver, control: Connection, naps: list[float]) -> None:
    """A forced stop does not wait for the guest's shutdown."""
    set_latency(control, Latency(Step.STOP, Distribution.FIXED, 4000.0))
    host, guest, caller = new_host("alpha"), new_guest(), Caller(simulator)
    simulator.sync_hosts([host])
    caller.run(address(host), guest)
    caller.stop(address(host), guest, forced=True)
    assert guests_of(simulator) == {}
    assert naps == []


def test_the_scale_speeds_everything_up(simulator: SimulatorDriver, control: Connection, naps: list[float]) -> None:
    """The scale multiplies latencies, also to nothing, and clearing forgets it."""
    host, caller = new_host("alpha"), Caller(simulator)
    simulator.sync_hosts([host])
    set_latency(control, Latency(Step.BOOT, Distribution.FIXED, 1000.0))
    for scale in (1.0, 0.5, 0.0):
        set_latency_scale(control, scale)
        assert latency_scale(control) == scale
        caller.run(address(host), new_guest())
    assert naps == [1.0, 0.5]
    clear_latencies(control)
    assert (latency_scale(control), list_latencies(control)) == (1.0, [])


def test_latency_beyond_patience_is_no_answer(
    simulator: SimulatorDriver, control: Connection, naps: list[float]
) -> None:
    """The caller gives up at its timeout, though the guest was made."""
    host, guest = new_host("alpha"), new_guest()
    simulator.sync_hosts([host])
    set_latency(control, Latency(Step.BOOT, Distribution.FIXED, 60_000.0))
    with pytest.raises(DriverError, match="no answer within 5 s"):
        Caller(simulator, timeout_s=5).run(address(host), guest)
    assert naps == [5.0]
    assert guest.uuid in guests_of(simulator)


def test_the_same_seed_draws_the_same(simulator_url: str, control: Connection) -> None:
    """Two drivers with one seed see the same latencies in the same order; another seed, others."""
    host = new_host("alpha")
    set_latency(control, Latency(Step.BOOT, Distribution.EXPONENTIAL, 500.0))
    seen = []
    for seed in (1, 1, 2):
        naps: list[float] = []
        driver = SimulatorDriver(simulator_url, seed=seed, sleep=naps.append)
        driver.sync_hosts([host])
        for _ in range(5):
            Caller(driver, timeout_s=1e6).run(address(host), new_guest())
        driver.close()
        seen.append(naps)
    assert seen[0] == seen[1] != seen[2]
    assert len(set(seen[0])) == 5


def test_waiting_calls_hold_no_connection(simulator_url: str, control: Connection) -> None:
    """Twenty calls sleep at the same time on a driver that has one connection."""
    calls = 20
    everyone = threading.Barrier(calls, timeout=PATIENCE_S)

    def sleep(seconds: float) -> None:
        del seconds
        everyone.wait()

    driver = SimulatorDriver(simulator_url, pool_size=1, sleep=sleep)
    host = new_host("alpha")
    driver.sync_hosts([host])
    set_latency(control, Latency(Step.BOOT, Distribution.FIXED, 1000.0))
    with ThreadPoolExecutor(calls) as threads:
        list(
            threads.map(lambda guest: Caller(driver).run(address(host), guest), [new_guest() for _ in range(calls)])
        )
    assert len(guests_of(driver)) == calls
    driver.close()


@pytest.mark.parametrize(
    "wrong",
    [Latency(Step.ANY, Distribution.FIXED, 1.0), Latency(Step.BOOT, Distribution.FIXED, -1.0)],
    ids=["any step", "below zero"],
)
def test_nonsense_latencies_are_refused(control: Connection, wrong: Latency) -> None:
    """A latency belongs to one step and is not negative."""
    with pytest.raises(psycopg.errors.CheckViolation):
        set_latency(control, wrong)
