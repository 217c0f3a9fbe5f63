"""Migration jobs: both hosts are claimed while a VM moves, one afterwards, whatever fails or dies."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.simulator.control import FaultKind, HangEffect, Step
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import MIGRATE
from bulkdeploy.provisioning.kinds.virtual_machines.start_virtual_machine import START
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from tests.support.hypervisors.blocking_drivers import GatedMigration
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver

CLUSTER = 3
"""Hosts of each cluster; the pools of the small zone bind VMs to their cluster."""


@pytest.fixture
def running(fleet: Fleet) -> Fleet:
    """A fleet with one running VM."""
    fleet.deploy(1)
    fleet.run()
    assert len(fleet.guests()) == 1
    return fleet


@pytest.fixture
def migrate(running: Fleet) -> Callable[..., JobStatus]:
    """Runs one migration of the first VM; answers the job's status."""

    def run(**params: object) -> JobStatus:
        job_id = running.make_job(MIGRATE, running.vms()[0].id, **params)
        running.run(job_id)
        return JobStatus(running.job(job_id).status)

    return run


def _other_host(fleet: Fleet) -> int:
    """A host of the VM's cluster that it is not on."""
    sql = "SELECT min(id) FROM hosts WHERE cluster_id = :cluster AND id <> :host"
    vm = fleet.vms()[0]
    return int(fleet.zone.scalar(sql, cluster=vm.cluster_id, host=vm.host_id))


def _guest_is_where_its_row_says(fleet: Fleet) -> None:
    vm = fleet.vms()[0]
    (guest,) = fleet.guests().values()
    assert guest.host_uuid == fleet.zone.scalar("SELECT uuid FROM hosts WHERE id = :id", id=vm.host_id)
    assert (vm.state, fleet.zone.scalar("SELECT count(*) FROM host_claims")) == ("Running", 1)
    fleet.assert_intact()


def _wake(fleet: Fleet) -> None:
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    fleet.run()


@pytest.mark.parametrize("by", ["hostid", "placement"])
def test_a_migrated_vm_runs_elsewhere(running: Fleet, migrate: Callable[..., JobStatus], by: str) -> None:
    """It runs on the host asked for or chosen, in its cluster, with its volumes; the old host is the last one."""
    before, wanted, volumes = running.vms()[0], _other_host(running), running.volumes()
    assert migrate(**({"host_id": wanted} if by == "hostid" else {})) is JobStatus.SUCCEEDED
    vm = running.vms()[0]
    assert (vm.last_host_id, vm.cluster_id) == (before.host_id, before.cluster_id)
    assert vm.host_id != before.host_id
    assert by == "placement" or vm.host_id == wanted
    assert running.volumes() == volumes
    assert running.results()[-1]["virtualmachine"]["state"] == "Running"
    _guest_is_where_its_row_says(running)


def test_a_vm_that_loses_its_host_before_its_move_begins_is_read_again(
    running: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """The try is repeated later and changes nothing. It is no defect, so nothing is logged as one."""
    claims = "CREATE TABLE kept_claims AS SELECT * FROM host_claims"
    running.zone.change(claims)
    running.zone.change("DELETE FROM host_claims")
    job_id = running.make_job(MIGRATE, running.vms()[0].id)
    running.run(job_id)
    assert (running.job(job_id).status, running.job(job_id).phase) == (JobStatus.IN_PROGRESS, "waiting")
    assert running.zone.scalar("SELECT count(*) FROM host_claims") == 0
    assert "job_interrupted" not in capsys.readouterr().out
    running.zone.change("INSERT INTO host_claims SELECT * FROM kept_claims")
    running.zone.change("DROP TABLE kept_claims")
    _wake(running)
    assert running.job(job_id).status == JobStatus.SUCCEEDED
    _guest_is_where_its_row_says(running)


def test_asking_twice_moves_once(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """A VM that is on the host already stays, and the job succeeds."""
    wanted = _other_host(running)
    for _ in range(2):
        assert migrate(host_id=wanted) is JobStatus.SUCCEEDED
    assert running.vms()[0].host_id == wanted
    _guest_is_where_its_row_says(running)


def test_both_hosts_are_held_while_it_moves(running: Fleet) -> None:
    """While the driver works, the VM holds its destination and the migration its source; the audit knows."""
    before = running.vms()[0]
    gated = GatedMigration(running.driver)
    job_id = running.make_job(MIGRATE, before.id)
    with running.runner(drivers=OneDriver(gated)) as runner:
        runner.accept(job_id)
        assert gated.entered.wait(PATIENCE_S)
        claims = running.zone.rows("SELECT * FROM host_claims ORDER BY consumer_kind")
        assert [claim.consumer for claim in claims] == [before.uuid, running.job(job_id).uuid]
        assert [claim.host_id for claim in claims] == [running.vms()[0].host_id, before.host_id]
        assert running.vms()[0].state == "Migrating"
        running.assert_intact()
        gated.gate.set()
    _guest_is_where_its_row_says(running)


def test_a_failed_move_leaves_it_where_it_was(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """A move to a named host that fails gives the destination back; the job says why."""
    before = running.vms()[0]
    running.fault(Step.MIGRATE, FaultKind.PERMANENT, remaining=1)
    assert migrate(host_id=_other_host(running)) is JobStatus.FAILED
    assert "simulated failure" in running.results()[-1]["errortext"]
    assert running.vms()[0].host_id == before.host_id
    _guest_is_where_its_row_says(running)


def test_placement_moves_on_from_a_bad_host(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """Where no host was named the next one is tried; when none is left the VM stays."""
    before = running.vms()[0]
    running.fault(Step.MIGRATE, remaining=1)
    assert migrate() is JobStatus.SUCCEEDED
    assert running.vms()[0].host_id != before.host_id
    _guest_is_where_its_row_says(running)
    before = running.vms()[0]
    running.fault(Step.MIGRATE, FaultKind.PERMANENT, remaining=CLUSTER)
    assert migrate() is JobStatus.FAILED
    assert running.vms()[0].host_id == before.host_id
    _guest_is_where_its_row_says(running)


def test_a_migration_without_another_host_tries_the_same_again(
    running: Fleet, migrate: Callable[..., JobStatus]
) -> None:
    """If no other host remains, a host with a passing failure is tried again; a host that rejects the VM is not."""
    source = running.vms()[0].host_id
    others = running.zone.rows(
        "SELECT name FROM hosts WHERE cluster_id = :cluster AND id <> :source ORDER BY id",
        cluster=running.vms()[0].cluster_id,
        source=source,
    )
    rejecting, passing = (row.name for row in others)
    running.fault(Step.MIGRATE, FaultKind.PERMANENT, host=rejecting, remaining=1)
    running.fault(Step.MIGRATE, host=passing, remaining=2)
    assert migrate() is JobStatus.IN_PROGRESS
    while running.jobs()[-1].status == JobStatus.IN_PROGRESS:
        _wake(running)
    assert running.jobs()[-1].status == JobStatus.SUCCEEDED
    assert running.vms()[0].host_id == running.id_of("hosts", passing)
    _guest_is_where_its_row_says(running)


@pytest.mark.parametrize("effect", list(HangEffect))
def test_a_move_of_unknown_end_is_undone(running: Fleet, effect: HangEffect) -> None:
    """A hypervisor that does not answer, whether it moved the guest or not: it ends where its row says."""
    before = running.vms()[0]
    running.fault(Step.MIGRATE, FaultKind.HANG, hang_ms=None, effect=effect, remaining=1)
    with_little_patience = replace(OPTIONS, driver_timeout_s=1)  # the undo is answered, also by a busy machine
    job_id = running.make_job(MIGRATE, before.id, host_id=_other_host(running))
    with running.runner(options=with_little_patience) as runner:
        runner.accept(job_id)
    assert running.job(job_id).status == JobStatus.FAILED
    assert running.vms()[0].host_id == before.host_id
    _guest_is_where_its_row_says(running)


def test_while_an_undo_fails_both_hosts_stay_held(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """Neither is given back before it is known where the guest runs, late or not; then one is."""
    running.fault(Step.ANY)
    assert migrate(host_id=_other_host(running)) is JobStatus.IN_PROGRESS
    running.zone.change("""UPDATE async_jobs SET progress = progress || '{"overdue": true}' WHERE status = 0""")
    _wake(running)
    assert running.jobs()[-1].status == JobStatus.IN_PROGRESS
    assert running.zone.scalar("SELECT count(*) FROM host_claims") == 2
    running.assert_intact()
    running.clear_faults()
    _wake(running)
    assert running.jobs()[-1].status == JobStatus.FAILED
    _guest_is_where_its_row_says(running)


class OffGuest:
    """The given driver, but the guest goes off on the way: no move is done any more, and looking at it shows that.

    Args:
        driver: what does the work.
        seen: what source and destination show of it, in this order.
        moved: it goes off after its first move, else before.
    """

    def __init__(self, driver: Any, seen: Sequence[PowerState | DriverError | None], *, moved: bool) -> None:
        self._driver, self._seen, self._moved = driver, list(seen), moved

    def ensure_migrated(self, source: Any, destination: Any, *arguments: Any, **named: Any) -> None:
        """See above."""
        if self._moved:
            self._driver.ensure_migrated(source, destination, *arguments, **named)
            self._moved = False
        raise DriverError("migrate", destination.name, "it does not run", transient=False)

    def power_of(self, *arguments: Any, **named: Any) -> PowerState | None:
        """What is seen next."""
        del arguments, named
        seen = self._seen.pop(0)
        if isinstance(seen, DriverError):
            raise seen
        return seen

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


UNSEEN = DriverError("look", "a host", "it cannot be seen now", transient=True)


@pytest.mark.parametrize(
    ("seen", "ends_at"),
    [
        ((PowerState.STOPPED, UNSEEN), "source"),
        ((UNSEEN, PowerState.STOPPED), "destination"),
        ((None, UNSEEN), None),
        ((UNSEEN, None), None),
        ((PowerState.RUNNING, UNSEEN), None),
    ],
)
def test_a_migration_ends_when_its_guest_went_off(
    running: Fleet, seen: Sequence[PowerState | DriverError | None], ends_at: str | None
) -> None:
    """Where it is seen to run nowhere the move ends, with one host held; where that is not seen, both stay held."""
    before, there = running.vms()[0], _other_host(running)
    job = running.make_job(MIGRATE, before.id, host_id=there)
    running.run(job, drivers=OneDriver(OffGuest(running.driver, seen, moved=ends_at == "destination")))
    if ends_at is None:
        assert running.job(job).status == JobStatus.IN_PROGRESS
        assert running.zone.scalar("SELECT count(*) FROM host_claims") == 2
        running.assert_intact()
        return
    assert (running.job(job).status, "does not run" in running.job(job).result) == (JobStatus.FAILED, True)
    assert running.vms()[0].host_id == {"source": before.host_id, "destination": there}[ends_at]
    _guest_is_where_its_row_says(running)


def test_a_vm_whose_guest_is_on_neither_host_is_stopped(running: Fleet) -> None:
    """A guest that ended while it moved is on no host: the VM is Stopped, holds nothing, and starts again."""
    vm = running.vms()[0]
    job = running.make_job(MIGRATE, vm.id, host_id=_other_host(running))
    running.run(job, drivers=OneDriver(GuestEndsOnItsWay(running)))
    assert (running.job(job).status, "does not run" in running.job(job).result) == (JobStatus.FAILED, True)
    assert (running.vms()[0].state, running.vms()[0].host_id) == ("Stopped", None)
    assert running.zone.scalar("SELECT count(*) FROM host_claims") == 0
    running.assert_intact()
    running.run(running.make_job(START, vm.id))
    _guest_is_where_its_row_says(running)


class GuestEndsOnItsWay:
    """The fleet's driver, but a guest ends as soon as it is to move."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def ensure_migrated(self, source: Any, destination: Any, guest: Any, **named: Any) -> None:
        """End the guest, then ask for the move."""
        self._fleet.control.execute(
            "UPDATE simulator.guests SET power = 'Absent', host_uuid = NULL, volume_uuids = '{}' WHERE uuid = %s",
            [guest.uuid],
        )
        self._fleet.driver.ensure_migrated(source, destination, guest, **named)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._fleet.driver, name)


@pytest.mark.parametrize("before", [True, False], ids=["not moved yet", "moved"])
def test_the_next_worker_finishes_a_migration(running: Fleet, before: bool) -> None:
    """A worker that is gone after the claim, before or after the driver did it: the next one ends it, once."""
    gated = GatedMigration(running.driver, before=before)
    job_id = running.make_job(MIGRATE, running.vms()[0].id)
    with running.runner(drivers=OneDriver(gated)) as paused:
        paused.accept(job_id)
        assert gated.entered.wait(PATIENCE_S)
        running.zone.change("UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE status = 0")
        running.run(job_id)
        finished, vm = running.job(job_id), running.vms()[0]
        assert (finished.status, finished.attempts) == (JobStatus.SUCCEEDED, 2)
        gated.gate.set()
    assert (running.job(job_id), running.vms()[0]) == (finished, vm)
    _guest_is_where_its_row_says(running)


@pytest.mark.parametrize("kind", [STOP, DESTROY], ids=str)
def test_what_does_not_run_is_not_migrated(
    running: Fleet, migrate: Callable[..., JobStatus], kind: JobKind
) -> None:
    """A job that finds the VM stopped or destroyed by an earlier one fails and changes nothing."""
    running.run(running.make_job(kind, running.vms()[0].id))
    state = running.vms()[0].state
    assert migrate() is JobStatus.FAILED
    assert (running.vms()[0].state, running.guests()) == (state, {})
    running.assert_intact()


def test_without_room_it_stays(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """Where no other host can take it the job fails with 533 and counts what ruled hosts out."""
    before = running.vms()[0]
    running.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE id <> :id", id=before.host_id)
    assert migrate() is JobStatus.FAILED
    result = running.results()[-1]
    excluded = {row["reason"]: row["hosts"] for row in result["excluded"]}
    assert (result["errorcode"], excluded["host_not_enabled"]) == (533, CLUSTER - 1)
    _guest_is_where_its_row_says(running)


def test_thresholds_do_not_keep_a_vm_from_moving(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """They keep room free for exactly this."""
    running.zone.change(
        "INSERT INTO configuration_values VALUES"
        " ('Global', 0, 'cluster.memory.allocated.capacity.disablethreshold', '0.0001')"
    )
    assert migrate() is JobStatus.SUCCEEDED
    _guest_is_where_its_row_says(running)


def test_local_volumes_bind_a_vm(running: Fleet, migrate: Callable[..., JobStatus]) -> None:
    """A VM whose volumes lie on its host's own disks stays there."""
    host = running.vms()[0].host_id
    running.zone.change(
        "UPDATE storage_pools SET scope = 'HOST', host_id = :host WHERE id IN (SELECT pool_id FROM volumes)",
        host=host,
    )
    assert migrate() is JobStatus.FAILED
    assert migrate(host_id=_other_host(running)) is JobStatus.FAILED
    assert "bind" in running.results()[-1]["errortext"]
    _guest_is_where_its_row_says(running)


@pytest.mark.parametrize(("group", "moves"), [("apart", True), ("together", False)])
def test_strict_groups_hold_while_vms_move(fleet: Fleet, group: str, moves: bool) -> None:
    """Apart stays apart, both hosts of a moving VM counted; VMs that belong together do not part."""
    groups = (fleet.id_of("affinity_groups", group),)
    fleet.deploy(
        2, account="acme", domain_id=fleet.id_of("domains", "acme"), affinity_group_ids=groups, cluster="a-1"
    )
    fleet.run()
    fleet.run(*[fleet.make_job(MIGRATE, vm.id) for vm in fleet.vms()])
    statuses = sorted(job.status for job in fleet.jobs()[2:])
    assert (JobStatus.SUCCEEDED in statuses) == moves
    fleet.assert_intact()


def test_a_lone_member_of_a_group_moves(fleet: Fleet) -> None:
    """A VM is no reason to keep itself where it is, or away from where it was."""
    groups = (fleet.id_of("affinity_groups", "together"),)
    fleet.deploy(1, account="acme", domain_id=fleet.id_of("domains", "acme"), affinity_group_ids=groups)
    fleet.run()
    fleet.run(fleet.make_job(MIGRATE, fleet.vms()[0].id))
    assert fleet.jobs()[-1].status == JobStatus.SUCCEEDED
    _guest_is_where_its_row_says(fleet)


def test_many_move_at_once(fleet: Fleet) -> None:
    """Migrations of 24 VMs at once end, and claims, rows and guests agree."""
    fleet.deploy(24)
    fleet.run()
    fleet.fault(Step.MIGRATE, rate=0.2)
    fleet.run(*[fleet.make_job(MIGRATE, vm.id) for vm in fleet.vms()])
    fleet.clear_faults()
    _wake(fleet)
    assert {job.status for job in fleet.jobs()} <= {JobStatus.SUCCEEDED, JobStatus.FAILED}
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    fleet.assert_intact()
