"""Workers, sweepers and API processes die while a host that cannot be fenced is evacuated, and while it returns."""

import pytest

from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.infrastructure.evacuate_host import EVACUATE_HOST_COMMIT
from bulkdeploy.provisioning.outcome import LeaseLost
from bulkdeploy.provisioning.watches.host_watch import HostWatch
from bulkdeploy.services.auditing.audit import audit
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _on, host
from tests.commands.infrastructure.test_host_return import driver, dying, recorded_on, running, system
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.hypervisors.recorded_simulator import RecordedSimulator
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet, OneDriver

__all__ = ["driver", "dying", "host", "system"]

LEASES_RUN_OUT = "UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE status = 0 AND phase = 'running'"
OF_EVACUATIONS = [
    (f"{point}.{when}", passes)
    for point, most in (
        (Failpoint.LEASE_COMMIT, 2),
        (EVACUATE_HOST_COMMIT, 3),
        (Failpoint.DRIVER_BOOT, VMS),
        (Failpoint.COMPLETION_COMMIT, VMS),
    )
    for when in ("before", "after")
    for passes in range(most)
]
"""Places that a worker passes, and how often it passes one before it dies there."""


class DiesAmid(RecordedSimulator):
    """A driver whose process dies once it has ended ``left`` leftovers."""

    left = 1

    def ensure_copy_gone(self, host: HostAddress, guest_uuid, *, fence: int, timeout_s: float) -> None:  # type: ignore[no-untyped-def]
        """See HypervisorDriver."""
        if self.left == 0:
            raise Died
        self.left -= 1
        super().ensure_copy_gone(host, guest_uuid, fence=fence, timeout_s=timeout_s)


def look_at_hosts(fleet: Fleet) -> None:
    """A sweeper that was just started looks at all hosts once."""
    HostWatch(fleet.engine, OneDriver(fleet.driver), 30.0).watch_hosts()


def assert_each_runs_once(fleet: Fleet, client: ApiClient, taken_back: str) -> None:
    """All VMs run, each once and where its row says; the host that was taken back has the next VM."""
    assert ({vm.state for vm in fleet.vms()}, len(running(fleet))) == ({"Running"}, VMS)
    assert (recorded_on(fleet, taken_back), _on(fleet, taken_back)) == (0, 0)
    assert client.call("listHosts", id=taken_back)["host"][0]["state"] == "Up"
    fleet.deploy(1, host="a-1-1")
    fleet.run()
    assert (len(running(fleet)), recorded_on(fleet, taken_back), _on(fleet, taken_back)) == (VMS + 1, 1, 1)
    assert [text for finding in audit(fleet.engine, [fleet.driver]) for text in finding.breaches] == []


@pytest.mark.long
@pytest.mark.parametrize(("place", "passes"), OF_EVACUATIONS)
def test_a_worker_dies_while_a_dead_host_is_evacuated(
    fleet: Fleet, client: ApiClient, dying: str, place: str, passes: int
) -> None:
    """Another worker goes on; the host returns with all its guests, and none of them runs twice any more."""
    cut_off(fleet.control, "a-1-1")
    job = client.call("evacuateHost", id=dying, force=True)["jobid"]
    with dies_at(place, passes=passes, end=LeaseLost) as died:
        for _ in range(VMS + 2):
            fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
            fleet.run()
    assert died == [place]
    fleet.zone.change(LEASES_RUN_OUT)
    moved = _finish(fleet, client, job)["jobresult"]["hostmigration"]
    assert (len(moved["moved"]), moved.get("failed", [])) == (VMS, [])
    join_again(fleet.control, "a-1-1")
    assert len(running(fleet)) == 2 * VMS
    look_at_hosts(fleet)
    assert len(running(fleet)) == VMS
    client.call("reconnectHost", id=dying)
    assert_each_runs_once(fleet, client, dying)


@pytest.mark.long
@pytest.mark.parametrize("place", [f"{Failpoint.DRIVER_LEFTOVERS}.{when}" for when in ("before", "after")])
def test_a_sweeper_dies_around_the_end_of_leftovers(
    fleet: Fleet, client: ApiClient, dying: str, place: str
) -> None:
    """The host takes no VM until the next sweeper, or ``reconnectHost``, has ended them."""
    return_with_guests(fleet, client, dying)
    with dies_at(place), pytest.raises(Died):
        look_at_hosts(fleet)
    assert_takes_no_vms(fleet, client, dying)
    look_at_hosts(fleet)
    assert len(running(fleet)) == VMS
    client.call("reconnectHost", id=dying)
    assert_each_runs_once(fleet, client, dying)


@pytest.mark.long
@pytest.mark.parametrize("goes_on", ["sweeper", "reconnectHost"])
def test_a_sweeper_dies_between_two_leftovers(
    fleet: Fleet, client: ApiClient, dying: str, driver: RecordedSimulator, fleet_simulator_url: str, goes_on: str
) -> None:
    """One guest has ended, the others run on: whoever comes next ends those, before the host takes VMs."""
    return_with_guests(fleet, client, dying)
    fleet.driver = DiesAmid(fleet_simulator_url)
    try:
        with pytest.raises(Died):
            look_at_hosts(fleet)
    finally:
        fleet.driver.close()
        fleet.driver = driver
    assert len(running(fleet)) == 2 * VMS - 1
    assert_takes_no_vms(fleet, client, dying)
    if goes_on == "sweeper":
        look_at_hosts(fleet)
        assert len(running(fleet)) == VMS
    client.call("reconnectHost", id=dying)
    assert_each_runs_once(fleet, client, dying)


@pytest.mark.parametrize("place", [f"{Failpoint.DRIVER_LEFTOVERS}.{when}" for when in ("before", "after")])
def test_a_call_that_takes_a_host_back_dies(fleet: Fleet, client: ApiClient, dying: str, place: str) -> None:
    """The host stays Down and takes no VM; the call succeeds when it is made again."""
    return_with_guests(fleet, client, dying)
    with dies_at(place, end=ConnectionError) as died:
        assert refused(client, "reconnectHost", id=dying).status >= 500
    assert died == [place]
    assert_takes_no_vms(fleet, client, dying)
    client.call("reconnectHost", id=dying)
    assert_each_runs_once(fleet, client, dying)


def return_with_guests(fleet: Fleet, client: ApiClient, dying: str) -> None:
    """The host is evacuated while it is silent, and answers again with all its guests."""
    cut_off(fleet.control, "a-1-1")
    job = client.call("evacuateHost", id=dying, force=True)["jobid"]
    assert len(_finish(fleet, client, job)["jobresult"]["hostmigration"]["moved"]) == VMS
    join_again(fleet.control, "a-1-1")
    assert len(running(fleet)) == 2 * VMS


def assert_takes_no_vms(fleet: Fleet, client: ApiClient, host: str) -> None:
    """The host is Down, and a VM that is deployed there is refused."""
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Down"
    (row,) = fleet.zone.rows("SELECT fenced FROM hosts WHERE uuid = CAST(:h AS uuid)", h=host)
    assert row.fenced is not None
    assert _on(fleet, host) == 0
