"""evacuateHost: a dead host is fenced and its VMs run elsewhere, each of them once."""

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress, HostModel, NewHost
from bulkdeploy.drivers.simulator.control import FaultKind, Step, cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.processes.failpoints import Failpoint, arm
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.provisioning.outcome import LeaseLost
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _look, _on, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.hypervisors.drivers import always
from tests.support.processes.deaths import dies_at
from tests.support.zones.fleet import Fleet

__all__ = ["host"]


class InterruptedDriver(SimulatorDriver):
    """Lets something happen after a host was reached, and before that is written; reaches hosts by their url."""

    meanwhile: Callable[[], object] | None = None

    def power_of(self, host: HostAddress, guest_uuid: UUID, *, fence: int, timeout_s: float) -> PowerState | None:
        """As SimulatorDriver, which would know a host by its uuid alone."""
        if host.url is None:
            raise DriverError("look", host.name, "the host has no url", transient=False)
        return super().power_of(host, guest_uuid, fence=fence, timeout_s=timeout_s)

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """As SimulatorDriver."""
        models = super().admit_hosts(hosts, timeout_s=timeout_s)
        if self.meanwhile is not None:
            self.meanwhile()
        return models


@pytest.fixture
def driver(fleet_simulator_url: str) -> Iterator[InterruptedDriver]:
    """The API's driver."""
    driver = InterruptedDriver(fleet_simulator_url)
    yield driver
    driver.close()


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, driver: InterruptedDriver) -> System:
    """One that asks the simulator itself whether a host answers."""
    return System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))


@pytest.fixture
def dead(fleet: Fleet, host: str) -> str:
    """The host with VMS running VMs does not answer any more."""
    fleet.fault(Step.ANY, FaultKind.PERMANENT, host="a-1-1")
    return host


def test_vms_of_a_dead_host_run_elsewhere(fleet: Fleet, client: ApiClient, dead: str) -> None:
    """The host is fenced and Down; each VM runs on another host of its cluster, and the result names where."""
    job = _finish(fleet, client, client.call("evacuateHost", id=dead)["jobid"])
    result = job["jobresult"]["hostmigration"]
    assert (job["jobstatus"], len(result["moved"]), result.get("failed", [])) == (1, VMS, [])
    assert {row["hostname"] for row in result["moved"]} <= {"a-1-2", "a-1-3"}
    assert client.call("listHosts", id=dead)["host"][0]["state"] == "Down"
    assert (len(fleet.guests()), _on(fleet, dead)) == (VMS, 0)
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    fleet.assert_intact()


def test_called_again_and_again_each_runs_once(fleet: Fleet, client: ApiClient, dead: str) -> None:
    """A second call while the first is under way, and a third one afterwards: nothing moves twice."""
    first, second = (client.call("evacuateHost", id=dead)["jobid"] for _ in range(2))
    assert [_finish(fleet, client, job)["jobstatus"] for job in (first, second)] == [1, 1]
    where = {vm.uuid: vm.host_id for vm in fleet.vms()}
    third = _finish(fleet, client, client.call("evacuateHost", id=dead)["jobid"])
    assert third["jobresult"]["hostmigration"].get("moved", []) == []
    assert {vm.uuid: vm.host_id for vm in fleet.vms()} == where
    assert len(fleet.guests()) == VMS
    fleet.assert_intact()


def test_a_host_that_answers_is_not_evacuated(fleet: Fleet, client: ApiClient, host: str) -> None:
    """Its VMs run: the call is refused and names the way; with ``force`` its power is cut first."""
    failure = refused(client, "evacuateHost", id=host)
    assert (failure.status, "answers, so migrateHost can move" in failure.errortext) == (431, True)
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Up"
    job = _finish(fleet, client, client.call("evacuateHost", id=host, force=True)["jobid"])
    assert (job["jobstatus"], len(fleet.guests()), _on(fleet, host)) == (1, VMS, 0)
    fleet.assert_intact()


def test_what_finds_no_room_is_stopped_and_named(fleet: Fleet, client: ApiClient, dead: str) -> None:
    """Without another host the VMs are Stopped, hold nothing of the dead one, and start once there is room."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name IN ('a-1-2', 'a-1-3')")
    job = _finish(fleet, client, client.call("evacuateHost", id=dead)["jobid"])
    left = job["jobresult"]["hostmigration"]
    assert (job["jobstatus"], len(left["failed"]), left.get("moved", [])) == (1, VMS, [])
    assert all("no host has room" in row["errortext"] for row in left["failed"])
    assert ({vm.state for vm in fleet.vms()}, fleet.guests(), _on(fleet, dead)) == ({"Stopped"}, {}, 0)
    fleet.assert_intact()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    client.call("startVirtualMachine", id=str(fleet.vms()[0].uuid))
    _look(fleet)
    assert len(fleet.guests()) == 1
    fleet.assert_intact()


def test_vms_of_the_highest_priority_start_first_and_get_the_room(
    fleet: Fleet, client: ApiClient, api_url: str, dead: str
) -> None:
    """With room for one VM the one runs whose detail ``ha.priority`` is highest; only root admins give it."""
    first = str(fleet.vms()[-1].uuid)
    assert refused(client, "updateVirtualMachine", id=first, **{"details[0].ha.priority": "much"}).status == 431
    client.call("updateVirtualMachine", id=first, **{"details[0].ha.priority": "7"})
    assert refused(
        ApiClient(api_url, *ACME), "updateVirtualMachine", id=first, **{"details[0].ha.priority": "9"}
    ).status in (431, 531)
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name = 'a-1-3'")
    fleet.zone.change(
        "UPDATE host_capacity SET vms_limit = vms_used + 1"
        " WHERE host_id = (SELECT id FROM hosts WHERE name = 'a-1-2')"
    )
    job = _finish(fleet, client, client.call("evacuateHost", id=dead)["jobid"])
    moved = job["jobresult"]["hostmigration"]["moved"]
    assert [row["virtualmachineid"] for row in moved] == [first]
    fleet.assert_intact()


def test_what_is_on_the_dead_hosts_own_disks_is_named_as_lost(fleet: Fleet, client: ApiClient, dead: str) -> None:
    """What ran there is not started elsewhere without its disk; with ``mode=all`` what is Stopped is named, too."""
    ran, stopped, *others = (vm for vm in fleet.vms() if vm.host_id == fleet.id_of("hosts", "a-1-1"))
    own = (
        "WITH own AS (INSERT INTO storage_pools (name, zone_id, pod_id, host_id, scope, capacity_bytes)"
        " SELECT 'a-1-1-local', zone_id, pod_id, id, 'HOST', 1::bigint << 40 FROM hosts WHERE name = 'a-1-1'"
        " RETURNING id) UPDATE volumes SET pool_id = own.id FROM own WHERE vm_id = ANY(:vms)"
    )
    fleet.zone.change(own, vms=[ran.id, stopped.id])
    fleet.clear_faults()
    fleet.run(fleet.make_job(STOP, stopped.id))
    fleet.fault(Step.ANY, FaultKind.PERMANENT, host="a-1-1")
    first = _finish(fleet, client, client.call("evacuateHost", id=dead)["jobid"])["jobresult"]["hostmigration"]
    assert [row["virtualmachineid"] for row in first["lost"]] == [str(ran.uuid)]
    assert [row["virtualmachineid"] for row in first["failed"]] == [str(ran.uuid)]
    assert len(first["moved"]) == len(others)
    every = _finish(fleet, client, client.call("evacuateHost", id=dead, mode="all")["jobid"])
    lost = every["jobresult"]["hostmigration"]["lost"]
    assert {row["virtualmachineid"]: row["state"] for row in lost} == {
        str(ran.uuid): "Stopped",
        str(stopped.uuid): "Stopped",
    }
    assert refused(client, "evacuateHost", id=dead, mode="secondary-only").status == 431


def test_a_fenced_host_starts_nothing(fleet: Fleet, client: ApiClient, dead: str) -> None:
    """Who was late with a start there is refused, whatever its fence, until the host is admitted anew."""
    _finish(fleet, client, client.call("evacuateHost", id=dead)["jobid"])
    fleet.clear_faults()
    (row,) = fleet.zone.rows("SELECT * FROM hosts WHERE name = 'a-1-1'")
    late = GuestSpec(uuid4(), "late", 1, 500, 512, (), ())
    address = HostAddress(row.uuid, row.name, row.ip_address, row.hypervisor)
    with pytest.raises(DriverError, match="the host is off"):
        fleet.driver.ensure_running(address, late, fence=1 << 60, timeout_s=10)
    assert not fleet.driver.answers(address, timeout_s=10)


def test_a_vm_that_comes_up_while_its_host_is_fenced_runs_elsewhere(fleet: Fleet, client: ApiClient) -> None:
    """Its guest was there before the fence, its row says so after it: the host's job waits for that."""
    host = fleet.zone.id_of("hosts", "a-1-1")
    jobs: list[str] = []

    def fence_before_it_is_written(place: str) -> None:
        if place == f"{Failpoint.COMPLETION_COMMIT}.before" and not jobs:
            jobs.append(client.call("evacuateHost", id=host, force=True)["jobid"])
            fleet.run(int(fleet.zone.scalar("SELECT id FROM async_jobs WHERE uuid = :job", job=jobs[0])))

    fleet.deploy(1, host="a-1-1")
    arm(fence_before_it_is_written)
    try:
        fleet.run()
    finally:
        arm(None)
    assert _finish(fleet, client, jobs[0])["jobstatus"] == 1
    assert ({vm.state for vm in fleet.vms()}, len(fleet.guests()), _on(fleet, host)) == ({"Running"}, 1, 0)
    fleet.assert_intact()


@pytest.mark.long
@pytest.mark.parametrize("call", ["migrateVirtualMachine", "scaleVirtualMachine"])
@pytest.mark.parametrize("dies", [None, *(f"{Failpoint.DRIVER_MIGRATE}.{when}" for when in ("before", "after"))])
@pytest.mark.parametrize("dead_host", ["source", "destination"])
def test_a_vm_that_migrates_is_not_lost(
    fleet: Fleet, client: ApiClient, call: str, dies: str | None, dead_host: str
) -> None:
    """One of its two hosts dies during the move, perhaps with the worker: the result names the VM; it runs once."""
    vm, name = _vm_on_first_host(fleet), {"source": "a-1-1", "destination": "a-1-2"}[dead_host]
    _request_move(fleet, client, call, vm)
    if dies is None:
        cut_off(fleet.control, name)
    _run_until(fleet, dies)
    fleet.zone.change("UPDATE host_capacity SET memory_mib_limit = 65536")
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    cut_off(fleet.control, name)
    held = [vm] if _on(fleet, fleet.zone.id_of("hosts", name)) else []
    job = client.call("evacuateHost", id=fleet.zone.id_of("hosts", name), force=True)["jobid"]
    fleet.run(int(fleet.zone.scalar("SELECT id FROM async_jobs WHERE uuid = :job", job=job)))  # notes the move's VM
    fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE phase = 'running'")
    result = _finish(fleet, client, job)["jobresult"]["hostmigration"]
    _look(fleet)
    join_again(fleet.control, name)
    client.call("reconnectHost", id=fleet.zone.id_of("hosts", name))
    _look(fleet)
    assert [row["virtualmachineid"] for row in result.get("moved", [])] == held
    assert held or (dead_host, dies) == ("destination", None)
    assert ({row.state for row in fleet.vms()}, len(fleet.guests())) == ({"Running"}, 1)
    fleet.assert_intact()


def _vm_on_first_host(fleet: Fleet) -> str:
    fleet.set_value("enable.dynamic.scale.vm", "true")
    fleet.deploy(1, host="a-1-1")
    fleet.run()
    fleet.zone.change("UPDATE deployments SET pinned = false")
    fleet.zone.change("UPDATE hosts SET url = 'http://rack/' || name")
    return str(fleet.vms()[0].uuid)


def _request_move(fleet: Fleet, client: ApiClient, call: str, vm: str) -> None:
    """Have the VM moved to the second host of its cluster."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name = 'a-1-3'")
    if call == "migrateVirtualMachine":
        client.call(call, virtualmachineid=vm, autoselect=True)
        return
    full = "UPDATE host_capacity SET memory_mib_limit = memory_mib_used WHERE memory_mib_used > 0"
    fleet.zone.change(full)
    custom = fleet.zone.id_of("service_offerings", "Custom")
    larger: dict[str, object] = {"details[0].cpuNumber": 2, "details[0].memory": 1024}
    client.call(call, id=vm, serviceofferingid=custom, automigrate=True, **larger)


def _run_until(fleet: Fleet, place: str | None) -> None:
    """Run what there is; a worker that passes ``place`` is dead."""
    with dies_at(place, times=None, end=LeaseLost):
        fleet.run()


def test_a_host_is_not_reconnected_while_it_is_evacuated(fleet: Fleet, client: ApiClient, host: str) -> None:
    """It answers until it is fenced: VMs that it took meanwhile would end with it. Afterwards it is taken back."""
    job = client.call("evacuateHost", id=host, force=True)["jobid"]
    failure = refused(client, "reconnectHost", id=host)
    assert (failure.status, f"job {job} evacuates the host" in failure.errortext) == (431, True)
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Down"
    assert _finish(fleet, client, job)["jobstatus"] == 1
    client.call("reconnectHost", id=host)
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Up"
    fleet.assert_intact()


def test_a_host_that_was_fenced_after_it_was_reached_stays_down(
    fleet: Fleet, client: ApiClient, driver: InterruptedDriver, host: str
) -> None:
    """What it said of itself is no longer so."""
    driver.meanwhile = lambda: _finish(fleet, client, client.call("evacuateHost", id=host, force=True)["jobid"])
    assert "fenced during this call" in refused(client, "reconnectHost", id=host).errortext
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Down"


def test_only_root_admins_evacuate(fleet: Fleet, api_url: str) -> None:
    """For everybody else the command does not exist."""
    refusal = refused(ApiClient(api_url, *ACME), "evacuateHost", id=fleet.zone.id_of("hosts", "b-2-3"))
    assert refusal.status == 432
