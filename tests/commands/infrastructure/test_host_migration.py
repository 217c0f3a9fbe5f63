"""migrateHost: a host is emptied and goes on taking VMs."""

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _look, _on, _state, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.zones.fleet import Fleet

__all__ = ["host"]


def test_all_vms_leave_and_the_host_stays_enabled(fleet: Fleet, client: ApiClient, host: str) -> None:
    """The result names each VM with where it is now; what came meanwhile stays, and the host is as it was."""
    client.call("updateConfiguration", name="host.maintenance.migrations.max", value=2)
    job_id = client.call("migrateHost", id=host)["jobid"]
    _look(fleet)
    (late,) = fleet.deploy(1, host="a-1-1").vm_uuids
    job = _finish(fleet, client, job_id)
    result = job["jobresult"]["hostmigration"]
    assert (job["jobstatus"], result["hostid"], result["hostname"]) == (1, host, "a-1-1")
    assert (len(result["moved"]), result.get("failed", [])) == (VMS, [])
    assert {row["hostname"] for row in result["moved"]} <= {"a-1-2", "a-1-3"}
    assert late not in {row["virtualmachineid"] for row in result["moved"]}
    assert (_state(client, host), _on(fleet, host)) == ("Enabled", 1)
    fleet.assert_intact()


def test_what_cannot_leave_is_named_with_the_reason(fleet: Fleet, client: ApiClient, host: str) -> None:
    """A hypervisor that refuses, on every host: the VM is where it was, and the job says why; the rest moved."""
    client.call("updateConfiguration", name="host.maintenance.migrations.max", value=1)
    fleet.fault(Step.MIGRATE, FaultKind.PERMANENT, remaining=2)
    job = _finish(fleet, client, client.call("migrateHost", id=host)["jobid"])
    result = job["jobresult"]["hostmigration"]
    assert (job["jobstatus"], len(result["moved"]), _on(fleet, host)) == (1, VMS - 1, 1)
    ((failed,),) = (result["failed"],)
    assert "simulated failure" in failed["errortext"]
    fleet.assert_intact()


def test_an_empty_host_is_done_at_once(fleet: Fleet, client: ApiClient) -> None:
    """Nothing to move is a success."""
    job = _finish(fleet, client, client.call("migrateHost", id=fleet.zone.id_of("hosts", "b-2-3"))["jobid"])
    assert (job["jobstatus"], job["jobresult"]["hostmigration"]["hostname"]) == (1, "b-2-3")


def test_it_has_an_end(fleet: Fleet, client: ApiClient, host: str) -> None:
    """A job that takes longer than ``job.cancel.threshold.minutes`` fails and says how many are left."""
    client.call("updateConfiguration", name="host.maintenance.migrations.max", value=1)
    job_id = client.call("migrateHost", id=host)["jobid"]
    fleet.run()
    fleet.zone.change("UPDATE async_jobs SET started = now() - interval '61 minutes' WHERE kind = 'migrate_host'")
    fleet.sweeper().end_late()
    job = _finish(fleet, client, job_id)
    assert (job["jobstatus"], "have not left the host" in job["jobresult"]["errortext"]) == (2, True)
    fleet.assert_intact()


@pytest.mark.parametrize("keys", [ACME])
def test_only_root_admins_empty_hosts(fleet: Fleet, api_url: str, keys: tuple[str, str]) -> None:
    """For everybody else the command does not exist."""
    assert refused(ApiClient(api_url, *keys), "migrateHost", id=fleet.zone.id_of("hosts", "b-2-3")).status == 432
