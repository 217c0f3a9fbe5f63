"""Deploy jobs, from their rows to running guests, and back to nothing when they fail."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.batches import Answer, GuestCall, StartCall
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.store.jobs.bulk_operations import request_cancel
from bulkdeploy.store.jobs.job_groups import JobGroup
from tests.support.zones.fleet import HOSTS, Fleet

BOOT_STEPS = [Step.VOLUME, Step.NETWORK, Step.BOOT]


def _place_of_first(fleet: Fleet) -> str:
    sql = "SELECT h.name FROM virtual_machines v JOIN hosts h ON h.id = v.host_id ORDER BY v.id LIMIT 1"
    return str(fleet.zone.scalar(sql))


def test_deployed_vms_run_where_they_were_claimed(fleet: Fleet) -> None:
    """Every VM runs on its claimed host with its volumes ready, and its job's result is the VM."""
    deployed = fleet.deploy(5)
    claimed = {vm.uuid: vm.host_id for vm in fleet.vms()}
    fleet.run()
    assert {vm.uuid: vm.host_id for vm in fleet.vms()} == claimed
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    assert {row.state for row in fleet.zone.rows("SELECT state FROM volumes")} == {"Ready"}
    assert [(job.status, job.phase, job.result_code) for job in fleet.jobs()] == [(1, "done", 0)] * 5
    results = [result["virtualmachine"] for result in fleet.results()]
    assert [vm["id"] for vm in results] == list(deployed.vm_uuids)
    assert {vm["state"] for vm in results} == {"Running"}
    assert all(vm["hostid"] and vm["nic"][0]["ipaddress"] and vm["created"].endswith("+0000") for vm in results)
    assert len(fleet.guests()) == 5
    fleet.assert_intact()


def test_variables_go_with_the_user_data_that_has_them(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hypervisor is given both, but for a VM that got user data of its own."""
    reported: dict[UUID, tuple[str | None, Mapping[str, str]]] = {}
    begin = fleet.driver.begin

    def watched(calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        starts = [call.guest for call in calls if isinstance(call, StartCall)]
        reported.update({guest.uuid: (guest.user_data, guest.user_data_details) for guest in starts})
        return begin(calls, timeout_s=timeout_s)

    monkeypatch.setattr(fleet.driver, "begin", watched)
    fleet.deploy(2, user_data="aGVsbG8=", user_data_details={"role": "web"})
    shared, own = fleet.vms()
    fleet.zone.change("UPDATE virtual_machines SET user_data = 'b3RoZXI=' WHERE id = :id", id=own.id)
    fleet.run()
    assert reported == {shared.uuid: ("aGVsbG8=", {"role": "web"}), own.uuid: ("b3RoZXI=", {})}


def test_a_job_leaves_its_events(fleet: Fleet) -> None:
    """Started and Completed belong to the owner, name the VM, and have the Scheduled event as their parent."""
    fleet.deploy(1)
    fleet.run()
    rows = fleet.zone.rows("SELECT * FROM events WHERE event_type = 'VM.CREATE' ORDER BY id")
    assert [(row.state, row.level) for row in rows] == [
        ("Scheduled", "INFO"),
        ("Started", "INFO"),
        ("Completed", "INFO"),
    ]
    (vm,) = fleet.vms()
    assert {(row.resource_id, row.resource_uuid, row.account_id) for row in rows} == {
        (vm.id, vm.uuid, vm.account_id)
    }
    assert [row.parent_uuid for row in rows] == [None, rows[0].uuid, rows[0].uuid]


def test_a_vm_that_is_not_to_be_started_stays_stopped(fleet: Fleet) -> None:
    """With startvm=false the job succeeds with the Stopped VM, which holds no host and no guest."""
    fleet.deploy(2, start_vm=False)
    fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    assert {(vm.state, vm.host_id) for vm in fleet.vms()} == {("Stopped", None)}
    assert fleet.guests() == {}
    fleet.assert_intact()


@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT, FaultKind.PERMANENT])
@pytest.mark.parametrize("step", BOOT_STEPS)
def test_a_host_that_fails_loses_the_vm_to_another_host(fleet: Fleet, step: Step, kind: FaultKind) -> None:
    """Whatever step fails on a host, for good or not, the VM runs on another and nothing is left on the first."""
    fleet.deploy(1)
    broken = _place_of_first(fleet)
    fleet.fault(step, kind, host=broken)
    fleet.run()
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED]
    assert _place_of_first(fleet) != broken
    assert len(fleet.guests()) == 1
    fleet.assert_intact()


@pytest.mark.long
@pytest.mark.parametrize("step", BOOT_STEPS)
def test_a_failure_on_every_host_gives_everything_back(fleet: Fleet, step: Step) -> None:
    """The VM is in Error and holds nothing; the job says what failed, where and why."""
    fleet.deploy(3)
    fleet.fault(step, FaultKind.PERMANENT, reason="the disk is on fire")
    fleet.run()
    assert {(job.status, job.result_code) for job in fleet.jobs()} == {(JobStatus.FAILED, 530)}
    assert {vm.state for vm in fleet.vms()} == {"Error"}
    for result in fleet.results():
        assert set(result) == {"errorcode", "errortext"}
        assert f"{step.value} failed on host" in result["errortext"]
        assert "the disk is on fire" in result["errortext"]
    fleet.assert_nothing_held()


@pytest.mark.parametrize("pin", [{"pod": "pod-a"}, {"cluster": "a-1"}])
def test_a_pinned_vm_is_not_tried_elsewhere(fleet: Fleet, pin: dict[str, Any]) -> None:
    """With a pod or cluster pinned, the first failure is the last; the rest of the pod is not asked."""
    fleet.deploy(1, **pin)
    fleet.fault(Step.BOOT, host=_place_of_first(fleet))
    fleet.run()
    (result,) = fleet.results()
    assert result["errorcode"] == 534
    assert "bound to its place" in result["errortext"]
    fleet.assert_nothing_held()


def test_retries_end_when_no_host_is_left(fleet: Fleet) -> None:
    """Each host is tried once; then the job fails for want of room, and nothing is held."""
    fleet.zone.change("INSERT INTO configuration_values VALUES ('Global', 0, 'start.retry', '50')")
    fleet.deploy(1)
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    fleet.run()
    (result,) = fleet.results()
    assert result["errorcode"] == 533
    assert f"{HOSTS} tried" in result["errortext"]
    fleet.assert_nothing_held()


def test_retries_end_at_the_setting(fleet: Fleet) -> None:
    """``start.retry`` bounds the tries after the first."""
    fleet.zone.change("INSERT INTO configuration_values VALUES ('Global', 0, 'start.retry', '2')")
    fleet.deploy(1)
    fleet.fault(Step.BOOT)
    fleet.run()
    (result,) = fleet.results()
    assert "gave up after 3 tries" in result["errortext"]
    fleet.assert_nothing_held()


def test_a_job_without_another_host_tries_the_same_again_until_the_setting(fleet: Fleet) -> None:
    """Failures that may pass are tried again after pauses, ``start.retry`` times in all; then nothing is held."""
    fleet.set_value("start.retry", 4)
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name NOT IN ('a-1-1', 'a-1-2')")
    fleet.deploy(1)
    fleet.fault(Step.BOOT)
    pauses = 0
    while fleet.jobs()[0].status == JobStatus.IN_PROGRESS:
        fleet.run()
        pauses += fleet.jobs()[0].phase == "waiting"
        fleet.zone.change("UPDATE async_jobs SET retry_at = now()")
    (result,) = fleet.results()
    assert (pauses, result["errorcode"]) == (2, 534)
    assert "gave up after 5 tries" in result["errortext"]
    fleet.assert_nothing_held()


def test_a_host_that_rejected_a_vm_is_never_tried_again(fleet: Fleet) -> None:
    """It would take the VM the second time; the VM waits for the host whose failures pass."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name NOT IN ('a-1-1', 'a-1-2')")
    fleet.deploy(1)
    fleet.fault(Step.BOOT, FaultKind.PERMANENT, host="a-1-2", remaining=1)
    fleet.fault(Step.BOOT, host="a-1-1", remaining=3)
    while fleet.jobs()[0].status == JobStatus.IN_PROGRESS:
        fleet.run()
        fleet.zone.change("UPDATE async_jobs SET retry_at = now()")
    assert fleet.jobs()[0].status == JobStatus.SUCCEEDED
    assert _place_of_first(fleet) == "a-1-1"
    fleet.assert_intact()


def test_a_failure_in_a_batch_is_its_own(fleet: Fleet) -> None:
    """Of a batch with one bad host only VMs there move; all run in the end."""
    fleet.deploy(24)
    fleet.fault(Step.BOOT, host=_place_of_first(fleet))
    fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    assert len(fleet.guests()) == 24
    fleet.assert_intact()


@pytest.mark.long
def test_vms_that_move_on_never_wait_for_each_other_crosswise(fleet: Fleet) -> None:
    """Two workers whose starts fail everywhere give back and claim at once, and PostgreSQL breaks no deadlock."""
    fleet.deploy(24)
    fleet.zone.change("UPDATE storage_pools SET scope = 'ZONE', cluster_id = NULL, pod_id = NULL")
    fleet.fault(Step.BOOT, rate=0.7)
    with fleet.runner() as one, fleet.runner() as other:
        for position, job in enumerate(fleet.jobs()):
            (one if position % 2 else other).accept(job.id)
    assert {job.status for job in fleet.jobs()} <= {JobStatus.SUCCEEDED, JobStatus.FAILED}
    assert fleet.zone.scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
    fleet.assert_intact()


def test_a_failure_that_cannot_be_cleaned_up_waits(fleet: Fleet) -> None:
    """While what a try left cannot be removed the job is unfinished and the claims stay; then it goes on."""
    fleet.deploy(1)
    fleet.fault(Step.BOOT, remaining=1)
    fleet.fault(Step.DELETE)
    fleet.run()
    (job,) = fleet.jobs()
    assert (job.status, job.phase) == (JobStatus.IN_PROGRESS, "waiting")
    assert job.progress["failure"]["step"] == "boot"
    assert fleet.zone.scalar("SELECT count(*) FROM host_claims") == 1
    fleet.clear_faults()
    fleet.zone.change("UPDATE async_jobs SET retry_at = now()")
    fleet.run()
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED]
    fleet.assert_intact()


def test_a_job_that_is_overdue_is_cleaned_up_and_failed(fleet: Fleet) -> None:
    """A job marked overdue does not try again: it removes what is there, fails, and gives everything back."""
    fleet.deploy(1)
    fleet.fault(Step.BOOT, remaining=1)
    delete = fleet.fault(Step.DELETE)
    fleet.run()
    fleet.clear_faults()
    assert delete
    fleet.zone.change("UPDATE async_jobs SET retry_at = now(), progress = progress || '{\"overdue\": true}'")
    fleet.run()
    (result,) = fleet.results()
    assert "job.cancel.threshold.minutes" in result["errortext"]
    fleet.assert_nothing_held()


def test_what_cannot_be_removed_in_time_keeps_its_claims(fleet: Fleet) -> None:
    """An overdue job whose leftovers do not go fails for its poller; the VM is Expunging and holds its room."""
    fleet.deploy(1)
    fleet.fault(Step.BOOT, remaining=1)
    fleet.fault(Step.DELETE)
    fleet.run()
    fleet.zone.change("UPDATE async_jobs SET retry_at = now(), progress = progress || '{\"overdue\": true}'")
    fleet.run()
    assert [job.status for job in fleet.jobs()] == [JobStatus.FAILED]
    assert [vm.state for vm in fleet.vms()] == ["Expunging"]
    assert fleet.zone.scalar("SELECT count(*) FROM host_claims") == 1


def test_a_cancelled_deployment_fails_what_has_not_begun(fleet: Fleet) -> None:
    """Jobs of a cancelled deployment fail with that reason without touching a hypervisor."""
    fleet.deploy(3)
    assert fleet.change(request_cancel, JobGroup.DEPLOYMENT, fleet.zone.scalar("SELECT id FROM deployments"))
    fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.FAILED}
    assert all("cancelled" in result["errortext"] for result in fleet.results())
    fleet.assert_nothing_held()


def test_a_cancelled_deployment_lets_go_on_what_has_begun(fleet: Fleet) -> None:
    """A job that had begun before the cancellation is taken over and finished."""
    fleet.deploy(1)
    fleet.zone.change(
        "UPDATE async_jobs SET phase = 'running', attempts = 1, started = now(), lease_fence = 1,"
        " lease_until = now() - interval '1 s'"
    )
    assert fleet.change(request_cancel, JobGroup.DEPLOYMENT, fleet.zone.scalar("SELECT id FROM deployments"))
    fleet.run()
    assert [job.status for job in fleet.jobs()] == [JobStatus.SUCCEEDED]
    fleet.assert_intact()
