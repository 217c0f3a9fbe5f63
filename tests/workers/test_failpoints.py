"""Failpoints that are not of single kinds of jobs: a real process is killed at each, and started again.

A point that nobody passes fails its test. Those on the way of a kind of job: ``test_every_kind``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis

from bulkdeploy.domain.deployments.replacements import ReplaceMethod
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.restore_virtual_machine import RESTORE_COMMIT, RESTORE_PLAN
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient
from tests.support.processes import restarting
from tests.support.processes.programs import api_process
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import Start, all_done
from tests.workers.walk import VMS, Walk, insist

ROUNDS = 3
ROUND_S = 30
"""A round in which nobody dies is followed by another: what was to lead there may have died elsewhere."""

OF_CALLS = [Failpoint.CALL_COMMIT, Failpoint.CALL_PUBLISH, Failpoint.CALL_CLEAR]
OF_SWEEPERS = [
    Failpoint.SWEEP_OVERDUE,
    Failpoint.SWEEP_NEVER_BEGUN,
    Failpoint.SWEEP_EXPUNGE,
    Failpoint.SWEEP_OWNERLESS,
    Failpoint.SWEEP_EXPIRED,
    Failpoint.SWEEP_SESSIONS,
    Failpoint.SWEEP_REMOVALS,
    Failpoint.SWEEP_DROPPED,
    Failpoint.SWEEP_THROTTLED,
    Failpoint.SWEEP_LOST,
    Failpoint.RELAY_PUBLISH,
    Failpoint.RELAY_COMMIT,
    Failpoint.DRIVER_DELETE_VOLUME,
    Failpoint.SWEEP_VOLUMES,
    Failpoint.SWEEP_UNMANAGED,
]
"""In the order in which a sweeper passes them after its start."""

OF_KINDS = frozenset().union(*(kind.failpoints for kind in job_kinds().values()))
OF_WATCHED_HOSTS = {
    Failpoint.SWEEP_GUESTS,
    Failpoint.SWEEP_EVACUATIONS,
    Failpoint.SWEEP_FILTERS,
    Failpoint.DRIVER_LEFTOVERS,
}
"""Passed when hosts fall silent or return, or guests end: ``tests/provisioning``, ``tests/commands``."""

OF_POLICIES = {Failpoint.SWEEP_POLICIES, Failpoint.SWEEP_POLICY_FAILED, Failpoint.SWEEP_RETENTION}
"""Passed when a snapshot policy is due: ``tests/commands/virtual_machines/test_snapshot_policies.py``."""

OF_SCHEDULES = {Failpoint.SWEEP_SCHEDULES, Failpoint.SWEEP_SCHEDULE_FAILED}
"""Passed when a VM schedule is due: ``tests/commands/virtual_machines/test_vm_schedules.py``."""

OF_LEASES = {Failpoint.SWEEP_LEASES, Failpoint.SWEEP_LEASE_FAILED}
"""Passed when a lease expires: ``tests/commands/virtual_machines/test_leases.py``."""

OF_CLUSTERS = {Failpoint.SWEEP_BALANCE}
"""Passed when a cluster is balanced automatically: ``tests/commands/infrastructure/test_cluster_drs.py``."""

OF_AVAILABILITY = {Failpoint.SWEEP_POWER, Failpoint.SWEEP_HOST_HA}
"""Passed when hosts have management controllers or host HA: ``tests/commands/availability``."""

OF_MANAGED = {Failpoint.SWEEP_MANAGED, Failpoint.SWEEP_MANAGED_FAILED, Failpoint.SWEEP_HEALTH}
"""Passed when a managed deployment changes: ``tests/commands/virtual_machines``, and replacements below."""

OF_PROGRAMS = {Failpoint.ADOPT_COMMIT, Failpoint.REMOVE_UNMANAGED}
"""Passed by what operators run: ``tests/manage``."""

OF_OTHERS = {
    *OF_CALLS,
    *OF_SWEEPERS,
    *OF_KINDS,
    *OF_WATCHED_HOSTS,
    *OF_POLICIES,
    *OF_SCHEDULES,
    *OF_LEASES,
    *OF_CLUSTERS,
    *OF_AVAILABILITY,
    *OF_MANAGED,
    *OF_PROGRAMS,
}
OF_WORKERS = [point for point in Failpoint if point not in OF_OTHERS]


def places(points: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each point before and after, with the name of the place."""
    for point in points:
        yield point, f"{point}.before"
        yield point, f"{point}.after"


@pytest.fixture
def walk(fleet: Fleet, quick: Settings, cipher: FernetCipher, tmp_path: Path) -> Iterator[Walk]:
    """An API process on the fleet; workers and sweepers are the test's to start."""
    with fleet.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    settings = quick.model_copy(update={"api_processes": 1})
    with api_process(settings, tmp_path / "api.log") as url:
        client = ApiClient(url, admin.api_key, cipher.decrypt(admin.secret_key_encrypted))
        assert quick.failpoints_dir is not None
        yield Walk(fleet, quick.failpoints_dir, client)
    sys.stderr.write((tmp_path / "api.log").read_text())


@pytest.fixture
def quick(quick: Settings, tmp_path: Path) -> Settings:
    """Settings of programs that can be killed by name."""
    directory = tmp_path / "crash-points"
    directory.mkdir()
    return quick.model_copy(update={"failpoints_dir": directory})


def start_reborn(start: Start, *programs: str) -> None:
    """Start programs that live again when killed."""
    for program in programs:
        start(restarting.__file__, program)


@pytest.mark.long
def test_api_processes_die_at_every_point(walk: Walk, start: Start) -> None:
    """A call whose process died did everything or nothing, and made again with its token it gives the same jobs."""
    for _, place in places(OF_CALLS):
        walk.arm(place)
        walk.bulk(str(uuid4()))
        assert walk.is_over(place), f"no process reached {place}"
    start_reborn(start, "worker", "sweeper")
    walk.assert_once_and_for_all()


@pytest.mark.long
def test_api_processes_die_at_the_commit_of_every_sort_of_call(walk: Walk, start: Start) -> None:
    """A call that makes a job, one that cancels many, and one that changes a row: before its commit and after."""
    for _, place in places([Failpoint.CALL_COMMIT]):
        for call in (destroy_one, cancel, change_a_setting, create_unlike):
            token = str(uuid4())
            jobs = walk.bulk(token)
            walk.arm(place)
            call(walk, token, jobs)
            assert walk.is_over(place), f"no process reached {place}"
    start_reborn(start, "worker", "sweeper")
    walk.assert_once_and_for_all()


def destroy_one(walk: Walk, _: str, jobs: Sequence[str]) -> None:
    """Destroy one of the VMs that these jobs deploy."""
    vm = walk.vm_ids(jobs)[0]
    insist(lambda: walk.client.call("destroyVirtualMachine", id=vm, expunge=True))


def change_a_setting(walk: Walk, _: str, __: Sequence[str]) -> None:
    """Set a value."""
    insist(lambda: walk.client.call("updateConfiguration", name="start.retry", value=5))


def create_unlike(walk: Walk, token: str, _: Sequence[str]) -> None:
    """Deploy a list of unlike VMs: all of them or none, and made again with its token none more."""
    usual = walk.fleet.zone.bulk_parameters(1)
    shared = {name: usual.pop(name) for name in ("zoneid", "account", "domainid")}
    del usual["virtualmachinecount"]
    entries = [{**usual, "name": f"vm-{token[:8]}-{size}", "rootdisksize": size} for size in range(2, 2 + VMS)]
    call = {**shared, "virtualmachines": json.dumps(entries), "requesttoken": f"unlike-{token}"}
    jobs = insist(lambda: walk.client.call("bulkCreateVirtualMachines", **call))["asyncjobs"]
    again = insist(lambda: walk.client.call("bulkCreateVirtualMachines", **call))["asyncjobs"]
    made = "SELECT count(*) FROM virtual_machines WHERE name LIKE :prefix"
    vms = walk.fleet.zone.scalar(made, prefix=f"vm-{token[:8]}-%")
    assert ([job["jobid"] for job in again], vms) == ([job["jobid"] for job in jobs], VMS)


def cancel(walk: Walk, token: str, _: Sequence[str]) -> None:
    """Cancel a deployment; made again after it was done, the call is refused."""
    deployment = walk.fleet.zone.scalar("SELECT uuid FROM deployments WHERE request_token = :token", token=token)
    answer = insist(lambda: walk.client.post("cancelBulkDeployment", id=deployment))
    assert answer.status == 200 or "cancelled before" in answer.body["errortext"]


@pytest.mark.long
def test_workers_die_at_every_point(walk: Walk, start: Start) -> None:
    """A worker that dies with jobs of all kinds in hand loses nothing."""
    # So many die here that one job may see five of them, and would be ended as one that kills its workers.
    walk.fleet.set_value("job.lost.worker.max", 1000)
    start_reborn(start, "worker", "sweeper")
    previous = walk.bulk(str(uuid4()))
    wait_for(lambda: all_done(walk.fleet))
    hosts = [str(row.uuid) for row in walk.fleet.zone.rows("SELECT uuid FROM hosts ORDER BY id")]
    turns = cycle(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    for point, place in places(OF_WORKERS):
        walk.arm(place)
        for _ in range(ROUNDS):
            make_faults(walk, point)
            jobs = walk.bulk(str(uuid4()))
            request_every_kind(walk, previous)
            empty_another_host(walk, *next(turns))
            give_a_volume(walk, previous)
            previous = jobs
            if walk.worker_died(place, ROUND_S):
                break
        assert walk.is_over(place), f"no process reached {place}"
    walk.assert_once_and_for_all()


OF_PACE = [Failpoint.LEASE_COMMIT, Failpoint.COMPLETION_COMMIT, Failpoint.WAKE_PUBLISH, Failpoint.WAKE_CLEAR]
"""Where the end of a job of an operation releases the next one, and before."""

JOBS_OF_OPERATION = (
    "SELECT j.uuid, j.instance_uuid, j.status, (SELECT count(*) FROM events e WHERE e.parent_uuid = j.uuid"
    "   AND e.state = 'Completed') AS ends FROM async_jobs j JOIN bulk_operations o ON o.id = j.operation_id"
    " WHERE o.request_token = :token ORDER BY j.instance_uuid"
)


@pytest.mark.long
def test_held_jobs_of_operations_are_released_whoever_dies(walk: Walk, start: Start) -> None:
    """API processes, workers and sweepers die around an operation with a pace: each VM has one job with one end."""
    walk.fleet.set_value("job.lost.worker.max", 1000)
    start_reborn(start, "worker", "sweeper")
    vms = walk.vm_ids(walk.bulk(str(uuid4())))
    wait_for(lambda: all_done(walk.fleet))
    for point, place in places([*OF_CALLS, *OF_PACE, Failpoint.SWEEP_THROTTLED, Failpoint.RELEASE_COMMIT]):
        is_release = point is Failpoint.RELEASE_COMMIT
        if is_release and place.endswith("after"):
            walk.client.call("bulkStartVirtualMachine", ids=",".join(vms))
            wait_for(lambda: all_done(walk.fleet))
        walk.arm(place)
        token = str(uuid4())
        call = {"ids": ",".join(vms), "maxparallel": 2, "maxfailures": "0", "requesttoken": token}
        command = "bulkStopVirtualMachine" if is_release else "bulkRebootVirtualMachine"
        make = partial(walk.client.call, command, **call)
        made, again = insist(make), insist(make)
        assert {job["jobid"] for job in again["asyncjobs"]} == {job["jobid"] for job in made["asyncjobs"]}
        wait_for(lambda: all_done(walk.fleet))
        jobs = walk.fleet.zone.rows(JOBS_OF_OPERATION, token=token)
        assert [str(job.instance_uuid) for job in jobs] == sorted(vms), f"after {place}"
        assert {(job.status, job.ends) for job in jobs} == {(1, 1)}, f"after {place}"
        assert walk.worker_died(place, ROUND_S), f"no process reached {point}"
    walk.assert_once_and_for_all()


REPLACING = [
    Failpoint.SWEEP_MANAGED,
    Failpoint.SWEEP_HEALTH,
    Failpoint.CALL_PUBLISH,
    Failpoint.CALL_CLEAR,
    Failpoint.LEASE_COMMIT,
]
OF_METHODS: dict[ReplaceMethod, list[str]] = {
    ReplaceMethod.RECREATE: [Failpoint.DRIVER_BOOT, Failpoint.COMPLETION_COMMIT, Failpoint.DRIVER_DELETE],
    ReplaceMethod.RESTORE: [RESTORE_PLAN, Failpoint.DRIVER_DELETE, RESTORE_COMMIT, Failpoint.DRIVER_BOOT],
}
"""What a replacement passes: every one, and those of its method."""


@pytest.mark.long
@pytest.mark.parametrize("method", OF_METHODS)
def test_a_replacement_replaces_each_vm_once_whoever_dies(walk: Walk, start: Start, method: ReplaceMethod) -> None:
    """API process, sweeper and worker die at each step of a replacement, one VM at a time."""
    fleet, zone = walk.fleet, walk.fleet.zone
    fleet.set_value("job.lost.worker.max", 1000)
    zone.change(
        "UPDATE templates t SET hypervisor = d.hypervisor FROM templates d"
        " WHERE d.name = 'Debian 12' AND t.name = 'Any hypervisor'"
    )
    # A template that wants another host tag is placed anew.
    zone.change("UPDATE hosts SET tags = tags || '{fresh}'")
    zone.change("UPDATE templates SET template_tag = 'fresh' WHERE name = 'Any hypervisor'")
    start_reborn(start, "worker", "sweeper")
    call = zone.bulk_parameters(VMS, nameprefix="web", managed=True, healthcheck="agent")
    jobs = walk.client.call("bulkDeployVirtualMachine", **call)["asyncjobs"]
    wait_for(lambda: all_done(fleet))
    armed = [place for _, place in places([Failpoint.CALL_COMMIT, *REPLACING, *OF_METHODS[method]])]
    for place in armed:
        walk.arm(place)
    template = zone.id_of("templates", "Any hypervisor")
    replacement = {"templateid": template, "method": method.value, "expunge": True}
    make = partial(walk.client.post, "replaceBulkDeployment", id=jobs[0]["deploymentid"], **replacement)
    # The API process may die after the commit, and the repeated call is then rejected: the VMs are being replaced.
    assert insist(make).status in (200, 431)
    wait_for(lambda: zone.scalar("SELECT state FROM replacements") == "Completed")
    assert [place for place in armed if not walk.is_over(place)] == []
    wait_for(lambda: all_done(fleet))
    made = {"deploy_virtual_machine": VMS, "restore_virtual_machine": VMS}
    if method is ReplaceMethod.RECREATE:
        made = {"deploy_virtual_machine": 2 * VMS, "destroy_virtual_machine": VMS}
    counts = zone.rows("SELECT kind, count(*) AS jobs FROM async_jobs WHERE status = 1 GROUP BY kind")
    assert {row.kind: row.jobs for row in counts} == made
    running = "SELECT count(*) FROM virtual_machines v JOIN templates t ON t.id = v.template_id"
    assert zone.scalar(f"{running} WHERE v.state = 'Running' AND t.uuid = :template", template=template) == VMS
    walk.assert_once_and_for_all()


def make_faults(walk: Walk, point: str) -> None:
    """Let a few of the next starts fail, and one hang where leases are renewed.

    Made anew each round: those of the last one may have struck a process that was about to die.
    """
    walk.fleet.clear_faults()
    walk.fleet.fault(Step.BOOT, remaining=3)
    if point is Failpoint.RENEW_COMMIT:
        walk.fleet.fault(Step.BOOT, FaultKind.HANG, remaining=1, hang_ms=2500)


def request_every_kind(walk: Walk, jobs: Sequence[str]) -> None:
    """One job of each kind, or a few of them, for the VMs that these jobs deployed."""
    first, second, third, fourth, fifth, last = walk.vm_ids(jobs)
    custom = walk.fleet.zone.id_of("service_offerings", "Custom")
    walk.fleet.set_value("enable.dynamic.scale.vm", "true")
    larger = {"details[0].cpuNumber": 2, "details[0].memory": 1024, "serviceofferingid": custom}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("stopVirtualMachine", first, {}),
        ("startVirtualMachine", first, {}),
        ("rebootVirtualMachine", first, {}),
        ("stopVirtualMachine", second, {}),
        ("destroyVirtualMachine", second, {}),
        ("scaleVirtualMachine", fourth, larger),
        ("destroyVirtualMachine", last, {"expunge": True}),
    ]
    for command, vm, parameters in calls:
        walk.client.call(command, id=vm, **parameters)
    walk.client.call("migrateVirtualMachine", virtualmachineid=third, autoselect=True)
    walk.client.call("restoreVirtualMachine", virtualmachineid=fifth, rootdisksize=30)


def give_a_volume(walk: Walk, jobs: Sequence[str]) -> None:
    """Attach a new volume to one of the VMs that these jobs deployed; the hypervisor refuses once."""
    walk.fleet.fault(Step.DEVICES, remaining=1)
    zone, vm = walk.fleet.zone, walk.vm_ids(jobs)[3]
    made = walk.client.call(
        "createVolume",
        name=f"for {vm}",
        zoneid=zone.id_of("zones", "small"),
        diskofferingid=zone.id_of("disk_offerings", "20 GiB"),
        account="acme",
        domainid=zone.id_of("domains", "acme"),
    )
    walk.client.call("attachVolume", id=made["id"], virtualmachineid=vm)


def empty_another_host(walk: Walk, last: str, host: str) -> None:
    """Prepare a host for maintenance; the one before it takes VMs again."""
    if walk.client.call("listHosts", id=last)["host"][0]["resourcestate"] != "Enabled":
        walk.client.call("cancelHostMaintenance", id=last)
    walk.client.call("prepareHostForMaintenance", id=host)


@pytest.mark.long
def test_sweepers_die_at_every_point(walk: Walk, redis_database_url: str, start: Start) -> None:
    """A sweeper that dies in any pass, each with something to do, does it after its next start, and once."""
    fleet = walk.fleet
    prepare_destroyed_volume(walk)
    old = prepare_old_vms(fleet)
    prepare_unfinished_jobs(walk)
    Redis.from_url(redis_database_url).flushdb()
    for _, place in places(OF_SWEEPERS):
        walk.arm(place)
    start_reborn(start, "sweeper")
    for _, place in places(OF_SWEEPERS):
        assert walk.worker_died(place), f"no process reached {place}"
    start_reborn(start, "worker")
    walk.assert_once_and_for_all()
    assert all(vm.removed for vm in fleet.vms() if vm.id in old)
    assert sum("never began" in job.result for job in fleet.jobs()) == VMS


def prepare_destroyed_volume(walk: Walk) -> None:
    """A volume that has a place in a pool, and was deleted."""
    walk.fleet.deploy(1)
    walk.fleet.run()
    zone, call = walk.fleet.zone, walk.client.call
    where = {"zoneid": zone.id_of("zones", "small"), "diskofferingid": zone.id_of("disk_offerings", "20 GiB")}
    call("createVolume", name="destroyed", **where)
    volume = zone.id_of("volumes", "destroyed")
    call("attachVolume", id=volume, virtualmachineid=walk.fleet.vms()[0].uuid)
    walk.fleet.run()
    call("detachVolume", id=volume)
    walk.fleet.run()
    call("deleteVolume", id=volume)


def prepare_old_vms(fleet: Fleet) -> set[int]:
    """VMs destroyed long ago, their jobs finished as long ago."""
    fleet.deploy(VMS)
    fleet.run()
    vms = {vm.id for vm in fleet.vms()}
    fleet.run(*[fleet.make_job(DESTROY, vm) for vm in vms])
    fleet.zone.change("UPDATE virtual_machines SET updated = now() - interval '3 days'")
    fleet.zone.change("UPDATE async_jobs SET completed = now() - interval '3 days'")
    fleet.zone.change("DELETE FROM outbox")
    return vms


def prepare_unfinished_jobs(walk: Walk) -> None:
    """Jobs that began long ago, were dropped by a dead worker, never began, were lost, or not sent at all."""
    fleet = walk.fleet
    late, dropped, never_begun, lost = (walk.bulk(str(uuid4())) for _ in range(4))
    these = " WHERE uuid = ANY(CAST(:jobs AS uuid[]))"
    began = (
        "UPDATE async_jobs SET phase = 'running', lease_fence = 1, attempts = 1,"
        " lease_until = now() - interval '1 s', started = now() - CAST(:age AS interval)"
    )
    fleet.zone.change(began + these, jobs=late, age="2 hours")
    fleet.zone.change(began + these, jobs=dropped, age="10 s")
    queued = "UPDATE async_jobs SET created = now() - CAST(:age AS interval)"
    fleet.zone.change(queued + these, jobs=never_begun, age="2 hours")
    fleet.zone.change(queued + these, jobs=lost, age="10 s")
    fleet.system = replace(fleet.system, job_queue=CeleryJobQueue("redis://127.0.0.1:1/0"))
    fleet.deploy(VMS)
