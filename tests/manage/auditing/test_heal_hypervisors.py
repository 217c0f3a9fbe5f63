"""``bulkdeploy heal`` on hypervisors: each thing that the audit compares there is broken, and healed by jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.manage.auditing.heal import FOUND, HEALED, LEFT, NOTHING, run
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.provisioning.volume_removal import VolumeRemoval
from bulkdeploy.services.auditing.audit import audit
from tests.support.zones.fleet import Fleet, OneDriver, fleet, fleet_simulator_url, template_database

pytestmark = pytest.mark.long

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

ALL: dict[str, Any] = {"dry_run": False, "vm": None, "host": None, "batch": 50}
MOVE = (
    "SELECT simulator_code.change_host(g, (SELECT min(uuid::text)::uuid FROM simulator.hosts"
    " WHERE uuid <> g.host_uuid)) FROM simulator.guests g WHERE uuid = %s"
)
TWICE = (
    "INSERT INTO simulator.stray_guests SELECT g.uuid, max(h.uuid::text)::uuid FROM simulator.hosts h"
    " JOIN simulator.guests g ON g.host_uuid <> h.uuid WHERE g.uuid = %s GROUP BY g.uuid"
)
GONE = "DELETE FROM simulator.guests WHERE uuid = %s"
OTHER_SIZES = "UPDATE simulator.guests SET cpu_mhz = cpu_mhz - 1 WHERE uuid = %s"
OTHER_DEVICES = "UPDATE simulator.guests SET volume_uuids = '{}' WHERE uuid = %s"
NO_VOLUMES = "DELETE FROM simulator.volumes WHERE guest_uuid = %s"


@contextmanager
def working(fleet: Fleet) -> Iterator[None]:
    """Workers take jobs as they are made."""
    ended = Event()

    def work() -> None:
        while not ended.is_set():
            due = fleet.zone.rows("SELECT id FROM async_jobs WHERE status = 0")
            if due:
                fleet.run(*[row.id for row in due])
            ended.wait(0.05)

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def heal(fleet: Fleet, **how: Any) -> int:
    """The command, beside workers."""
    with working(fleet):
        return run(fleet.settings, **{**ALL, "wait_s": 300, **how})


def break_by(fleet: Fleet, statement: str, vm: UUID) -> None:
    """Change what the hypervisors have, behind our back."""
    fleet.control.execute(statement.encode(), [vm])


def test_what_hypervisors_have_is_made_what_the_rows_say(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Gone, elsewhere, twice, of other sizes, with other devices; running though Stopped, and though expunged.

    A dry run names each and changes nothing; heal mends all of them, and then there is nothing to do.
    """
    fleet.deploy(8)
    fleet.run()
    assert run(fleet.settings, **ALL) == NOTHING
    gone, elsewhere, twice, sizes, devices, stopped, expunged, well = fleet.vms()
    for vm, statement in (
        (gone, GONE),
        (elsewhere, MOVE),
        (twice, TWICE),
        (sizes, OTHER_SIZES),
        (devices, OTHER_DEVICES),
    ):
        break_by(fleet, statement, vm.uuid)
    fleet.zone.change("UPDATE virtual_machines SET state = 'Stopped', host_id = NULL WHERE id = :vm", vm=stopped.id)
    fleet.forget(expunged)
    capsys.readouterr()
    assert run(fleet.settings, **{**ALL, "dry_run": True}) == FOUND
    shown = capsys.readouterr().out
    assert all(str(vm.uuid) in shown for vm in (gone, elsewhere, twice, sizes, devices, stopped, expunged))
    assert (str(well.uuid) in shown, len(fleet.jobs())) == (False, 9)
    assert heal(fleet) == HEALED, capsys.readouterr().out
    VolumeRemoval(fleet.engine, OneDriver(fleet.driver), 30).remove_volumes()
    assert heal(fleet) == NOTHING
    fleet.assert_intact()
    assert fleet.guests().keys() == {vm.uuid for vm in (gone, elsewhere, twice, sizes, devices, well)}
    assert {vm.uuid: vm.host_id for vm in fleet.vms() if vm.uuid == elsewhere.uuid} == {
        elsewhere.uuid: elsewhere.host_id
    }


def test_a_guest_whose_disk_is_lost_is_not_started_on_an_empty_one(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was on it does not come back by itself: heal says so, and an operator decides whether to restore."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    break_by(fleet, GONE, vm.uuid)
    break_by(fleet, NO_VOLUMES, vm.uuid)
    assert heal(fleet) == LEFT
    assert "restoreVirtualMachine" in capsys.readouterr().out
    assert (fleet.guests(), fleet.volumes(), fleet.vms()[0].state) == ({}, set(), "Running")


def test_it_keeps_to_one_vm(fleet: Fleet) -> None:
    """With a VM, others stay as they are on their hypervisors, too."""
    fleet.deploy(2)
    fleet.run()
    one, other = fleet.vms()
    for vm in (one, other):
        break_by(fleet, GONE, vm.uuid)
    assert heal(fleet, vm=one.uuid) == LEFT
    assert fleet.guests().keys() == {one.uuid}
    assert heal(fleet) == HEALED
    fleet.assert_intact()


def test_without_workers_it_says_which_jobs_have_not_ended(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its jobs are not lost: made once, they are done when workers are there, and heal makes no second ones."""
    fleet.deploy(1)
    fleet.run()
    break_by(fleet, GONE, fleet.vms()[0].uuid)
    for _ in range(2):
        assert run(fleet.settings, **ALL) in (LEFT, NOTHING)
    assert "has not ended" in capsys.readouterr().out
    repairs = [job for job in fleet.jobs() if job.kind == "repair_virtual_machine"]
    assert len(repairs) == 1
    fleet.run(repairs[0].id)
    fleet.assert_intact()


def test_what_a_job_works_on_is_left_to_it(fleet: Fleet) -> None:
    """A VM that is being stopped is not repaired, whatever its guest is."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    job = fleet.make_job(STOP, vm.id)
    break_by(fleet, GONE, vm.uuid)
    assert run(fleet.settings, **ALL) == NOTHING
    fleet.run(job)
    fleet.assert_intact()


def test_hypervisors_are_not_asked_where_only_rows_are_to_be_mended(fleet: Fleet) -> None:
    """For when one of them cannot be reached."""
    fleet.deploy(1)
    fleet.run()
    break_by(fleet, GONE, fleet.vms()[0].uuid)
    assert run(fleet.settings, **{**ALL, "rows_only": True}) == NOTHING


def test_what_cannot_be_seen_is_not_repaired(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """VMs of a silent host are unknown, one by one; heal makes no job for them, and mends the rest."""
    fleet.deploy(4)
    fleet.run()
    silent, *others = fleet.vms()
    gone = next(vm for vm in others if vm.host_id != silent.host_id)
    host = fleet.zone.rows("SELECT name FROM hosts WHERE id = :id", id=silent.host_id)[0].name
    cut_off(fleet.control, host)
    break_by(fleet, GONE, gone.uuid)
    assert heal(fleet) == LEFT
    shown = capsys.readouterr().out
    unseen = [vm for vm in fleet.vms() if vm.host_id == silent.host_id]
    assert all(f"UNKNOWN VM {vm.uuid} is Running on host" in shown for vm in unseen)
    assert [job.instance_id for job in fleet.jobs() if job.kind == "repair_virtual_machine"] == [gone.id]
    assert [finding.unknown for finding in audit(fleet.engine, [fleet.driver]) if finding.unknown]
    join_again(fleet.control, host)
    assert heal(fleet) == NOTHING
    fleet.assert_intact()
