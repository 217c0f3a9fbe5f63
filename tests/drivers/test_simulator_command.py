"""``bulkdeploy simulator``: what a user does to see a failure."""

import pytest
from click.testing import CliRunner, Result
from psycopg import Connection

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.simulator.control import FaultKind, FaultRule, HangEffect, Step, list_faults
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.manage.main import main
from tests.drivers.subjects import Caller, address, new_guest, new_host


class Shell:
    """Runs ``bulkdeploy simulator ...`` on the test's database."""

    def __init__(self, url: str) -> None:
        self.environment = {"BULKDEPLOY_DRIVER__SIMULATOR__URL": url}

    def run(self, line: str) -> Result:
        """The outcome of a command line."""
        return CliRunner().invoke(main, ["simulator", *line.split()], env=self.environment)

    def table(self, line: str) -> list[list[str]]:
        """The printed rows below the titles, by column."""
        result = self.run(line)
        assert result.exit_code == 0, result.output
        return [row.split() for row in result.output.splitlines()[1:]]


@pytest.fixture
def shell(simulator_url: str) -> Shell:
    """A shell on the test's simulator."""
    return Shell(simulator_url)


def test_a_rule_holds_from_the_next_call_until_cleared(shell: Shell, simulator: SimulatorDriver) -> None:
    """What a user adds fails calls of a process that runs already; what is cleared no longer does."""
    host = new_host("alpha")
    simulator.sync_hosts([host])
    number = shell.run("faults add --step boot --host alpha --kind permanent --reason kaput").output.strip()
    with pytest.raises(DriverError, match="boot failed on host alpha: kaput"):
        Caller(simulator).run(address(host), new_guest())
    assert shell.run(f"faults clear {number}").output == "1 removed\n"
    Caller(simulator).run(address(host), new_guest())


def test_every_part_of_a_rule_can_be_given_and_is_shown(shell: Shell, control: Connection) -> None:
    """Options become the rule; the list prints it; clear without numbers removes all."""
    shell.run("faults add --kind hang --hang-seconds 1.5 --effect undone --rate 0.25 --times 3 --host alpha")
    shell.run("faults add")
    hang, plain = list_faults(control)
    assert (hang.step, hang.kind, hang.host, hang.rate, hang.remaining) == ("any", "hang", "alpha", 0.25, 3)
    assert (hang.hang_ms, hang.effect) == (1500, HangEffect.UNDONE)
    assert plain == FaultRule(Step.ANY, FaultKind.TRANSIENT, id=plain.id)
    assert shell.table("faults list") == [
        [str(hang.id), "any", "hang", "alpha", "0.25", "3", "1.5", "s", "undone", "simulated", "failure"],
        [str(plain.id), "any", "transient", "any", "1", "always", "simulated", "failure"],
    ]
    assert shell.run("faults clear").output == "2 removed\n"


@pytest.mark.parametrize(
    "line",
    ["faults add --effect done", "faults add --rate 2", "faults add --times 0", "faults add --step reboot",
     "latency set any 5", "latency set boot -5", "latency scale -1"],
)  # fmt: skip
def test_nonsense_is_refused_with_usage(shell: Shell, control: Connection, line: str) -> None:
    """Wrong options change nothing and end with exit code 2."""
    assert shell.run(line).exit_code == 2
    assert list_faults(control) == []


def test_latencies_can_be_set_scaled_shown_and_cleared(
    shell: Shell, simulator: SimulatorDriver, naps: list[float]
) -> None:
    """Calls take the time that a user sets."""
    host = new_host("alpha")
    simulator.sync_hosts([host])
    assert shell.run("latency set boot 800").exit_code == 0
    assert shell.run("latency set volume 50 --distribution normal --spread-ms 5").exit_code == 0
    assert shell.run("latency scale 0.5").exit_code == 0
    assert shell.table("latency list") == [
        ["boot", "fixed", "800", "0"],
        ["volume", "normal", "50", "5"],
        ["scale", "0.5"],
    ]
    Caller(simulator).run(address(host), new_guest())
    assert naps[0] == pytest.approx(0.425, abs=0.02)
    assert shell.run("latency clear").exit_code == 0
    Caller(simulator).run(address(host), new_guest())
    assert len(naps) == 1


def test_hosts_and_guests_are_shown_as_they_are(shell: Shell, simulator: SimulatorDriver) -> None:
    """A user sees what really runs, and where, on all hosts or one."""
    hosts = [new_host(name, guests=9, cpu_mhz=8000, memory_mib=4096) for name in ("alpha", "beta")]
    simulator.sync_hosts(hosts)
    guests = [new_guest(cpu_number=2) for _ in hosts]
    for host, guest in zip(hosts, guests, strict=True):
        Caller(simulator).run(address(host), guest)
    assert shell.table("hosts") == [[host.name, str(host.uuid), "1/9", "1000/8000", "256/4096"] for host in hosts]
    rows = [
        [str(guest.uuid), guest.name, host.name, "Running", "2", "x", "500", "MHz", "256", "2"]
        for host, guest in zip(hosts, guests, strict=True)
    ]
    assert shell.table("guests") == rows
    assert shell.table("guests --host beta") == shell.table(f"guests --host {hosts[1].uuid}") == rows[1:]


def test_without_any_database_the_missing_setting_is_named(tmp_path: object) -> None:
    """A user who configured nothing is told what to set."""
    result = CliRunner().invoke(
        main, ["simulator", "hosts"], env={"BULKDEPLOY_DATA_DIR": str(tmp_path), "BULKDEPLOY_DATABASE_URL": None}
    )
    assert result.exit_code == 1
    assert "database_url is not set" in result.output
