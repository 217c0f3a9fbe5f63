"""Every way in which a simulated hypervisor can be told to fail."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestCheck, GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.control import (
    FaultKind,
    FaultRule,
    HangEffect,
    Step,
    add_fault,
    clear_faults,
    cut_off,
    list_faults,
)
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import list_hosts
from tests.drivers.subjects import PATIENCE_S, Caller, address, guests_of, new_guest, new_host, volume_uuids


@pytest.fixture
def hosts(simulator: SimulatorDriver) -> list[HostAddress]:
    """Two hosts with room."""
    hosts = [new_host("alpha", guests=1000), new_host("beta", guests=1000)]
    simulator.sync_hosts(hosts)
    return [address(host) for host in hosts]


@pytest.fixture
def caller(simulator: SimulatorDriver) -> Caller:
    """Calls with the same fence and patience."""
    return Caller(simulator)


def fails(caller: Caller, host: HostAddress, guest: GuestSpec | None = None) -> bool:
    """Whether a start fails."""
    try:
        caller.run(host, guest or new_guest())
    except DriverError:
        return True
    return False


@pytest.mark.parametrize(
    ("step", "volumes", "power"),
    [("volume", 1, None), ("network", 2, PowerState.STOPPED), ("boot", 2, PowerState.STOPPED)],
)
@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT, FaultKind.PERMANENT])
def test_a_failed_start_leaves_what_came_before(
    simulator: SimulatorDriver,
    control: Connection,
    hosts: list[HostAddress],
    caller: Caller,
    step: str,
    volumes: int,
    power: PowerState | None,
    kind: FaultKind,
) -> None:
    """The error says step, host, reason and kind; volumes and a half-made guest stay, no room is taken."""
    add_fault(control, FaultRule(Step(step), kind, reason="the disk array is on fire"))
    guest = new_guest(volumes=2)
    with pytest.raises(DriverError) as failed:
        caller.run(hosts[0], guest)
    assert (failed.value.step, failed.value.host) == (step, "alpha")
    assert failed.value.reason == "the disk array is on fire"
    assert failed.value.transient == (kind is FaultKind.TRANSIENT)
    assert len(list(simulator.list_volumes())) == volumes
    there = guests_of(simulator).get(guest.uuid)
    assert (there and there.power) == power
    assert [host.guests_used for host in list_hosts(control)] == [0, 0]


def test_a_failed_removal_leaves_the_volumes(
    simulator: SimulatorDriver, control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A delete that fails has taken the guest away, and what is left can be listed."""
    guest = new_guest()
    caller.run(hosts[0], guest)
    add_fault(control, FaultRule(Step.DELETE, FaultKind.TRANSIENT))
    with pytest.raises(DriverError, match="delete failed on host alpha"):
        caller.remove(None, guest)
    assert guests_of(simulator) == {}
    assert {volume[0] for volume in simulator.list_volumes()} == set(volume_uuids(guest))


def test_a_rule_for_a_host_leaves_others_alone(
    control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A rule names its host by name or by uuid."""
    add_fault(control, FaultRule(Step.BOOT, FaultKind.TRANSIENT, host="alpha"))
    assert [fails(caller, host) for host in hosts] == [True, False]
    clear_faults(control)
    add_fault(control, FaultRule(Step.BOOT, FaultKind.TRANSIENT, host=str(hosts[1].uuid)))
    assert [fails(caller, host) for host in hosts] == [False, True]


def test_a_rule_strikes_exactly_as_often_as_it_says(
    control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """However many callers there are at once."""
    add_fault(control, FaultRule(Step.NETWORK, FaultKind.TRANSIENT, remaining=5))
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: fails(caller, hosts[0]), range(48)))
    assert answers.count(True) == 5
    assert list_faults(control)[0].remaining == 0


@pytest.mark.parametrize("step", [Step.BOOT, Step.ANY])
def test_the_rate_is_the_share_of_failing_calls(
    control: Connection, hosts: list[HostAddress], caller: Caller, step: Step
) -> None:
    """A rate of 0.3 fails 30 % of the calls (to five deviations), also for a rule of any step."""
    add_fault(control, FaultRule(step, FaultKind.TRANSIENT, rate=0.3))
    struck = sum(fails(caller, hosts[0], new_guest(cpu_mhz=1, memory_mib=1)) for _ in range(400))
    assert 74 <= struck <= 166


def test_running_guests_answer_health_checks_unless_a_rule_or_their_host_is_in_the_way(
    simulator: SimulatorDriver, control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A guest answers on its own host only, and not while it is stopped, cut off or struck."""
    guests = [new_guest(cpu_mhz=1, memory_mib=1) for _ in range(60)]
    for guest in guests:
        caller.run(hosts[0], guest)
    caller.stop(hosts[0], guests[0], forced=True)

    def answering(host: HostAddress) -> int:
        checks = [GuestCheck(host, guest.uuid, None, HealthCheck(22)) for guest in guests]
        answers = simulator.answers_of_guests(checks, timeout_s=5)
        assert set(answers) == {guest.uuid for guest in guests}
        assert not answers[guests[0].uuid]
        return sum(answers.values())

    assert (answering(hosts[0]), answering(hosts[1])) == (59, 0)
    add_fault(control, FaultRule(Step.HEALTH, FaultKind.TRANSIENT, rate=0.5))
    assert 5 <= answering(hosts[0]) <= 54
    clear_faults(control)
    add_fault(control, FaultRule(Step.HEALTH, FaultKind.TRANSIENT, host="alpha", remaining=7))
    assert (answering(hosts[0]), answering(hosts[0])) == (52, 59)
    cut_off(control, "alpha")
    assert answering(hosts[0]) == 0


def test_a_rule_for_any_step_strikes_at_all_of_them(
    control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """Each step of a start gets its share."""
    add_fault(control, FaultRule(Step.ANY, FaultKind.TRANSIENT))
    steps: Counter[str] = Counter()
    for _ in range(60):
        with pytest.raises(DriverError) as failed:
            caller.run(hosts[0], new_guest())
        steps[failed.value.step] += 1
    assert set(steps) == {"volume", "network", "boot"}
    assert min(steps.values()) >= 5


def test_a_dead_host_answers_nothing_even_when_nothing_is_to_do(
    control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A rule for any step also strikes calls that find everything as asked; one for a step does not."""
    guest = new_guest()
    caller.run(hosts[0], guest)
    add_fault(control, FaultRule(Step.BOOT, FaultKind.TRANSIENT))
    caller.run(hosts[0], guest)
    add_fault(control, FaultRule(Step.ANY, FaultKind.TRANSIENT))
    with pytest.raises(DriverError):
        caller.run(hosts[0], guest)
    with pytest.raises(DriverError):
        caller.stop(hosts[1], new_guest())
    with pytest.raises(DriverError):
        caller.remove(hosts[1], new_guest())


def test_the_earliest_step_fails_first(control: Connection, hosts: list[HostAddress], caller: Caller) -> None:
    """Of two rules that strike, the one whose step comes first is heard of, and used up."""
    add_fault(control, FaultRule(Step.BOOT, FaultKind.TRANSIENT, remaining=1))
    add_fault(control, FaultRule(Step.VOLUME, FaultKind.TRANSIENT, remaining=1))
    guest = new_guest()
    for step in ("volume", "boot"):
        with pytest.raises(DriverError) as failed:
            caller.run(hosts[0], guest)
        assert failed.value.step == step
    caller.run(hosts[0], guest)


@pytest.mark.parametrize(
    ("effect", "running"), [(HangEffect.DONE, PowerState.RUNNING), (HangEffect.UNDONE, PowerState.STOPPED)]
)
def test_a_hanging_start_ends_at_the_timeout(
    simulator: SimulatorDriver,
    control: Connection,
    hosts: list[HostAddress],
    naps: list[float],
    effect: HangEffect,
    running: PowerState,
) -> None:
    """The caller waits as long as it said and hears nothing; the guest may run or not."""
    add_fault(control, FaultRule(Step.BOOT, FaultKind.HANG, effect=effect))
    guest = new_guest()
    with pytest.raises(DriverError) as failed:
        Caller(simulator, timeout_s=12.5).run(hosts[0], guest)
    assert failed.value.reason == "no answer within 12.5 s"
    assert failed.value.transient
    assert naps == [12.5]
    assert guests_of(simulator)[guest.uuid].power is running


def test_a_hang_may_go_either_way(
    simulator: SimulatorDriver, control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """Where the rule does not say, chance decides whether the effect happened."""
    add_fault(control, FaultRule(Step.BOOT, FaultKind.HANG))
    for _ in range(40):
        assert fails(caller, hosts[0])
    powers = Counter(guest.power for guest in guests_of(simulator).values())
    assert min(powers[PowerState.RUNNING], powers[PowerState.STOPPED]) >= 5


@pytest.mark.parametrize(("hang_ms", "fails_"), [(9_999, False), (10_000, True), (60_000, True)])
def test_a_short_hang_only_delays(
    simulator: SimulatorDriver,
    control: Connection,
    hosts: list[HostAddress],
    naps: list[float],
    hang_ms: float,
    fails_: bool,
) -> None:
    """A hang shorter than the caller's patience of 10 s is a slow success."""
    add_fault(control, FaultRule(Step.NETWORK, FaultKind.HANG, hang_ms=hang_ms, effect=HangEffect.UNDONE))
    assert fails(Caller(simulator, timeout_s=10), hosts[0]) == fails_
    assert naps == [min(hang_ms / 1000, 10)]
    assert [guest.power is PowerState.RUNNING for guest in guests_of(simulator).values()] == [not fails_]


def test_a_forced_stop_ends_a_guest_that_hangs_in_its_shutdown(
    simulator: SimulatorDriver, control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A hang in step stop is the guest's; pulling the plug does not wait for it."""
    guest = new_guest()
    caller.run(hosts[0], guest)
    add_fault(control, FaultRule(Step.STOP, FaultKind.HANG, effect=HangEffect.UNDONE))
    with pytest.raises(DriverError):
        caller.stop(hosts[0], guest)
    caller.stop(hosts[0], guest, forced=True)
    assert guests_of(simulator) == {}


def test_a_forced_stop_needs_a_host_that_answers(
    control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A host that hangs in any step hangs for forced stops too."""
    guest = new_guest()
    caller.run(hosts[0], guest)
    add_fault(control, FaultRule(Step.ANY, FaultKind.HANG, effect=HangEffect.UNDONE))
    with pytest.raises(DriverError):
        caller.stop(hosts[0], guest, forced=True)


def test_a_hanging_removal_that_did_not_happen_leaves_everything(
    simulator: SimulatorDriver, control: Connection, hosts: list[HostAddress], caller: Caller
) -> None:
    """A removal without answer has happened or not, never half."""
    guest = new_guest()
    caller.run(hosts[0], guest)
    for effect, left in ((HangEffect.UNDONE, 2), (HangEffect.DONE, 0)):
        rule = add_fault(control, FaultRule(Step.DELETE, FaultKind.HANG, effect=effect))
        with pytest.raises(DriverError, match=f"no answer within {PATIENCE_S:g} s"):
            caller.remove(hosts[0], guest)
        assert len(list(simulator.list_volumes())) == left
        assert (guest.uuid in guests_of(simulator)) == (left > 0)
        assert clear_faults(control, [rule]) == 1


def test_a_full_host_says_no_whatever_was_simulated(
    simulator: SimulatorDriver, control: Connection, caller: Caller
) -> None:
    """A call that hangs and would take effect still cannot exceed the host."""
    tiny = new_host("tiny", guests=1)
    simulator.sync_hosts([tiny])
    caller.run(address(tiny), new_guest())
    add_fault(control, FaultRule(Step.BOOT, FaultKind.HANG, effect=HangEffect.DONE))
    assert fails(caller, address(tiny))
    assert [guest.power for guest in guests_of(simulator).values()].count(PowerState.RUNNING) == 1


def test_rules_are_listed_as_given_until_cleared(control: Connection) -> None:
    """What was added is listed, oldest first, and can be taken back."""
    rules = [
        FaultRule(Step.ANY, FaultKind.HANG, host="alpha", rate=0.5, hang_ms=10.0, effect=HangEffect.DONE),
        FaultRule(Step.DELETE, FaultKind.PERMANENT, remaining=3, reason="no"),
    ]
    ids = [add_fault(control, rule) for rule in rules]
    listed = list_faults(control)
    assert [rule.id for rule in listed] == ids
    assert [FaultRule(*(getattr(rule, name) for name in FIELDS)) for rule in listed] == rules
    assert clear_faults(control, ids[:1]) == 1
    assert clear_faults(control) == 1
    assert list_faults(control) == []


FIELDS = ("step", "kind", "host", "rate", "remaining", "reason", "hang_ms", "effect")


@pytest.mark.parametrize("wrong", [{"rate": 1.5}, {"rate": -0.1}, {"remaining": -1}, {"hang_ms": -1.0}])
def test_nonsense_rules_are_refused(control: Connection, wrong: dict[str, float]) -> None:
    """The database itself keeps rates within 0 and 1, and counts and times above 0."""
    with pytest.raises(psycopg.errors.CheckViolation):
        add_fault(control, FaultRule(Step.BOOT, FaultKind.HANG, **wrong))  # type: ignore[arg-type]
