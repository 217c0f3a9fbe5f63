"""Jobs under which workers ended abruptly: cleaned up after at last, and given up where even that kills."""

from typing import Any

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import MIGRATE
from bulkdeploy.provisioning.kinds.virtual_machines.scale_virtual_machine import SCALE, SCALE_COMMIT
from tests.support.hypervisors.blocking_drivers import GatedDriver
from tests.support.processes.deaths import dies_at
from tests.support.zones.fleet import Fleet, OneDriver


class Untouchable:
    """Drivers that nobody may ask for anything."""

    def driver_for(self, hypervisor: str) -> Any:
        """Complain."""
        raise AssertionError(f"somebody asked for the driver of {hypervisor}")


def _lost(fleet: Fleet, times: int) -> None:
    fleet.zone.change(
        "UPDATE async_jobs SET phase = 'running', lease_fence = 1, attempts = 1, started = now(), lost_leases = :n,"
        " lease_until = now() - interval '1 s' WHERE status = 0",
        n=times - 1,
    )


def test_after_the_last_worker_it_is_only_cleaned_up_after(fleet: Fleet) -> None:
    """At ``job.lost.worker.max`` the VM is not started again: it is removed, and the job says why."""
    fleet.deploy(1)
    _lost(fleet, 5)
    gated = GatedDriver(fleet.driver)
    fleet.run(drivers=OneDriver(gated))
    assert gated.calls == 0
    assert "its worker ended abruptly 5 times" in fleet.results()[0]["errortext"]
    assert fleet.vms()[0].state == "Error"
    fleet.assert_nothing_held()


def test_where_cleaning_up_kills_as_well_it_is_given_up(fleet: Fleet) -> None:
    """The job fails without a driver; the VM is Expunging with its claims until the sweeper's job removes it."""
    fleet.deploy(1)
    _lost(fleet, 7)
    fleet.run(drivers=Untouchable())
    assert [job.status for job in fleet.jobs()] == [JobStatus.FAILED]
    assert fleet.vms()[0].state == "Expunging"
    assert fleet.zone.scalar("SELECT count(*) FROM host_claims") == 1
    fleet.assert_intact()
    fleet.zone.change("UPDATE virtual_machines SET updated = updated - interval '700 s'")
    fleet.zone.change("UPDATE async_jobs SET completed = completed - interval '700 s'")
    fleet.sweeper().expunge_destroyed()
    fleet.run()
    fleet.assert_nothing_held()


def test_suspects_run_one_at_a_time(fleet: Fleet) -> None:
    """Of three jobs that one more dead worker would end, a process takes one; the others run after it."""
    fleet.deploy(3)
    _lost(fleet, 3)
    fleet.zone.change("UPDATE async_jobs SET lost_leases = 4, phase = 'queued'")
    fleet.run()
    assert sorted(job.phase for job in fleet.jobs()) == ["done", "waiting", "waiting"]
    for _ in range(2):
        fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}
    fleet.assert_intact()


def test_a_series_of_dead_workers_slows_no_other_job(fleet: Fleet) -> None:
    """Jobs that have chances left run side by side, however often their workers ended: most had no part in it."""
    fleet.deploy(3)
    _lost(fleet, 3)
    fleet.zone.change("UPDATE async_jobs SET lost_leases = 3, phase = 'queued'")
    fleet.run()
    assert {job.status for job in fleet.jobs()} == {JobStatus.SUCCEEDED}


def test_a_migration_that_is_given_up_keeps_its_source(fleet: Fleet) -> None:
    """Nobody knows where the guest is: the VM is Unknown on the host it came from, and holds no other."""
    fleet.deploy(1)
    fleet.run()
    fleet.make_job(MIGRATE, fleet.vms()[0].id)
    _lost(fleet, 7)
    fleet.run(drivers=Untouchable())
    vm = fleet.vms()[0]
    assert (fleet.jobs()[-1].status, vm.state, vm.host_id is None) == (JobStatus.FAILED, "Unknown", False)
    assert fleet.zone.scalar("SELECT count(*) FROM host_claims") == 1
    fleet.assert_intact()


def test_an_error_takes_nothing_from_what_a_job_noted(fleet: Fleet) -> None:
    """A worker that meets an error after it wrote down what to undo waits, and whoever goes on undoes it."""
    fleet.deploy(1)
    fleet.run()
    before = fleet.vms()[0]
    fleet.fault(Step.SCALE, remaining=1)
    sizes = {"service_offering_id": fleet.id_of("service_offerings", "Custom"), "cpu_mhz": before.cpu_mhz}
    job = fleet.make_job(SCALE, before.id, **sizes, cpu_number=2, memory_mib=1024, details={"cpuNumber": "2"})
    with dies_at(f"{SCALE_COMMIT}.after", end=ConnectionError):
        fleet.run(job)
    assert (fleet.job(job).phase, fleet.vms()[0].cpu_number) == ("waiting", 2)
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    fleet.run(job)
    assert (fleet.job(job).status, fleet.vms()[0]) == (JobStatus.FAILED, before)
    fleet.assert_intact()


@pytest.mark.parametrize(("times", "drivers"), [(5, None), (7, Untouchable())])
def test_growth_that_is_given_up_is_given_back(fleet: Fleet, times: int, drivers: Any) -> None:
    """A VM that was to grow has its old sizes, claims and counts, with a driver's help or, at last, without."""
    fleet.deploy(1)
    fleet.run()
    before = fleet.vms()[0]
    fleet.fault(Step.SCALE)
    fleet.fault(Step.ANY)
    sizes = {"service_offering_id": fleet.id_of("service_offerings", "Custom"), "cpu_mhz": before.cpu_mhz}
    fleet.make_job(SCALE, before.id, **sizes, cpu_number=2, memory_mib=1024, details={"cpuNumber": "2"})
    fleet.run(fleet.jobs()[-1].id)
    assert (fleet.jobs()[-1].status, fleet.vms()[0].cpu_number) == (JobStatus.IN_PROGRESS, 2)
    fleet.clear_faults()
    fleet.zone.change("UPDATE async_jobs SET progress = progress - 'failure' WHERE status = 0")
    _lost(fleet, times)
    fleet.run(fleet.jobs()[-1].id, drivers=drivers)
    job, vm = fleet.jobs()[-1], fleet.vms()[0]
    assert (job.status, "its worker ended abruptly" in job.result) == (JobStatus.FAILED, True)
    assert vm == before
    assert fleet.zone.scalar("SELECT sum(cpu_mhz_used) FROM host_capacity") == vm.cpu_number * vm.cpu_mhz
    fleet.assert_intact()
