"""prepareHostForMaintenance and cancelHostMaintenance, from the call to the empty host."""

from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.store.jobs.async_jobs import MOVING_KINDS
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.hypervisors.blocking_drivers import GatedMigration
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import Fleet, OneDriver

VMS = 6


@pytest.fixture
def host(fleet: Fleet) -> str:
    """A host of cluster a-1 with VMS running VMs; the others of its cluster are empty."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name IN ('a-1-2', 'a-1-3')")
    fleet.deploy(VMS, cluster="a-1")
    fleet.run()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    return fleet.zone.id_of("hosts", "a-1-1")


def _look(fleet: Fleet) -> None:
    """Wake what waits, as the sweeper does, and run it."""
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    fleet.run()


def _finish(fleet: Fleet, client: ApiClient, job_id: str) -> dict[str, Any]:
    """Run until the job is over; it makes jobs for VMs on the way."""
    for _ in range(2 * VMS + 2):
        _look(fleet)
        job = client.call("queryAsyncJobResult", jobid=job_id)
        if job["jobstatus"] != 0:
            return job
    raise AssertionError("the host's job does not end")


def _state(client: ApiClient, host: str) -> str:
    return str(client.call("listHosts", id=host)["host"][0]["resourcestate"])


def _on(fleet: Fleet, host: str) -> int:
    sql = "SELECT count(*) FROM host_claims x JOIN hosts h ON h.id = x.host_id WHERE h.uuid = CAST(:host AS uuid)"
    return int(fleet.zone.scalar(sql, host=host))


def test_a_host_is_emptied(fleet: Fleet, client: ApiClient, host: str) -> None:
    """It takes no VM from the answer on; its VMs are moved; then it is in Maintenance, and back on demand."""
    assert _on(fleet, host) == VMS
    job_id = client.call("prepareHostForMaintenance", id=host)["jobid"]
    assert _state(client, host) == "PrepareForMaintenance"
    fleet.deploy(3, cluster="a-1")
    assert _on(fleet, host) == VMS
    job = _finish(fleet, client, job_id)
    assert (job["jobstatus"], job["jobinstancetype"], job["jobinstanceid"]) == (1, "Host", host)
    assert job["jobresult"]["host"]["resourcestate"] == "Maintenance"
    moves = client.call("listAsyncJobs", hostid=host, listall="true")["asyncjobs"]
    assert len({move["jobinstanceid"] for move in moves}) == VMS
    assert {move["jobresult"]["virtualmachine"]["hostid"] for move in moves}.isdisjoint({host})
    assert (_state(client, host), _on(fleet, host)) == ("Maintenance", 0)
    assert len(fleet.guests()) == VMS + 3
    states = [event["state"] for event in client.call("listEvents", type="MAINT.PREPARE", listall=True)["event"]]
    assert states == ["Completed", "Started", "Scheduled"]
    fleet.assert_intact()
    cancelled = client.call("cancelHostMaintenance", id=host)["jobid"]
    job = client.call("queryAsyncJobResult", jobid=cancelled)
    assert job["jobresult"]["host"]["resourcestate"] == _state(client, host) == "Enabled"
    login = {"address": "10.9.0.5", "port": 623, "username": "fence", "password": "anything"}
    client.call("configureOutOfBandManagement", hostid=host, driver="simulator", **login)
    client.call("enableOutOfBandManagementForHost", hostid=host)
    client.call("issueOutOfBandManagementPowerAction", hostid=host, action="STATUS")
    assert client.call("listAsyncJobs", hostid=host, listall="true")["asyncjobs"] == moves


def test_jobs_that_move_vms_of_a_host_are_of_declared_kinds() -> None:
    """The store finds moves by the names of these kinds."""
    assert set(MOVING_KINDS) <= set(job_kinds())


def test_some_vms_move_at_a_time(fleet: Fleet, client: ApiClient, host: str) -> None:
    """No more than ``host.maintenance.migrations.max`` are under way; each end makes room for the next."""
    client.call("updateConfiguration", name="host.maintenance.migrations.max", value=2)
    job_id = client.call("prepareHostForMaintenance", id=host)["jobid"]
    left = []
    while client.call("queryAsyncJobResult", jobid=job_id)["jobstatus"] == 0:
        _look(fleet)
        unfinished = "SELECT count(*) FROM async_jobs WHERE kind = 'migrate_virtual_machine' AND status = 0"
        assert fleet.zone.scalar(unfinished) <= 2
        left.append(_on(fleet, host))
    assert left == sorted(left, reverse=True)
    assert _state(client, host) == "Maintenance"
    fleet.assert_intact()


def test_a_host_whose_vms_cannot_go_says_why(fleet: Fleet, client: ApiClient, host: str) -> None:
    """With no room elsewhere it is in ErrorInPrepareForMaintenance, still out of placement; repeated, it works."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name IN ('a-1-2', 'a-1-3')")
    job = _finish(fleet, client, client.call("prepareHostForMaintenance", id=host)["jobid"])
    assert (job["jobstatus"], job["jobresult"]["errorcode"]) == (2, 534)
    assert f"{VMS} VM(s) could not be moved" in job["jobresult"]["errortext"]
    assert "host_not_enabled" in job["jobresult"]["errortext"]
    assert (_state(client, host), _on(fleet, host)) == ("ErrorInPrepareForMaintenance", VMS)
    fleet.assert_intact()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled' WHERE name = 'a-1-2'")
    job = _finish(fleet, client, client.call("prepareHostForMaintenance", id=host)["jobid"])
    assert (job["jobstatus"], _state(client, host)) == (1, "Maintenance")
    fleet.assert_intact()


def test_hypervisors_may_fail_meanwhile(fleet: Fleet, client: ApiClient, host: str) -> None:
    """Moves that fail are tried elsewhere; whatever the end, rows, claims and guests agree."""
    fleet.fault(Step.MIGRATE, rate=0.3)
    job = _finish(fleet, client, client.call("prepareHostForMaintenance", id=host)["jobid"])
    expected = {1: "Maintenance", 2: "ErrorInPrepareForMaintenance"}
    assert _state(client, host) == expected[job["jobstatus"]]
    fleet.assert_intact()


def test_vms_that_leave_by_themselves_are_gone_too(fleet: Fleet, client: ApiClient, host: str) -> None:
    """A VM that is stopped or destroyed before its turn needs no move."""
    first, second, *_ = [str(vm.uuid) for vm in fleet.vms()]
    client.call("stopVirtualMachine", id=first)
    client.call("destroyVirtualMachine", id=second, expunge=True)
    job = _finish(fleet, client, client.call("prepareHostForMaintenance", id=host)["jobid"])
    assert (job["jobstatus"], _on(fleet, host)) == (1, 0)
    assert len(fleet.guests()) == VMS - 2
    fleet.assert_intact()


def test_cancelling_leaves_the_rest_where_it_is(fleet: Fleet, client: ApiClient, host: str) -> None:
    """What has not begun to move stays; the preparing job fails and says so; the host is Enabled."""
    client.call("updateConfiguration", name="host.maintenance.migrations.max", value=2)
    job_id = client.call("prepareHostForMaintenance", id=host)["jobid"]
    fleet.run()
    client.call("cancelHostMaintenance", id=host)
    job = _finish(fleet, client, job_id)
    assert (job["jobstatus"], "cancelled" in job["jobresult"]["errortext"]) == (2, True)
    _look(fleet)
    assert (_state(client, host), _on(fleet, host)) == ("Enabled", VMS)
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    fleet.assert_intact()


def test_another_worker_goes_on(fleet: Fleet, client: ApiClient, host: str) -> None:
    """A worker that dies while VMs move, with the host's job and theirs in hand: the next ones finish it all."""
    job_id = client.call("prepareHostForMaintenance", id=host)["jobid"]
    fleet.run()
    gated = GatedMigration(fleet.driver, before=False)
    moving = [job.id for job in fleet.jobs() if job.parent_id is not None]
    assert len(moving) == VMS
    with fleet.runner(drivers=OneDriver(gated)) as paused:
        for job in moving:
            paused.accept(job)
        assert gated.entered.wait(PATIENCE_S)
        fleet.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE phase = 'running'")
        assert _finish(fleet, client, job_id)["jobstatus"] == 1
        gated.gate.set()
    assert (_state(client, host), _on(fleet, host)) == ("Maintenance", 0)
    fleet.assert_intact()


def test_the_time_for_it_is_limited(fleet: Fleet, client: ApiClient, host: str) -> None:
    """A host that is not empty when ``job.cancel.threshold.minutes`` are over ends in error, with the reason."""
    job_id = client.call("prepareHostForMaintenance", id=host)["jobid"]
    fleet.run()
    fleet.zone.change("UPDATE async_jobs SET started = now() - interval '61 minutes' WHERE status = 0")
    fleet.sweeper().end_late()
    fleet.run(*[job.id for job in fleet.jobs() if job.kind == "prepare_host_for_maintenance"])
    job = client.call("queryAsyncJobResult", jobid=job_id)
    assert (job["jobstatus"], "job.cancel.threshold.minutes" in job["jobresult"]["errortext"]) == (2, True)
    assert _state(client, host) == "ErrorInPrepareForMaintenance"
    _look(fleet)
    fleet.assert_intact()


@pytest.mark.parametrize("command", ["prepareHostForMaintenance", "cancelHostMaintenance"])
def test_states_that_do_not_fit_are_refused(fleet: Fleet, client: ApiClient, command: str) -> None:
    """A host that is there already, or was removed: 431, with its state and those accepted; no job is made."""
    host = fleet.zone.id_of("hosts", "b-2-3")
    if command == "prepareHostForMaintenance":
        fleet.zone.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE name = 'b-2-3'")
    failure = refused(client, command, id=host)
    assert (failure.status, "ErrorInPrepareForMaintenance" in failure.errortext) == (431, True)
    fleet.zone.change("UPDATE hosts SET removed = now() WHERE name = 'b-2-3'")
    assert "removed" in refused(client, command, id=host).errortext
    assert fleet.jobs() == []


@pytest.mark.parametrize("command", ["prepareHostForMaintenance", "cancelHostMaintenance"])
@pytest.mark.parametrize("keys", [ACME, CUSTOMERS_ADMIN])
def test_only_root_admins_maintain_hosts(fleet: Fleet, api_url: str, command: str, keys: tuple[str, str]) -> None:
    """For everybody else the commands do not exist."""
    host = fleet.zone.id_of("hosts", "b-2-3")
    assert refused(ApiClient(api_url, *keys), command, id=host).status == 432
