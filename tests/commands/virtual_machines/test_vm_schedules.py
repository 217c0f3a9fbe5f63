"""Schedules of VMs: calls change them, and each occurrence is one bulk operation, whichever process dies."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.domain.schedules.cron_schedules import CronSchedule, describe_cron
from bulkdeploy.domain.schedules.occurrences import find_due
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.wiring.scheduled_work import due_vm_schedules
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.processes.deaths import Died, dies_at

__all__ = ["owned"]

NIGHTLY = {"action": "stop", "schedule": "30 2 * * *", "timezone": "Europe/Berlin"}
START = datetime(2024, 1, 1, tzinfo=UTC)
FIELDS = (
    st.sampled_from(["*", "*/7", "0", "30", "5,50"]),
    st.sampled_from(["*", "*/5", "2", "0-3", "23"]),
    st.sampled_from(["*", "1", "31", "L"]),
    st.sampled_from(["*", "2-4", "10"]),
    st.sampled_from(["*", "0", "1-5", "SUN"]),
)


def sweep(owned: Owned) -> None:
    """Do what a sweeper process does."""
    due_vm_schedules(owned.fleet.system).handle()


def make(owned: Owned, **parameters: object) -> dict[str, Any]:
    """Make a schedule, of the first VM unless the parameters name others."""
    target = (
        {} if {"groupid", "deploymentid", "tags[0].key"} & parameters.keys() else {"virtualmachineid": owned.vm}
    )
    return dict(owned.client.call("createVMSchedule", **{**target, **NIGHTLY, **parameters})["vmschedule"])


def make_due(owned: Owned, seconds: int = 30) -> None:
    """Let the next occurrence of all schedules be past."""
    owned.fleet.zone.change(f"UPDATE vm_schedules SET next_run = now() - interval '{seconds} seconds'")


def schedules(owned: Owned, **parameters: object) -> list[dict[str, Any]]:
    """Return schedules as their owner sees them."""
    return list(owned.client.call("listVMSchedule", **parameters).get("vmschedule", []))


def operations(owned: Owned) -> list[dict[str, Any]]:
    """Return the bulk operations of the account that schedules made."""
    listed = owned.client.call("listBulkOperations").get("bulkoperation", [])
    return [row for row in listed if not row["operation"].startswith("bulkDeploy")]


def states(owned: Owned) -> list[str]:
    """Return the states of the VMs."""
    return [vm.state for vm in owned.fleet.vms()]


def event_texts(owned: Owned, event: str) -> list[str]:
    """Return the texts of the owner's events of a type, the oldest first."""
    return [row["description"] for row in owned.client.call("listEvents", type=event).get("event", [])][::-1]


def test_a_schedule_is_made_changed_and_deleted(owned: Owned) -> None:
    """CloudStack's fields; dates are local to the time zone; wrong values name the rule, and change nothing."""
    made = make(owned, startdate="2099-07-01 08:00:00", enddate="2099-08-01")
    assert schedules(owned, virtualmachineid=owned.vm) == [made]
    assert (made["action"], made["enabled"], made["description"]) == ("STOP", True, "STOP - At 02:30 every day")
    assert (made["startdate"], made["enddate"], made["nextrun"]) == (
        "2099-07-01T06:00:00+0000", "2099-08-01T21:59:59+0000", "2099-07-02T00:30:00+0000",
    )  # fmt: skip
    for parameters, parameter in (
        ({"schedule": "30 2 * *"}, "schedule"),
        ({"schedule": "0 30 2 * * *"}, "schedule"),
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"startdate": "2001-01-01"}, "startdate"),
        ({"enddate": "2001-01-01"}, "enddate"),
        ({"startdate": "2099-02-01", "enddate": "2099-01-01"}, "enddate"),
        ({"startdate": "tomorrow"}, "startdate"),
        ({"action": "explode"}, "action"),
    ):
        failure = refused(owned.client, "createVMSchedule", virtualmachineid=owned.vm, **{**NIGHTLY, **parameters})
        assert (failure.errorcode, parameter in failure.errortext) == (431, True), failure
        if parameter != "action":
            assert refused(owned.client, "updateVMSchedule", id=made["id"], **parameters).errorcode == 431
    assert refused(owned.client, "createVMSchedule", **NIGHTLY).errorcode == 431
    assert schedules(owned) == [made]
    changed = owned.client.call(
        "updateVMSchedule", id=made["id"], schedule="0 4 * * 1", timezone="UTC", enabled=False
    )
    assert {**changed["vmschedule"], "nextrun": ""} == {
        **made, "schedule": "0 4 * * 1", "timezone": "UTC", "enabled": False, "nextrun": "",
    }  # fmt: skip
    other = owned.fleet.vms()[1].uuid
    assert refused(owned.client, "deleteVMSchedule", virtualmachineid=other, id=made["id"]).errorcode == 431
    owned.client.call("deleteVMSchedule", virtualmachineid=owned.vm, ids=made["id"])
    assert schedules(owned) == []
    assert refused(owned.client, "deleteVMSchedule", id=made["id"]).errorcode == 431
    assert [len(event_texts(owned, f"VM.SCHEDULE.{done}")) for done in ("CREATE", "UPDATE", "DELETE")] == [1, 1, 1]


def test_the_names_of_cloudstack_4_23_make_the_same_schedules(owned: Owned) -> None:
    """A schedule made by createResourceSchedule is in both lists, with the fields of each."""
    of_vm = {"resourcetype": "VirtualMachine", "resourceid": owned.vm}
    made = owned.client.call("createResourceSchedule", **of_vm, **NIGHTLY)["resourceschedule"]
    assert (made["resourcetype"], made["resourceid"]) == ("VirtualMachine", owned.vm)
    assert owned.client.call("listResourceSchedule", **of_vm, id=made["id"])["resourceschedule"] == [made]
    assert [row["virtualmachineid"] for row in schedules(owned)] == [owned.vm]
    owned.client.call("updateResourceSchedule", id=made["id"], schedule="0 5 * * *")
    owned.client.call("deleteResourceSchedule", **of_vm, id=made["id"])
    assert schedules(owned) == []


def test_any_number_of_sweepers_runs_each_occurrence_once(owned: Owned) -> None:
    """Sweepers that find a schedule due at the same moment make one operation; its jobs belong to the owner."""
    make(owned)
    sweep(owned)
    assert operations(owned) == []
    make_due(owned)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sweep(owned), range(8)))
    (operation,) = operations(owned)
    assert (operation["operation"], operation["count"]) == ("bulkStopVirtualMachine", 1)
    owned.run()
    assert states(owned) == ["Stopped", "Running"]
    (row,) = schedules(owned)
    local = datetime.fromisoformat(row["nextrun"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert (local.hour, local.minute, local > datetime.now(UTC)) == (2, 30, True)
    assert [text.split(" ran")[0] for text in event_texts(owned, "VM.SCHEDULE.STOP")] == [
        "schedule STOP - At 02:30 every day"
    ]
    owned.fleet.assert_intact()


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_sweeper_dies(owned: Owned, place: str) -> None:
    """Before or after each commit: the operation is made once, and an occurrence that cannot run is told once."""
    points = (Failpoint.SWEEP_SCHEDULES, Failpoint.SWEEP_SCHEDULE_FAILED)
    make(owned)
    with dies_at(*(f"{point}.{place}" for point in points)) as died:
        for _ in range(2):  # The second time the VM is stopped already.
            make_due(owned)
            for _ in range(2):
                try:
                    sweep(owned)
                except Died:
                    sweep(owned)
            owned.run()
    assert len(died) == len(points)
    assert (len(operations(owned)), states(owned)) == (1, ["Stopped", "Running"])
    ran, skipped = event_texts(owned, "VM.SCHEDULE.STOP")
    assert (ran.endswith(" ran"), " was skipped: " in skipped) == (True, True)


def test_one_operation_acts_on_a_group_a_deployment_or_tagged_vms(owned: Owned, client: ApiClient) -> None:
    """The VMs are chosen when the schedule runs, from those of its account."""
    group = owned.client.call("createInstanceGroup", name="web")["instancegroup"]["id"]
    second = str(owned.fleet.vms()[1].uuid)
    owned.done(
        "createTags", resourcetype="UserVm", resourceids=second, **{"tags[0].key": "tier", "tags[0].value": "b"}
    )
    deployment = str(owned.fleet.zone.scalar("SELECT uuid FROM deployments"))
    for target, acting, expected in (
        ({"tags[0].key": "tier", "tags[0].value": "b"}, "stop", ["Running", "Stopped"]),
        ({"deploymentid": deployment}, "force_stop", ["Stopped", "Stopped"]),
        ({"groupid": group}, "start", ["Running", "Stopped"]),
    ):
        made = make(owned, action=acting, **target)
        if "groupid" in target:
            owned.client.call("updateVirtualMachine", id=owned.vm, group="web")
        make_due(owned)
        sweep(owned)
        owned.run()
        assert states(owned) == expected
        owned.client.call("deleteVMSchedule", id=made["id"])
    assert [row["count"] for row in operations(owned)] == [1, 1, 1]
    owned.fleet.set_value("allow.user.force.stop.vm", "false")
    sent = {"virtualmachineid": owned.vm, **NIGHTLY, "action": "force_reboot"}
    assert refused(owned.client, "createVMSchedule", **sent).errorcode == 531
    assert client.call("createVMSchedule", **sent)["vmschedule"]["account"] == "acme"
    make(owned, action="reboot", groupid=group)
    owned.client.call("deleteInstanceGroup", id=group)
    make_due(owned)
    sweep(owned)
    assert [row["action"] for row in schedules(owned)] == ["FORCE_REBOOT"]
    assert owned.fleet.zone.scalar("SELECT count(*) FROM vm_schedules WHERE removed IS NULL") == 1
    owned.fleet.assert_intact()


def test_what_is_past_or_switched_off_does_not_run(owned: Owned) -> None:
    """An occurrence older than schedule.missed.max is told of and left out; after its end a schedule is off."""
    made = make(owned)
    make_due(owned, seconds=601)
    sweep(owned)
    (skipped,) = event_texts(owned, "VM.SCHEDULE.STOP")
    assert "skipped its occurrence" in skipped
    owned.client.call("updateVMSchedule", id=made["id"], enabled=False)
    make_due(owned)
    sweep(owned)
    owned.client.call("updateVMSchedule", id=made["id"], enabled=True, enddate="2099-01-01")
    owned.fleet.zone.change("UPDATE vm_schedules SET start_date = now() - interval '2 days', end_date = now()")
    make_due(owned)
    assert (operations(owned), states(owned)) == ([], ["Running", "Running"])
    sweep(owned)
    (row,) = schedules(owned)
    assert (len(operations(owned)), row["enabled"], "nextrun" in row) == (1, False, False)


@given(
    st.tuples(*FIELDS).map(" ".join).filter(lambda written: describe_cron(written) is not None),
    st.timedeltas(timedelta(0), timedelta(days=900)).map(lambda later: START + later),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_times_follow_one_another(written: str, moment: datetime, zone: str) -> None:
    """Each is later than the one before and the first after any moment between them; none is before the start."""
    schedule = CronSchedule(written, ZoneInfo(zone), START + timedelta(days=30))
    first = schedule.next_after(moment)
    assert first is not None
    second = schedule.next_after(first)
    assert second is not None
    assert first > moment
    assert second > first >= schedule.start - timedelta(seconds=1)
    assert schedule.next_after(first + (second - first) / 2) == second


@pytest.mark.parametrize(
    ("written", "begin", "times"),
    [
        ("30 2 * * *", "2024-03-30 12:00", ["2024-03-31 01:00", "2024-04-01 00:30"]),
        ("30 2 * * *", "2024-10-26 12:00", ["2024-10-27 00:30", "2024-10-28 01:30"]),
        ("30 2 * * *", "2024-10-27 01:15", ["2024-10-28 01:30"]),
        ("30 * * * *", "2024-10-26 23:45", ["2024-10-27 00:30", "2024-10-27 01:30", "2024-10-27 02:30"]),
        ("30 * * * *", "2024-03-31 00:00", ["2024-03-31 00:30", "2024-03-31 01:30"]),
    ],
)
def test_when_clocks_change(written: str, begin: str, times: list[str]) -> None:
    """A time that is skipped is made up for, one that comes twice runs once, and each hour still has its own."""
    schedule = CronSchedule(written, ZoneInfo("Europe/Berlin"), START)
    moment: datetime | None = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    for expected in times:
        assert moment is not None
        moment = schedule.next_after(moment)
        assert moment == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@given(st.integers(0, 5000), st.integers(60, 3600), st.integers(-60, 60))
def test_missed_occurrences_are_made_up_for_once(behind_s: int, most_s: int, step_s: int) -> None:
    """The last one that passed runs if it is young enough; a clock step of up to a minute repeats none."""
    schedule = CronSchedule("*/10 * * * *", ZoneInfo("UTC"), START)
    planned = START + timedelta(hours=1)
    now, most = planned + timedelta(seconds=behind_s), timedelta(seconds=most_s)
    due = find_due(schedule, planned, now, most)
    last = START + (now - START) // timedelta(minutes=10) * timedelta(minutes=10)
    assert due.following is not None
    assert due.following > now
    assert (due.at is not None) == (now - last < most or now - planned <= most)
    again = find_due(schedule, due.following, max(due.following, now + timedelta(seconds=step_s)), most)
    assert again.at is None or again.at > planned
