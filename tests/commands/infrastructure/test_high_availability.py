"""VMs of offerings with ``offerha`` on a dead host: it is fenced, and they start elsewhere by themselves, once."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.watches.host_watch import HostWatch
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _on, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet, OneDriver

__all__ = ["host"]


class Unfenced(SimulatorDriver):
    """A hypervisor that cannot fence."""


Unfenced.abilities = SimulatorDriver.abilities - {HostFencing}


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, fleet_simulator_url: str) -> Iterator[System]:
    """One whose driver cannot fence; workers and the sweeper have one that can."""
    driver = Unfenced(fleet_simulator_url)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    driver.close()


@pytest.fixture
def watch(fleet: Fleet) -> HostWatch:
    """The sweeper's look, whose own clock is always late enough."""
    clock = iter(range(0, 1_000_000, 1000))
    return HostWatch(fleet.engine, OneDriver(fleet.driver), 1.0, clock=lambda: next(clock))


def offer_ha(fleet: Fleet) -> None:
    """All VMs are highly available from now on."""
    fleet.zone.change("UPDATE service_offerings SET offer_ha = true")


def fall_silent(fleet: Fleet, watch: HostWatch, *hosts: str) -> None:
    """These hosts are cut off, and Down."""
    for name in hosts:
        cut_off(fleet.control, name)
    for _ in range(2):
        watch.watch_hosts()
        fleet.zone.change("UPDATE host_watches SET since = since - interval '1 hour'")
    watch.watch_hosts()


def evacuations(fleet: Fleet) -> list[str]:
    """The jobs that evacuate hosts."""
    rows = fleet.zone.rows("SELECT uuid FROM async_jobs WHERE kind = 'evacuate_host' ORDER BY id")
    return [str(row.uuid) for row in rows]


def alerts(client: ApiClient) -> list[str]:
    """Newest first."""
    return [row["description"] for row in client.call("listAlerts").get("alert", [])]


def test_highly_available_vms_run_elsewhere(fleet: Fleet, client: ApiClient, host: str, watch: HostWatch) -> None:
    """Once the host is Down and fenced, without any call; however often the sweeper looks, each starts once."""
    offer_ha(fleet)
    fall_silent(fleet, watch, "a-1-1")
    (job,) = evacuations(fleet)
    for _ in range(3):
        watch.watch_hosts()
    result = _finish(fleet, client, job)["jobresult"]["hostmigration"]
    assert (len(result["moved"]), result.get("failed", [])) == (VMS, [])
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, 0)
    for _ in range(3):
        watch.watch_hosts()
    assert evacuations(fleet) == [job]
    assert f"{VMS} virtual machine(s)" in alerts(client)[0]
    assert alerts(client)[0].endswith("are started on other hosts")
    fleet.assert_intact()


def test_only_some_vms_are_highly_available(fleet: Fleet, client: ApiClient, host: str, watch: HostWatch) -> None:
    """``haenable`` of a VM says it before its offering; the others are Stopped, as they are off, and named."""
    first, *others = fleet.vms()
    client.call("updateVirtualMachine", id=str(first.uuid), haenable=True)
    fall_silent(fleet, watch, "a-1-1")
    (job,) = evacuations(fleet)
    result = _finish(fleet, client, job)["jobresult"]["hostmigration"]
    assert [row["virtualmachineid"] for row in result["moved"]] == [str(first.uuid)]
    states = {vm.uuid: vm.state for vm in fleet.vms()}
    assert (states[first.uuid], {states[vm.uuid] for vm in others}) == ("Running", {"Stopped"})
    assert all(vm.instance_name in alerts(client)[0] for vm in others)
    assert _on(fleet, host) == 0
    fleet.assert_intact()


def test_without_such_vms_nothing_is_fenced(fleet: Fleet, client: ApiClient, host: str, watch: HostWatch) -> None:
    """The host is Down, its VMs may run on, and an alert says what an operator may do."""
    fall_silent(fleet, watch, "a-1-1")
    assert evacuations(fleet) == []
    assert "evacuateHost starts them elsewhere" in alerts(client)[0]
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, VMS)


def test_a_setting_switches_it_off(fleet: Fleet, client: ApiClient, host: str, watch: HostWatch) -> None:
    """``vm.ha.enabled``: hosts are Down all the same."""
    offer_ha(fleet)
    client.call("updateConfiguration", name="vm.ha.enabled", value="false")
    fall_silent(fleet, watch, "a-1-1")
    assert (evacuations(fleet), client.call("listHosts", id=host)["host"][0]["state"]) == ([], "Down")


def test_where_most_hosts_are_silent_nothing_is_fenced(
    fleet: Fleet, client: ApiClient, host: str, watch: HostWatch
) -> None:
    """It is the sweeper that is cut off then; one alert says so, and operators still may evacuate."""
    del host
    offer_ha(fleet)
    names = [row.name for row in fleet.zone.rows("SELECT name FROM hosts ORDER BY id")]
    fall_silent(fleet, watch, "a-1-1", *names[: len(names) // 2 + 1])
    watch.watch_hosts()
    assert evacuations(fleet) == []
    assert sum("the sweeper may be cut off" in text for text in alerts(client)) == 1
    for name in names[1:]:
        join_again(fleet.control, name)
    watch.watch_hosts()
    assert len(evacuations(fleet)) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sweeper_that_dies_at_the_evacuation_makes_one(
    fleet: Fleet, client: ApiClient, host: str, watch: HostWatch, moment: str
) -> None:
    """Before the commit the next pass makes it; after it there is one."""
    del client, host
    offer_ha(fleet)
    with dies_at(f"{Failpoint.SWEEP_EVACUATIONS}.{moment}"), pytest.raises(Died):
        fall_silent(fleet, watch, "a-1-1")
    watch.watch_hosts()
    assert len(evacuations(fleet)) == 1


def test_a_fenced_host_stays_down_until_it_is_taken_back(
    fleet: Fleet, client: ApiClient, host: str, watch: HostWatch
) -> None:
    """Also where it answers again: an alert says that its guests may run twice; ``reconnectHost`` takes it back."""
    fall_silent(fleet, watch, "a-1-1")
    _finish(fleet, client, client.call("evacuateHost", id=host, force=True)["jobid"])
    join_again(fleet.control, "a-1-1")
    for _ in range(2):
        watch.watch_hosts()
        fleet.zone.change("UPDATE host_watches SET since = since - interval '1 hour'")
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Down"
    assert sum("answers although" in text for text in alerts(client)) == 1
    fleet.zone.change("UPDATE hosts SET url = 'http://rack/a-1-1' WHERE uuid = CAST(:host AS uuid)", host=host)
    client.call("reconnectHost", id=host)
    watch.watch_hosts()
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Up"


def test_without_a_fence_guests_may_run_twice(fleet: Fleet, client: ApiClient, host: str, watch: HostWatch) -> None:
    """A host that was only cut off runs its guests on, and they write the disks of those started elsewhere.

    The driver cannot fence, so the call is refused without ``force``. A caller who gives it while the
    host runs on gets a split brain, which the audit names once the host answers again. A driver that fences
    prevents that.
    """
    fall_silent(fleet, watch, "a-1-1")
    failure = refused(client, "evacuateHost", id=host)
    assert (failure.status, "which confirms that host a-1-1 is off" in failure.errortext) == (431, True)
    _finish(fleet, client, client.call("evacuateHost", id=host, force=True)["jobid"])
    running = sorted(guest.uuid for guest in fleet.driver.list_guests())
    vms = sorted(vm.uuid for vm in fleet.vms())
    assert (len(vms), running) == (VMS, sorted(2 * vms))
    join_again(fleet.control, "a-1-1")
    breaches = [text for finding in audit(fleet.engine, [fleet.driver]) for text in finding.breaches]
    assert all(any(str(uuid) in text for text in breaches) for uuid in vms)
    row = fleet.zone.rows("SELECT uuid, name, ip_address, hypervisor FROM hosts WHERE name = 'a-1-1'")[0]
    fleet.driver.ensure_fenced(HostAddress(*row), timeout_s=10)
    fleet.assert_intact()
