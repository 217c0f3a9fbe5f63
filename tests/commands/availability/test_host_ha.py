"""Host HA: silent hosts are checked, reset and fenced; then their highly available VMs run elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.simulator.control import break_controller, cut_off, join_again, repair_controller
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.power_calls import PowerCalls
from bulkdeploy.provisioning.watches.host_ha import HostHa
from bulkdeploy.provisioning.watches.host_watch import HostWatch
from bulkdeploy.wiring.cipher import FernetCipher
from tests.commands.availability.controlled_hosts import Unfenced, alerts, enable, hypervisor, system
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _on, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.processes.deaths import dies_at
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver

__all__ = ["host", "hypervisor", "system"]

HOST = "a-1-1"
SHARED_VOLUMES = (
    "SELECT p.uuid AS pool, x.uuid AS volume FROM volumes x JOIN storage_pools p ON p.id = x.pool_id"
    " WHERE x.removed IS NULL AND p.host_id IS NULL"
)


class Sweeps:
    """The sweeper's passes, an hour apart."""

    def __init__(self, fleet: Fleet, hypervisor: OneDriver, cipher: FernetCipher) -> None:
        clock = iter(range(0, 1_000_000, 1000))
        self._fleet = fleet
        self._watch = HostWatch(fleet.engine, hypervisor, 5.0, clock=lambda: next(clock))
        self._ha = HostHa(fleet.engine, hypervisor, PowerCalls(fleet.power, cipher.decrypt), 600.0)

    def go(self, times: int = 1) -> list[str]:
        """Sweep; the state of the host after each time."""
        states = []
        for _ in range(times):
            self._watch.watch_hosts()
            self._ha.follow_hosts()
            states.append(state(self._fleet))
            for table, columns in (("host_watches", ["since"]), ("host_ha", ["since", "checked", "reset_begun"])):
                later = ", ".join(f"{column} = {column} - interval '1 hour'" for column in columns)
                self._fleet.zone.change(f"UPDATE {table} SET {later}")
        return states

    def until(self, wanted: str, most: int = 20) -> list[str]:
        """Sweep until the host is in a state; all states on the way, each once in a row."""
        seen: list[str] = []
        for _ in range(most):
            (now,) = self.go()
            if seen[-1:] != [now]:
                seen.append(now)
            if now == wanted:
                return seen
        raise AssertionError(f"not {wanted}: {seen}")


@pytest.fixture
def sweeps(fleet: Fleet, hypervisor: OneDriver, cipher: FernetCipher, client: ApiClient, host: str) -> Sweeps:
    """Sweepers of a service in which the host has HA, and all VMs have it."""
    fleet.zone.change("UPDATE service_offerings SET offer_ha = true")
    fleet.set_value("kvm.ha.activity.check.max.attempts", 3)
    enable(client, host)
    made = Sweeps(fleet, hypervisor, cipher)
    provider = client.call("listHostHAProviders", hypervisor=hypervisor_of(client, host))["haprovider"][0][
        "haprovider"
    ]
    client.call("configureHAForHost", hostid=host, provider=provider.lower())
    client.call("enableHAForHost", hostid=host)
    assert made.go() == ["Available"]
    return made


def hypervisor_of(client: ApiClient, host: str) -> str:
    """The hypervisor of a host."""
    return str(client.call("listHosts", id=host)["host"][0]["hypervisor"])


def state(fleet: Fleet) -> str:
    """The host's state of HA."""
    return str(fleet.zone.scalar("SELECT state FROM host_ha"))


def fail(fleet: Fleet) -> None:
    """The host loses its power, and its guests with it; the controller goes on."""
    fleet.control.execute("SELECT simulator_code.ensure_fenced(uuid) FROM simulator.hosts WHERE name = %s", [HOST])


def evacuations(fleet: Fleet) -> list[Any]:
    """The jobs that evacuate hosts."""
    return fleet.zone.rows("SELECT id, uuid, status FROM async_jobs WHERE kind = 'evacuate_host' ORDER BY id")


def transitions(client: ApiClient, host: str) -> list[str]:
    """The transitions of the host. A page of one has the first, and a keyword selects them by event and state."""
    command, named = "listSimulatorHAStateTransitions", {"hostid": host}
    body = client.call(command, **named)
    rows = body["hastatetransition"]
    page = client.call(command, **named, page=1, pagesize=1)
    assert (page["count"], page["hastatetransition"]) == (body["count"], rows[:1])
    of_event = client.call(command, **named, keyword=rows[0]["event"].upper())["hastatetransition"]
    assert of_event == [row for row in rows if any(rows[0]["event"] in str(value) for value in row.values())]
    return [f"{row['prevhastate']} {row['event']} {row['hastate']}" for row in rows]


def assert_stays_fencing(fleet: Fleet, host: str, sweeps: Sweeps, hypervisor: OneDriver) -> None:
    """However often its one job is tried, the host is Fencing, and all VMs stay on it."""
    for _ in range(3):
        fleet.run(drivers=hypervisor)
        fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        assert sweeps.go() == ["Fencing"]
    assert (len(evacuations(fleet)), _on(fleet, host)) == (1, VMS)


def assert_is_fenced(fleet: Fleet, client: ApiClient, host: str, sweeps: Sweeps, hypervisor: OneDriver) -> None:
    """The job of the host fences it, and each VM runs once, elsewhere."""
    fleet.run(drivers=hypervisor)
    assert sweeps.go() == ["Fenced"]
    _finish(fleet, client, str(evacuations(fleet)[0].uuid))
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, 0)
    fleet.assert_intact()


def test_host_ha_is_configured_and_shown(fleet: Fleet, client: ApiClient, host: str, sweeps: Sweeps) -> None:
    """CloudStack's commands and answers; enabled at three levels, each by itself."""
    place = client.call("listHosts", id=host)["host"][0]
    assert place["hostha"] == {"haenable": True, "hastate": "Available", "haprovider": "kvmhaprovider"}
    (row,) = client.call("listHostHAResources", hostid=host)["hostha"]
    assert row == {"hostid": host, "haenable": True, "hastate": "Available", "haprovider": "kvmhaprovider"}
    for level, given in (("Zone", {"zoneid": place["zoneid"]}), ("Cluster", {"clusterid": place["clusterid"]})):
        client.call(f"disableHAFor{level}", **given)
        assert state(fleet) == sweeps.go()[0] == "Disabled"
        client.call(f"enableHAFor{level}", **given)
        assert sweeps.go() == ["Available"]
    job = client.call("disableHAForHost", hostid=host)["jobid"]
    done = client.call("queryAsyncJobResult", jobid=job)["jobresult"]["hostha"]
    assert done == {"hostid": host, "haenable": False, "status": True}
    assert state(fleet) == "Disabled"
    types = {event["type"] for event in client.call("listEvents", listall=True, resourceid=host)["event"]}
    assert types >= {"HA.RESOURCE.CONFIGURE", "HA.RESOURCE.ENABLE", "HA.RESOURCE.DISABLE"}
    for hypervisor_type, name in (("Simulator", "SimulatorHAProvider"), ("KVM", "KVMHAProvider")):
        (found,) = client.call("listHostHAProviders", hypervisor=hypervisor_type)["haprovider"]
        assert found == {"haprovider": name}


def test_what_is_refused(fleet: Fleet, client: ApiClient, host: str) -> None:
    """Unknown providers and those of other hypervisors, hosts without one, and hosts that are not simulated."""
    for command, given in (
        ("enableHAForHost", {"hostid": host}),
        ("enableHAForHost", {"hostid": -1}),
        ("enableHAForCluster", {}),
        ("disableHAForZone", {}),
        ("configureHAForHost", {"hostid": host, "provider": "randomDriverThatDoesNotExist"}),
        ("configureHAForHost", {"hostid": host, "provider": "simulatorhaprovider"}),
        ("configureSimulatorHAProviderState", {"hostid": host, "health": True}),
        ("listHostHAProviders", {"hypervisor": "Abacus"}),
    ):
        assert refused(client, command, **given).status == 431, command
    assert fleet.zone.scalar("SELECT count(*) FROM host_ha") == 0


def test_a_dead_host_is_reset_fenced_and_its_vms_run_elsewhere(
    fleet: Fleet, client: ApiClient, host: str, sweeps: Sweeps, hypervisor: OneDriver
) -> None:
    """It does not come back after its reset: it is off for certain before anything starts elsewhere, once."""
    cut_off(fleet.control, HOST)
    fleet.control.execute("UPDATE simulator.guests SET power = 'Stopped' WHERE host_uuid = %s", [host])
    way = sweeps.until("Fencing")
    assert list(dict.fromkeys(way)) == ["Suspect", "Recovering", "Recovered", "Available", "Fencing"]
    assert len(fleet.guests()) == 0 or _on(fleet, host) == VMS
    (job,) = evacuations(fleet)
    fleet.run(drivers=hypervisor)
    assert sweeps.go() == ["Fenced"]
    assert fleet.control.execute("SELECT is_off FROM simulator.hosts WHERE name = %s", [HOST]).fetchone() == (True,)
    result = _finish(fleet, client, str(job.uuid))["jobresult"]["hostmigration"]
    assert (len(result["moved"]), result.get("failed", [])) == (VMS, [])
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, 0)
    assert sweeps.go(3) == ["Fenced"] * 3
    assert len(evacuations(fleet)) == 1
    shown = client.call("listHosts", id=host)["host"][0]
    assert (shown["state"], shown["resourcestate"]) == ("Down", "Maintenance")
    assert [kind for kind, text in alerts(client) if f"Host {HOST}" in text].count(30) >= 3
    fleet.assert_intact()
    join_again(fleet.control, HOST)
    client.call("issueOutOfBandManagementPowerAction", hostid=host, action="ON")
    fleet.run()
    client.call("reconnectHost", id=host)
    assert sweeps.until("Ineligible")[-1] == "Ineligible"
    client.call("cancelHostMaintenance", id=host)
    assert sweeps.go() == ["Available"]


def test_a_host_whose_guests_write_is_degraded_and_never_fenced(
    fleet: Fleet, client: ApiClient, host: str, sweeps: Sweeps
) -> None:
    """Its connection is lost and its guests run on: nothing is reset, switched off or started twice."""
    cut_off(fleet.control, HOST)
    assert sweeps.until("Degraded") == ["Suspect", "Degraded"]
    for _ in range(2):
        assert sweeps.until("Suspect")[-1] == "Suspect"
        assert sweeps.until("Degraded")[-1] == "Degraded"
    assert evacuations(fleet) == []
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, VMS)
    assert fleet.control.execute("SELECT is_off FROM simulator.hosts WHERE name = %s", [HOST]).fetchone() == (
        False,
    )
    assert "recovering" not in " ".join(transitions(client, host))
    join_again(fleet.control, HOST)
    assert sweeps.until("Available")[-1] == "Available"
    assert fleet.zone.scalar("SELECT activity FROM host_ha") is None, "the next failure is judged by its own looks"


def test_nothing_starts_while_the_controller_is_silent(
    fleet: Fleet, client: ApiClient, host: str, sweeps: Sweeps, hypervisor: OneDriver
) -> None:
    """The host is Fencing until it is off for certain, and an alert says what an operator may do."""
    fleet.set_value("kvm.ha.fence.timeout", 1)
    cut_off(fleet.control, HOST)
    fleet.control.execute("UPDATE simulator.guests SET power = 'Stopped' WHERE host_uuid = %s", [host])
    break_controller(fleet.control, HOST)
    sweeps.until("Fencing")
    assert_stays_fencing(fleet, host, sweeps, hypervisor)
    assert sum("could not be fenced" in text for _, text in alerts(client)) == 1
    repair_controller(fleet.control, HOST)
    assert_is_fenced(fleet, client, host, sweeps, hypervisor)


def test_nothing_starts_before_the_hypervisor_knows_that_the_host_is_off(
    fleet: Fleet,
    client: ApiClient,
    host: str,
    sweeps: Sweeps,
    hypervisor: OneDriver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster that counts the host as running would not start its guests elsewhere: the job tells it again."""

    def refuse(*_: object, **__: object) -> None:
        raise DriverError("fence", HOST, "the cluster is busy", transient=True)

    fleet.set_value("kvm.ha.recover.failure.threshold", 0)
    fail(fleet)
    with monkeypatch.context() as patch:
        patch.setattr(Unfenced, "declare_off", refuse)
        sweeps.until("Fencing")
        assert_stays_fencing(fleet, host, sweeps, hypervisor)
    assert sum("could not be fenced" in text and "the cluster is busy" in text for _, text in alerts(client)) == 1
    assert_is_fenced(fleet, client, host, sweeps, hypervisor)


def test_guests_may_write_while_jobs_on_their_vms_wait_for_the_silent_host(
    fleet: Fleet,
    client: ApiClient,
    host: str,
    sweeps: Sweeps,
    hypervisor: OneDriver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disks of VMs that are being stopped or migrated are read, too: the host is Degraded."""
    marks = iter(range(100))
    wanted = {(row.pool, row.volume) for row in fleet.zone.rows(SHARED_VOLUMES)}
    assert len(wanted) == VMS

    def look(_: object, __: object, ___: object, volumes: Sequence[tuple[UUID, UUID]], **____: object) -> str:
        assert set(volumes) == wanted
        return str(next(marks))

    monkeypatch.setattr(Unfenced, "activity_mark", look)
    first, *others = (vm["id"] for vm in client.call("listVirtualMachines", hostid=host)["virtualmachine"])
    cut_off(fleet.control, HOST)
    client.call("migrateVirtualMachine", virtualmachineid=first, autoselect=True)
    for vm in others:
        client.call("stopVirtualMachine", id=vm)
    fleet.run(drivers=hypervisor)
    states = [vm["state"] for vm in client.call("listVirtualMachines")["virtualmachine"]]
    assert sorted(states) == ["Migrating", *["Stopping"] * len(others)]
    assert sweeps.until("Degraded") == ["Suspect", "Degraded"]
    assert evacuations(fleet) == []


def test_a_host_is_never_fenced_while_its_activity_cannot_be_read(
    fleet: Fleet, client: ApiClient, host: str, sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check without a result is no check: the host is neither Degraded nor reset, however often it is checked."""

    def fail_to_look(*_: object, **__: object) -> str:
        raise DriverError("look", "a-1-2", "the volumes are not there", transient=True)

    monkeypatch.setattr(Unfenced, "activity_mark", fail_to_look)
    cut_off(fleet.control, HOST)
    assert set(sweeps.go(12)) == {"Suspect"}
    assert "checking activitycheckfailureoverthresholdratio" not in " ".join(transitions(client, host))
    assert evacuations(fleet) == []


def test_silent_hosts_delay_no_pass_and_no_fencing(
    fleet: Fleet, sweeps: Sweeps, hypervisor: OneDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions to hosts end long before the time that a driver has for its work, which is ten minutes."""
    questions: list[tuple[str, float]] = []

    def look(_: object, *__: object, timeout_s: float) -> None:
        questions.append(("activity", timeout_s))

    def answer(_: object, __: object, *, timeout_s: float) -> bool:
        questions.append(("answer", timeout_s))
        return False

    monkeypatch.setattr(Unfenced, "activity_mark", look)
    monkeypatch.setattr(Unfenced, "answers", answer)
    fleet.set_value("kvm.ha.recover.failure.threshold", 0)
    fleet.set_value("kvm.ha.activity.check.timeout", 12)
    cut_off(fleet.control, HOST)
    sweeps.until("Fencing")
    fleet.run(drivers=hypervisor, options=replace(OPTIONS, driver_timeout_s=600))
    assert sweeps.go() == ["Fenced"]
    assert set(questions) == {("activity", 3.0), ("answer", 10.0)}


def test_nothing_is_reset_or_fenced_while_most_hosts_of_a_cluster_are_silent(fleet: Fleet, sweeps: Sweeps) -> None:
    """Two of three hosts of the cluster are silent, though most hosts of the zone answer."""
    for name in (HOST, "a-1-2"):
        cut_off(fleet.control, name)
    fleet.control.execute("UPDATE simulator.guests SET power = 'Stopped'")
    sweeps.until("Recovering")
    assert sweeps.go(4) == ["Recovering"] * 4
    assert fleet.zone.scalar("SELECT recoveries FROM host_ha") == 0
    assert evacuations(fleet) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "place",
    [
        f"{point}.{side}"
        for point in (
            Failpoint.POWER_ACTION,
            Failpoint.DRIVER_FENCE,
            "evacuate_host.commit",
            Failpoint.SWEEP_HOST_HA,
        )
        for side in ("before", "after")
    ],
)
def test_each_vm_starts_once_wherever_fencing_is_interrupted(
    fleet: Fleet, host: str, sweeps: Sweeps, hypervisor: OneDriver, place: str
) -> None:
    """After a death at each step of fencing the host ends off, and each VM runs once."""
    fleet.set_value("kvm.ha.recover.failure.threshold", 0)
    cut_off(fleet.control, HOST)
    fleet.control.execute("UPDATE simulator.guests SET power = 'Stopped' WHERE host_uuid = %s", [host])
    with dies_at(place, times=2, end=ConnectionAbortedError) as died:
        for _ in range(12):
            try:
                sweeps.go()
                fleet.run(drivers=hypervisor)
            except ConnectionAbortedError:
                continue
            fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
            fleet.zone.change(
                "UPDATE async_jobs SET lease_until = now() - interval '1 hour' WHERE phase = 'running'"
            )
            fleet.sweeper().requeue_dropped()
    assert died == [place, place]
    assert state(fleet) == "Fenced"
    assert len(evacuations(fleet)) <= 3
    assert (len(fleet.guests()), _on(fleet, host)) == (VMS, 0)
    fleet.assert_intact()
