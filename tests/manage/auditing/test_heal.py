"""``bulkdeploy heal``: its exit codes tell what it found and did, and it keeps to what it is told to keep to."""

from typing import Any

import pytest

from bulkdeploy.manage.auditing.heal import FOUND, HEALED, LEFT, NOTHING, run
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

NO_CLAIMS = "DELETE FROM host_claims"
ALL: dict[str, Any] = {"dry_run": False, "vm": None, "host": None, "batch": 2}


def test_from_broken_to_healed(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to do, found by a dry run that changes nothing, healed in batches, and nothing to do again."""
    fleet.deploy(5)
    fleet.run()
    assert run(fleet.settings, **ALL) == NOTHING
    fleet.zone.change(NO_CLAIMS)
    assert run(fleet.settings, **{**ALL, "dry_run": True}) == FOUND
    assert "no claim" in capsys.readouterr().out
    assert fleet.zone.scalar("SELECT count(*) FROM host_claims") == 0
    assert run(fleet.settings, **ALL) == HEALED
    assert "vms_have_claims: 5" in capsys.readouterr().out
    assert run(fleet.settings, **ALL) == NOTHING
    fleet.assert_intact()


def test_a_missing_claim_gives_no_room_away(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """The claim comes back before anything is counted: at no moment is its host's room free for others."""
    fleet.deploy(5)
    fleet.run()
    fleet.zone.change(NO_CLAIMS)
    capsys.readouterr()
    assert run(fleet.settings, **ALL) == HEALED
    assert capsys.readouterr().out.splitlines() == ["mended  vms_have_claims: 5"]
    fleet.assert_intact()


def test_a_snapshot_that_no_job_reverts_to_any_more_can_be_reverted_to(fleet: Fleet) -> None:
    """A revert takes nothing from its snapshot; what was being made or removed may be there in part."""
    fleet.deploy(3)
    fleet.run()
    fleet.zone.change(
        "INSERT INTO vm_snapshots (name, display_name, vm_id, account_id, snapshot_type, state, is_current)"
        " SELECT 'x', s.state, v.id, v.account_id, 'Disk', s.state, false FROM (SELECT id, account_id, row_number()"
        " OVER (ORDER BY id) AS at FROM virtual_machines) v JOIN"
        " unnest(ARRAY['Creating', 'Reverting', 'Expunging']) WITH ORDINALITY AS s(state, at) ON s.at = v.at"
    )
    assert run(fleet.settings, **ALL) == HEALED
    states = fleet.zone.rows("SELECT display_name, state FROM vm_snapshots")
    assert dict(tuple(row) for row in states) == {"Creating": "Error", "Reverting": "Ready", "Expunging": "Error"}


def test_what_only_people_can_mend_is_left(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A host that is promised too much: heal says who holds too much, what helps, and that something is left."""
    fleet.deploy(2)
    fleet.run()
    fleet.zone.change("UPDATE host_capacity SET vms_limit = 0")
    assert run(fleet.settings, **ALL) == LEFT
    assert "migrateHost" in capsys.readouterr().out


def test_it_keeps_to_one_vm_or_host(fleet: Fleet) -> None:
    """With a VM, or a host, others stay as they are; a host that is not there is refused."""
    fleet.deploy(5)
    fleet.run()
    fleet.zone.change(NO_CLAIMS)
    one, other, *_ = fleet.vms()
    assert run(fleet.settings, **{**ALL, "vm": one.uuid}) == LEFT
    assert [row.consumer for row in fleet.zone.rows("SELECT consumer FROM host_claims")] == [one.uuid]
    host = fleet.zone.scalar("SELECT name FROM hosts WHERE id = :id", id=other.host_id)
    run(fleet.settings, **{**ALL, "host": host})
    held = {row.consumer for row in fleet.zone.rows("SELECT consumer FROM host_claims")}
    assert {one.uuid, other.uuid} <= held < {vm.uuid for vm in fleet.vms()} | held | {None}
    with pytest.raises(Exception, match="0 hosts have the name or id 'nowhere'"):
        run(fleet.settings, **{**ALL, "host": "nowhere"})
    assert run(fleet.settings, **ALL) == HEALED
    fleet.assert_intact()


def test_what_a_job_works_on_is_left_alone(fleet: Fleet) -> None:
    """A VM whose job has yet to end keeps its claim as it is, however wrong it looks."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    job_id = fleet.make_job(STOP, vm.id)
    fleet.zone.change("UPDATE host_claims SET memory_mib = memory_mib + 1")
    run(fleet.settings, **ALL)
    assert fleet.zone.scalar("SELECT memory_mib FROM host_claims") == vm.memory_mib + 1
    fleet.run(job_id)
    run(fleet.settings, **ALL)
    fleet.assert_intact()
