"""Start, stop, destroy and expunge jobs, and what they leave when hypervisors fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bulkdeploy.domain.deployments.deployment import NamedVm
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.drivers.simulator.control import FaultKind, HangEffect, Step
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.virtual_machines.start_virtual_machine import START
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from tests.support.zones.fleet import OPTIONS, Fleet


@pytest.fixture
def running(fleet: Fleet) -> Fleet:
    """A fleet with two running VMs."""
    fleet.deploy(2)
    fleet.run()
    assert len(fleet.guests()) == 2
    return fleet


@pytest.fixture
def do(running: Fleet) -> Callable[..., JobStatus]:
    """Runs one job of a kind on the first VM; answers its status."""

    def run(kind: JobKind, **params: object) -> JobStatus:
        job_id = running.make_job(kind, running.vms()[0].id, **params)
        running.run(job_id)
        return JobStatus(running.job(job_id).status)

    return run


def _count(fleet: Fleet, kind: ResourceType) -> int:
    sql = "SELECT amount FROM resource_counts WHERE owner_kind = 'account' AND resource_type = :kind"
    return int(fleet.zone.scalar(sql, kind=kind.value))


def test_a_stopped_vm_holds_no_host(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """Stopping gives back the host, remembers it as the last one, and keeps volumes and addresses."""
    before = running.vms()[0]
    assert do(STOP) is JobStatus.SUCCEEDED
    vm = running.vms()[0]
    assert (vm.state, vm.host_id, vm.last_host_id) == ("Stopped", None, before.host_id)
    assert set(running.guests()) == {running.vms()[1].uuid}
    assert len(running.volumes()) == 2
    assert running.results()[-1]["virtualmachine"]["state"] == "Stopped"
    running.assert_intact()


def test_a_stopped_vm_starts_again(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """Starting claims a host in the job and runs the VM with the volumes it had."""
    volumes = running.volumes()
    do(STOP)
    assert do(START) is JobStatus.SUCCEEDED
    vm = running.vms()[0]
    assert (vm.state, vm.host_id is None) == ("Running", False)
    assert running.volumes() == volumes
    running.assert_intact()


def test_a_vm_that_was_never_started_starts(fleet: Fleet) -> None:
    """A VM deployed with startvm=false gets host and pools when it is started."""
    fleet.deploy(1, start_vm=False)
    fleet.run()
    fleet.run(fleet.make_job(START, fleet.vms()[0].id))
    assert fleet.vms()[0].state == "Running"
    assert {row.state for row in fleet.zone.rows("SELECT state FROM volumes")} == {"Ready"}
    fleet.assert_intact()


def test_a_start_moves_on_from_a_bad_host(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """A host that fails is given back and another one claimed; the volumes stay."""
    volumes = running.volumes()
    do(STOP)
    running.fault(Step.BOOT, remaining=1)
    assert do(START) is JobStatus.SUCCEEDED
    assert running.volumes() == volumes
    running.assert_intact()


def test_a_failed_start_leaves_the_vm_stopped(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """A start that finds no host that works leaves the VM Stopped, its volumes there, and no host claimed."""
    volumes = running.volumes()
    do(STOP)
    running.fault(Step.BOOT, FaultKind.PERMANENT)
    assert do(START) is JobStatus.FAILED
    vm = running.vms()[0]
    assert (vm.state, vm.host_id) == ("Stopped", None)
    assert running.volumes() == volumes
    running.assert_intact()


def test_a_pinned_start_goes_there_or_nowhere(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """With a host given the VM starts on it; when it fails there no other one is tried."""
    host = running.id_of("hosts", "a-2-1")
    running.zone.change("UPDATE storage_pools SET scope = 'ZONE', cluster_id = NULL, pod_id = NULL")
    do(STOP)
    assert do(START, host_id=host) is JobStatus.SUCCEEDED
    assert running.vms()[0].host_id == host
    do(STOP)
    running.fault(Step.BOOT, host="a-2-1")
    assert do(START, host_id=host) is JobStatus.FAILED
    assert "bound to its place" in running.results()[-1]["errortext"]
    assert running.vms()[0].state == "Stopped"
    running.assert_intact()


def test_a_start_without_room_fails(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """Where no host can take the VM the job fails with 533 and the VM stays Stopped."""
    do(STOP)
    running.zone.change("UPDATE hosts SET resource_state = 'Disabled'")
    assert do(START) is JobStatus.FAILED
    assert running.results()[-1]["errorcode"] == 533
    assert running.vms()[0].state == "Stopped"
    running.assert_intact()


def test_asking_twice_succeeds_twice(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """A job that finds its aim reached succeeds and changes nothing."""
    assert do(START) is JobStatus.SUCCEEDED
    assert do(STOP) is JobStatus.SUCCEEDED
    assert do(STOP) is JobStatus.SUCCEEDED
    assert do(DESTROY) is JobStatus.SUCCEEDED
    assert do(DESTROY) is JobStatus.SUCCEEDED
    running.assert_intact()


def test_a_failed_stop_leaves_the_vm_running(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """A guest that may still run keeps its host: nothing is given back, forced or not."""
    running.fault(Step.STOP, FaultKind.PERMANENT)
    for forced in (False, True):
        assert do(STOP, forced=forced) is JobStatus.FAILED
        assert running.vms()[0].state == "Running"
    running.assert_intact()


@pytest.mark.parametrize("kind", [STOP, DESTROY, REBOOT], ids=str)
@pytest.mark.parametrize("effect", HangEffect)
def test_a_stop_without_an_answer_is_repeated(running: Fleet, kind: JobKind, effect: HangEffect) -> None:
    """Whether the hypervisor did it or not: the job ends when that is known, and the row says what is so."""
    running.fault(Step.ANY, FaultKind.HANG, effect=effect, remaining=1)
    job = running.make_job(kind, running.vms()[0].id, forced=True)
    impatient = replace(OPTIONS, driver_timeout_s=1)
    for _ in range(2):
        running.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        with running.runner(options=impatient) as runner:
            runner.accept(job)
    assert (running.job(job).status, running.job(job).attempts) == (JobStatus.SUCCEEDED, 2)
    running.assert_intact()


@pytest.mark.parametrize("kind", [STOP, DESTROY, REBOOT], ids=str)
def test_a_refused_stop_after_one_without_an_answer(running: Fleet, kind: JobKind) -> None:
    """The first was done: that the second is refused does not make the guest run."""
    running.fault(Step.ANY, FaultKind.HANG, effect=HangEffect.DONE, remaining=1)
    job = running.make_job(kind, running.vms()[0].id, forced=True)
    with running.runner(options=replace(OPTIONS, driver_timeout_s=1)) as runner:
        runner.accept(job)
    running.fault(Step.ANY, FaultKind.PERMANENT, remaining=1)
    running.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    running.run(job)
    assert (running.job(job).status, running.job(job).attempts) == (JobStatus.SUCCEEDED, 2)
    running.assert_intact()


@pytest.mark.parametrize("kind", [STOP, DESTROY], ids=str)
def test_a_guest_that_can_not_be_seen_may_run(running: Fleet, kind: JobKind) -> None:
    """A hypervisor that refuses a stop and a look is asked again; when time is up the VM is Unknown and held."""
    running.fault(Step.ANY, FaultKind.PERMANENT)
    job = running.make_job(kind, running.vms()[0].id, forced=True)
    running.run(job)
    assert running.job(job).status == JobStatus.IN_PROGRESS
    running.zone.change(
        "UPDATE async_jobs SET retry_at = now(), created = created - interval '3 h',"
        " started = started - interval '3 h' WHERE phase = 'waiting'"
    )
    running.sweeper().end_late()
    running.run(job)
    assert running.job(job).status == JobStatus.FAILED
    assert "could not be seen" in running.results()[-1]["errortext"]
    assert running.vms()[0].state == "Unknown"
    running.assert_intact()


def test_a_stop_that_is_given_up_on_leaves_what_is_seen(running: Fleet) -> None:
    """A hypervisor that answers no stop is asked a last time what the guest does, and the row says that."""
    running.fault(Step.STOP, FaultKind.HANG, effect=HangEffect.UNDONE, remaining=None)
    job = running.make_job(STOP, running.vms()[0].id, forced=False)
    impatient = replace(OPTIONS, driver_timeout_s=1)
    for _ in range(2):
        with running.runner(options=impatient) as runner:
            runner.accept(job)
        running.zone.change(
            "UPDATE async_jobs SET retry_at = now(), created = created - interval '3 h',"
            " started = started - interval '3 h' WHERE phase = 'waiting'"
        )
        running.sweeper().end_late()
    assert running.job(job).status == JobStatus.FAILED
    assert "Its guest runs on host" in running.results()[-1]["errortext"]
    assert running.vms()[0].state == "Running"
    running.assert_intact()


def test_destroying_gives_back_compute_and_keeps_the_rest(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """A destroyed VM counts as no VM, cpu or memory; its volumes and addresses stay until it is expunged."""
    assert do(DESTROY) is JobStatus.SUCCEEDED
    vm = running.vms()[0]
    assert (vm.state, vm.host_id, vm.removed) == ("Destroyed", None, None)
    assert (_count(running, ResourceType.USER_VM), _count(running, ResourceType.VOLUME)) == (1, 2)
    assert len(running.volumes()) == 2
    assert running.zone.scalar("SELECT count(*) FROM nics WHERE removed IS NULL") == 2
    running.assert_intact()


def test_a_destroyed_vm_leaves_its_name(fleet: Fleet) -> None:
    """From its end on another VM may have the name in the network; before, none."""
    network = fleet.id_of("networks", "guests")
    named: dict[str, Any] = {"bulk": False, "vms": (NamedVm("web"),), "network_ids": (network,)}
    fleet.deploy(1, **named)
    fleet.run()
    with pytest.raises(InvalidParameter, match="already exists in the network domain"):
        fleet.deploy(1, **named)
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id))
    fleet.deploy(1, **named)
    fleet.run()
    assert [(vm.name, vm.state) for vm in fleet.vms()] == [("web", "Destroyed"), ("web", "Running")]
    fleet.assert_intact()


def test_expunging_leaves_nothing(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """With expunge=true VM, volumes, address and all counts go at once; the row still resolves."""
    assert do(DESTROY, expunge=True) is JobStatus.SUCCEEDED
    vm = running.vms()[0]
    assert (vm.state, vm.removed is None) == ("Expunging", False)
    assert (_count(running, ResourceType.USER_VM), _count(running, ResourceType.VOLUME)) == (1, 1)
    assert len(running.volumes()) == 1
    running.run(running.make_job(DESTROY, running.vms()[1].id, expunge=True))
    running.assert_nothing_held()


def test_expunging_a_destroyed_vm_gives_back_the_rest_once(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """What destroying gave back is not given back again."""
    do(DESTROY)
    assert do(DESTROY, expunge=True) is JobStatus.SUCCEEDED
    assert (_count(running, ResourceType.USER_VM), _count(running, ResourceType.VOLUME)) == (1, 1)
    running.assert_intact()


def test_a_failed_destroy_leaves_the_vm_running(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """A guest that cannot be stopped is not called destroyed."""
    running.fault(Step.STOP)
    assert do(DESTROY) is JobStatus.FAILED
    assert running.vms()[0].state == "Running"
    running.assert_intact()


def test_expunging_insists(running: Fleet, do: Callable[..., JobStatus]) -> None:
    """While the hypervisor does not answer the job waits and everything stays claimed; then it goes."""
    running.fault(Step.DELETE)
    assert do(DESTROY, expunge=True) is JobStatus.IN_PROGRESS
    assert running.zone.scalar("SELECT count(*) FROM host_claims") == 2
    running.clear_faults()
    running.zone.change("UPDATE async_jobs SET retry_at = now()")
    running.run()
    assert running.jobs()[-1].status == JobStatus.SUCCEEDED
    assert len(running.volumes()) == 1
    running.assert_intact()


def test_expunging_what_never_ran(fleet: Fleet) -> None:
    """A VM in Error, which holds nothing, is expunged like any other."""
    fleet.deploy(1)
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    fleet.run()
    fleet.clear_faults()
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id, expunge=True))
    assert fleet.vms()[0].removed is not None
    fleet.assert_nothing_held()


def test_many_are_expunged_at_once(fleet: Fleet) -> None:
    """A batch of expunges gives back everything of every VM, whatever batches the writer makes of it."""
    fleet.deploy(30)
    fleet.run()
    fleet.run(*[fleet.make_job(DESTROY, vm.id, expunge=True) for vm in fleet.vms()])
    fleet.assert_nothing_held()
