"""Snapshot policies: what calls make of them, and that sweepers take each snapshot once and delete the oldest."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.domain.schedules.snapshot_schedules import BOUNDS, Interval, Schedule
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.wiring.scheduled_work import SnapshotRetention, due_snapshot_policies
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.commands.virtual_machines.test_snapshots import listed, root_of
from tests.support.api.callers import refused
from tests.support.processes.deaths import Died, dies_at

__all__ = ["owned"]

START = datetime(2024, 1, 1, tzinfo=UTC)
YEARS = timedelta(days=6 * 365)
DAILY = {"intervaltype": "daily", "schedule": "30:02", "timezone": "Europe/Berlin", "maxsnaps": 2}


def take_snapshots(owned: Owned) -> None:
    """Take the snapshots that are due, as a sweeper process does."""
    due_snapshot_policies(owned.fleet.system).handle()


def delete_surplus(owned: Owned) -> None:
    """Delete snapshots that are no longer kept, as a sweeper process does."""
    SnapshotRetention(owned.fleet.system).delete_surplus()


def make(owned: Owned, **parameters: object) -> dict[str, Any]:
    """Make a policy of the first VM's root volume."""
    sent = {"volumeid": root_of(owned)["id"], **DAILY, **parameters}
    return dict(owned.client.call("createSnapshotPolicy", **sent)["snapshotpolicy"])


def make_due(owned: Owned, minutes: int = 1) -> None:
    """Let the next time of all policies be past."""
    owned.fleet.zone.change(
        f"UPDATE snapshot_policies SET next_run = now() - interval '{minutes} minutes', retry_at = NULL"
    )


def due(owned: Owned) -> Any:
    """Return the row of the one policy."""
    (row,) = owned.fleet.zone.rows("SELECT *, now() AS now FROM snapshot_policies")
    return row


def policies(owned: Owned, **parameters: object) -> list[dict[str, Any]]:
    """Return policies as their owner sees them."""
    return list(owned.client.call("listSnapshotPolicies", **parameters).get("snapshotpolicy", []))


def test_a_policy_is_made_changed_and_deleted(owned: Owned) -> None:
    """A second one of the same interval replaces the first; tags go on it; wrong schedules name the rule."""
    root = root_of(owned)["id"]
    made = make(owned, **{"tags[0].key": "for", "tags[0].value": "audit"})
    assert policies(owned, volumeid=root) == [made]
    assert (made["intervaltype"], made["schedule"], made["maxsnaps"], made["timezone"]) == (
        1, "30:02", 2, "Europe/Berlin",
    )  # fmt: skip
    assert [tag["value"] for tag in made["tags"]] == ["audit"]
    again = make(owned, schedule="45:03", maxsnaps=3)
    assert (again["id"], again["schedule"], again["maxsnaps"]) == (made["id"], "45:03", 3)
    weekly = make(owned, intervaltype="WEEKLY", schedule="00:04:1")
    assert [policy["intervaltype"] for policy in policies(owned)] == [1, 2]
    for parameters, parameter in (
        ({"schedule": "30:24"}, "schedule"),
        ({"schedule": "30"}, "schedule"),
        ({"intervaltype": "monthly", "schedule": "30:02:29"}, "schedule"),
        ({"intervaltype": "yearly"}, "intervaltype"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"maxsnaps": 0}, "maxsnaps"),
        ({"maxsnaps": 9}, "snapshot.max.daily"),
        ({"volumeid": owned.volume()}, "volumeid"),
    ):
        sent = {"volumeid": root, **DAILY, **parameters}
        failure = refused(owned.client, "createSnapshotPolicy", **sent)
        assert (failure.errorcode, parameter in failure.errortext) == (431, True), failure
    job = owned.done("updateSnapshotPolicy", id=weekly["id"])
    assert job["jobresult"]["snapshotpolicy"]["id"] == weekly["id"]
    owned.client.call("deleteSnapshotPolicies", ids=f"{weekly['id']},{made['id']}")
    assert policies(owned) == []
    assert refused(owned.client, "deleteSnapshotPolicies", id=made["id"]).errorcode == 431


def test_a_policy_names_the_zone_of_its_volume(owned: Owned) -> None:
    """Lists show the zone only if the call named it, as Terraform expects; no other zone is possible."""
    zone = root_of(owned)["zoneid"]
    assert "zone" not in make(owned)
    made = make(owned, zoneids=zone)
    assert [one["id"] for one in made["zone"]] == [zone]
    assert policies(owned, id=made["id"]) == [made]
    owned.fleet.zone.change("INSERT INTO zones (name, network_type) VALUES ('elsewhere', 'Advanced')")
    (row,) = owned.fleet.zone.rows("SELECT uuid::text AS id FROM zones WHERE name = 'elsewhere'")
    both = f"{zone},{row.id}"
    refusal = refused(owned.client, "createSnapshotPolicy", volumeid=made["volumeid"], zoneids=both, **DAILY)
    assert (refusal.errorcode, "in another zone" in refusal.errortext) == (431, True)


def test_any_number_of_sweepers_takes_each_snapshot_once(owned: Owned) -> None:
    """Sweepers that find a policy due at the same moment make one job; then it is due at its next time."""
    make(owned)
    take_snapshots(owned)
    assert listed(owned) == []
    make_due(owned)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: take_snapshots(owned), range(8)))
    assert [row["state"] for row in listed(owned)] == ["Creating"]
    policy = due(owned)
    local = policy.next_run.astimezone(ZoneInfo("Europe/Berlin"))
    assert (local.hour, local.minute, policy.next_run > policy.now) == (2, 30, True)
    owned.run()
    (snapshot,) = listed(owned, snapshottype="recurring")
    assert (snapshot["state"], snapshot["snapshottype"], snapshot["intervaltype"]) == ("BackedUp", "DAILY", "DAILY")
    assert listed(owned, snapshottype="manual") == []
    owned.fleet.assert_intact()


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_sweeper_dies(owned: Owned, place: str) -> None:
    """Before or after each commit: the snapshot is taken once, told of once where it fails, and deleted once."""
    points = (Failpoint.SWEEP_POLICIES, Failpoint.SWEEP_RETENTION, Failpoint.SWEEP_POLICY_FAILED)

    def sweep() -> None:
        for work in (take_snapshots, delete_surplus):
            try:
                work(owned)
            except Died:
                work(owned)
        owned.run()

    make(owned, maxsnaps=1)
    with dies_at(*(f"{point}.{place}" for point in points)) as died:
        for _ in range(2):
            make_due(owned)
            sweep()
        sweep()
        assert len(listed(owned)) == 1
        assert owned.fleet.zone.rows("SELECT count(*) AS n FROM vm_snapshots")[0].n == 2
        owned.fleet.zone.change("UPDATE virtual_machines SET state = 'Error'")
        make_due(owned)
        sweep()
    assert len(died) == len(points)
    recorded = owned.client.call("listEvents", type="SNAPSHOT.CREATE", keyword="took no snapshot")["event"]
    assert len(recorded) == 1


def test_only_the_newest_snapshots_are_kept(owned: Owned) -> None:
    """Those of the policy beyond maxsnaps are deleted, the oldest first; those that somebody took stay."""
    manual = owned.done("createSnapshot", volumeid=root_of(owned)["id"])["jobresult"]["snapshot"]["id"]
    made = make(owned)
    taken = []
    for _ in range(4):
        make_due(owned)
        take_snapshots(owned)
        delete_surplus(owned)
        owned.run()
        taken.append(listed(owned)[0]["id"])
    for _ in range(2):
        delete_surplus(owned)
        owned.run()
    assert [row["id"] for row in listed(owned)] == [taken[3], taken[2], manual]
    owned.client.call("deleteSnapshotPolicies", id=made["id"])
    delete_surplus(owned)
    assert len(listed(owned)) == 3
    owned.fleet.assert_intact()


def test_a_snapshot_that_cannot_be_taken_is_tried_again(owned: Owned) -> None:
    """It is told once, tried again after minutes, and left out when the policy's next time comes before that."""
    make(owned, intervaltype="hourly", schedule="07")
    owned.fleet.zone.change("UPDATE virtual_machines SET state = 'Error'")
    make_due(owned)
    for _ in range(3):
        take_snapshots(owned)
    policy = due(owned)
    is_later = policy.retry_at is not None or policy.next_run > policy.now
    assert (listed(owned), is_later) == ([], True)
    owned.fleet.zone.change("UPDATE virtual_machines SET state = 'Running'")
    owned.fleet.zone.change("UPDATE snapshot_policies SET next_run = now(), retry_at = now()")
    take_snapshots(owned)
    assert (len(listed(owned)), due(owned).retry_at) == (1, None)
    events = owned.client.call("listEvents", keyword="took no snapshot")["event"]
    assert len(events) == 1


def test_a_hidden_policy_and_one_of_a_deleted_volume_take_none(owned: Owned) -> None:
    """A root admin hides a policy; with its volume a policy is gone."""
    made = make(owned)
    owned.fleet.zone.change("UPDATE snapshot_policies SET display = false")
    make_due(owned)
    take_snapshots(owned)
    assert listed(owned) == []
    owned.fleet.zone.change("UPDATE snapshot_policies SET display = true")
    owned.fleet.zone.change("UPDATE volumes SET removed = now() WHERE volume_type = 'ROOT'")
    assert policies(owned) == []
    take_snapshots(owned)
    assert due(owned).removed is not None
    assert refused(owned.client, "deleteSnapshotPolicies", id=made["id"]).errorcode == 431


@given(
    st.sampled_from(list(Interval)).flatmap(
        lambda interval: st.tuples(st.just(interval), *(st.integers(low, high) for low, high in BOUNDS[interval]))
    ),
    st.timedeltas(timedelta(0), YEARS).map(lambda later: START + later),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe"]),
)
def test_the_next_time_is_the_first_that_fits(written: tuple[Any, ...], moment: datetime, name: str) -> None:
    """It is later than the moment, by at most the interval and a change of summer time, and as written."""
    interval, *parts = written
    zone = ZoneInfo(name)
    schedule = Schedule.parse(interval, ":".join(str(part) for part in parts), zone)
    assert schedule is not None
    found = schedule.next_after(moment)
    longest = {Interval.HOURLY: 2 / 24, Interval.DAILY: 1, Interval.WEEKLY: 7, Interval.MONTHLY: 31}[interval]
    assert moment < found <= moment + timedelta(days=longest, hours=1)
    local = found.astimezone(zone)
    day = {Interval.WEEKLY: local.isoweekday() % 7 + 1, Interval.MONTHLY: local.day}.get(interval)
    is_exact = [local.minute, local.hour, day][: len(parts)] == parts
    assert is_exact or local.utcoffset() != (found - timedelta(hours=2)).astimezone(zone).utcoffset()
