"""Following another cloud: what happens there is here after the next round, whatever became of the last one.

The other cloud is bulkdeploy itself, behind a real server; what happens there is written into its database, with
the events that CloudStack writes.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from bulkdeploy.cloudstack.client import Access, Client
from bulkdeploy.manage.upstream.events import MOST_EVENTS, news_of
from bulkdeploy.manage.upstream.following import Cadence, Follower, Overtaken
from bulkdeploy.manage.upstream.importing import ImportReport, read_upstream, write_reading
from bulkdeploy.manage.upstream.reading import MOST_ONE_BY_ONE, Upstream, Wanted
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import MOST_ATTEMPTS
from bulkdeploy.store.followed_clouds import picture_age_s
from tests.cloudstack.described_client import DescribedClient
from tests.cloudstack.test_import import audit_breaches, said, upstream
from tests.support.api.api_client import ApiClient
from tests.support.runs.waiting import wait_for
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import World

pytestmark = pytest.mark.long

__all__ = ["upstream"]

SELDOM = Cadence(events=0.1, places=10_000, moves=10_000, everything=10_000)


def client_of(upstream: World) -> Client:
    """With the keys of its admin."""
    keys = upstream.client()
    return DescribedClient(
        Access(f"{upstream.url}/client/api", keys.api_key, keys.secret_key, calls_per_second=1000)
    )


@pytest.fixture
def follower(system: System, upstream: World) -> Iterator[Follower]:
    """What follows the upstream, and has read it whole; only events make it read anything from now on."""
    client = client_of(upstream)
    made = Follower(system, client, cadence=SELDOM)
    made.round()
    made.round()  # the first time, places are read
    client.calls.clear()
    yield made
    client.close()


def happens(upstream: World, event_type: str, vm: str | None = None, sql: str | None = None) -> None:
    """Something happens there: a change of its rows, and the event."""
    if sql is not None:
        upstream.change(sql, id=vm)
    upstream.change(
        "INSERT INTO events (uuid, event_type, level, state, description, account_id, user_id, resource_type,"
        " resource_uuid, created) SELECT :uuid, :type, 'INFO', 'Completed', 'done', a.id, u.id,"
        " CASE WHEN CAST(:vm AS text) IS NOT NULL THEN 'VirtualMachine' END, CAST(CAST(:vm AS text) AS uuid), now()"
        " FROM users u JOIN accounts a ON a.id = u.account_id WHERE u.username = 'admin' LIMIT 1",
        uuid=uuid4(),
        type=event_type,
        vm=vm,
    )


def calls_of(follower: Follower) -> dict[str, int]:
    """The calls that the upstream got."""
    return dict(follower._client.calls)


def report_of(follower: Follower) -> ImportReport:
    """What a round changed."""
    report = follower.round()
    assert report is not None
    return report


GONE = "UPDATE virtual_machines SET state = 'Expunging', removed = now() WHERE uuid = :id"
STOPPED = "UPDATE virtual_machines SET state = 'Stopped', host_id = NULL WHERE uuid = :id"


def test_what_happens_there_is_here(follower: Follower, upstream: World, system: System, client: ApiClient) -> None:
    """A VM is made, stopped, and removed: it is read by its id, with its volumes. Of other things lists are read.

    Where nothing happens a round is two calls: events of accounts, and of projects. The lag grows between rounds.
    """
    report = report_of(follower)
    assert (report.created, report.changed, report.removed) == ({}, {}, {})
    assert calls_of(follower) == {"listEvents": 2}
    vm = deployed_vm(upstream, "new")
    happens(upstream, "VM.CREATE", vm)
    assert report_of(follower).created == {"virtualmachines": 1}
    assert said(client, "listVirtualMachines")[vm] == said(upstream.client(), "listVirtualMachines")[vm]
    assert volumes_of(client, vm) == volumes_of(upstream.client(), vm) != {}
    happens(upstream, "VM.STOP", vm, STOPPED)
    assert report_of(follower).changed == {"virtualmachines": 1}
    assert said(client, "listVirtualMachines")[vm]["state"] == "Stopped"
    happens(upstream, "VM.EXPUNGE", vm, GONE)
    assert report_of(follower).removed == {"virtualmachines": 1}
    assert vm not in said(client, "listVirtualMachines")
    assert calls_of(follower).keys() == {"listEvents", "listVirtualMachines", "listVolumes"}
    assert calls_of(follower)["listVolumes"] == 3

    happens(upstream, "MAINT.PREPARE", sql="UPDATE hosts SET resource_state = 'Maintenance' WHERE name = 'a-2-1'")
    upstream.client().call("createDiskOffering", name="new", displaytext="new", disksize=3)
    report = report_of(follower)
    assert (report.created, report.changed) == ({"diskofferings": 1}, {"hosts": 1})
    assert "new" in {row["name"] for row in said(client, "listDiskOfferings").values()}
    assert audit_breaches(system) == []

    with system.engine.begin() as connection:
        connection.execute(text("UPDATE followed_clouds SET seen = now() - interval '90 s'"))
        before = picture_age_s(connection)
        assert before is not None
        assert before >= 90
    report_of(follower)
    with system.engine.connect() as connection:
        after = picture_age_s(connection)
        assert after is not None
        assert after < before


REPLACED = (
    "UPDATE volumes SET uuid = gen_random_uuid() WHERE vm_id = (SELECT id FROM virtual_machines WHERE uuid = :id)"
)


def test_volumes_of_many_vms_are_read_together(follower: Follower, upstream: World, client: ApiClient) -> None:
    """Those of new VMs among the newest of all, of others by the ids that they had, unless one of these is gone."""
    vms = [deployed_vm(upstream, f"new-{number}") for number in range(MOST_ONE_BY_ONE + 1)]
    for number, (event, sql) in enumerate((("VM.CREATE", None), ("VM.STOP", STOPPED)), start=1):
        for vm in vms:
            happens(upstream, event, vm, sql)
        report_of(follower)
        assert calls_of(follower)["listVolumes"] == number
        assert volumes_of(client, *vms) == volumes_of(upstream.client(), *vms)
    happens(upstream, "VM.RESTORE", vms[0], REPLACED)
    report_of(follower)
    assert len(volumes_of(client, *vms)) == len(vms)
    assert volumes_of(client, *vms) == volumes_of(upstream.client(), *vms)


def volumes_of(client: ApiClient, *vms: str) -> dict[str, dict[str, object]]:
    """The volumes of VMs."""
    return {one: row for one, row in said(client, "listVolumes").items() if row["virtualmachineid"] in vms}


def test_what_no_event_tells_is_read_all_the_same(
    follower: Follower, upstream: World, system: System, client: ApiClient
) -> None:
    """CloudStack has no event for a host that falls silent: places are read now and then, and what is new written.

    With more events than it is worth to read, everything is, and compared with what is here.
    """
    upstream.change("UPDATE hosts SET state = 'Down' WHERE name = 'b-1-1'")
    assert report_of(follower).changed == {}
    follower._places_due = 0.0
    assert report_of(follower).changed == {"hosts": 1}
    assert {row["name"] for row in said(client, "listHosts").values() if row["state"] == "Down"} >= {"b-1-1"}
    assert "listZones" not in calls_of(follower)
    with system.engine.begin() as connection:
        connection.execute(text("UPDATE hosts SET state = 'Down' WHERE name = 'a-1-1'"))
    follower._places_due = 0.0
    assert report_of(follower).changed == {}  # it says what it said
    upstream.change(
        "INSERT INTO events (uuid, event_type, level, state, description, account_id, created)"
        " SELECT gen_random_uuid(), 'SNAPSHOT.CREATE', 'INFO', 'Completed', 'done', a.id, now()"
        " FROM (SELECT id FROM accounts WHERE name = 'admin' LIMIT 1) a, generate_series(1, :many)",
        many=MOST_EVENTS + 1,
    )
    assert report_of(follower).changed == {"hosts": 1}
    assert calls_of(follower)["listZones"] == 1


def test_one_process_follows_and_finishes_what_it_began(
    follower: Follower, upstream: World, system: System, client: ApiClient
) -> None:
    """What cannot be written is not there at all, and is done again, by whom it may be.

    Another process waits until the first is gone, and begins where that ended; who was overtaken writes nothing.
    """
    vm = deployed_vm(upstream, "new")
    happens(upstream, "VM.CREATE", vm)
    rename(system, "volumes", "lost")
    with pytest.raises(ProgrammingError):
        follower.round()
    rename(system, "lost", "volumes")
    assert vm not in said(client, "listVirtualMachines")
    theirs = client_of(upstream)
    other = Follower(system, theirs, cadence=SELDOM)
    assert other.round() is None
    with system.engine.begin() as connection:
        whole = connection.execute(
            text("UPDATE followed_clouds SET leased_until = now() RETURNING imported")
        ).scalar()
    assert report_of(other).created == {"virtualmachines": 1}
    with system.engine.connect() as connection:
        assert connection.execute(text("SELECT imported FROM followed_clouds")).scalar() == whole
    assert follower.round() is None
    with pytest.raises(Overtaken):
        follower._take_over(Wanted(), None, None, None)
    theirs.close()


def rename(system: System, table: str, name: str) -> None:
    """Give a table of ours another name."""
    with system.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {table} RENAME TO {name}"))


def test_what_our_jobs_did_meanwhile_stays(follower: Follower, upstream: World, system: System) -> None:
    """What is read may be older than what a job of ours did since: that stays, and comes with its own event."""
    vm = deployed_vm(upstream, "ours")
    happens(upstream, "VM.CREATE", vm)
    report_of(follower)
    upstream.change(STOPPED, id=vm)
    reading = read_upstream(system, Upstream(follower._client, wanted=Wanted(vms=frozenset({vm}))))
    with system.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO async_jobs (kind, cmd, account_id, user_id, instance_type, instance_id, instance_uuid,"
                " status, phase, result, completed) SELECT 'start', 'start', v.account_id, v.user_id,"
                " 'VirtualMachine', v.id, v.uuid, 1, 'done', '{}', clock_timestamp() FROM virtual_machines v"
                " WHERE v.uuid = :id"
            ),
            {"id": vm},
        )
    with system.engine.begin() as connection:
        assert write_reading(connection, system, reading).changed == {}
    reading = read_upstream(system, reading.upstream)
    with system.engine.begin() as connection:
        assert write_reading(connection, system, reading).changed == {"virtualmachines": 1}


def test_the_lag_is_that_of_the_cloud_that_is_furthest_behind(follower: Follower, system: System) -> None:
    """Only clouds that are followed have a lag: one whose follower has ended has none."""
    with system.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO followed_clouds (url, leader, seen)"
                " VALUES ('http://behind', gen_random_uuid(), now() - interval '1 h'),"
                " ('http://left', NULL, now() - interval '1 day')"
            )
        )
        age_s = picture_age_s(connection)
        assert age_s is not None
        assert 3600 <= age_s < 24 * 3600
        connection.execute(text("DELETE FROM followed_clouds WHERE url = 'http://behind'"))
    ended = threading.Event()
    ended.set()
    follower.run(ended)
    with system.engine.connect() as connection:
        assert picture_age_s(connection) is None


def test_an_event_of_nothing_that_has_an_id_is_passed_over() -> None:
    """What it names cannot be read; others are."""
    vm = str(uuid4())
    row = {"type": "VM.CREATE", "resourcetype": "VirtualMachine", "created": "2026-01-01T00:00:00+0000"}
    news = news_of([row | {"id": "1", "resourceid": "17"}, row | {"id": "2", "resourceid": vm}])
    assert news.wanted == Wanted(vms=frozenset({vm}))
    assert news.handled.keys() == {"1", "2"}


@contextmanager
def new_vms_conflict(system: System) -> Iterator[None]:
    """Whatever writes a new VM loses its race, as often as it tries."""
    with system.engine.begin() as connection:
        connection.execute(
            text(
                "CREATE SEQUENCE races_lost;"
                "CREATE FUNCTION lose_race() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM nextval('races_lost'); RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$;"
                "CREATE TRIGGER lose_race BEFORE INSERT ON virtual_machines EXECUTE FUNCTION lose_race()"
            )
        )
    try:
        yield
    finally:
        with system.engine.begin() as connection:
            connection.execute(text("DROP FUNCTION lose_race CASCADE; DROP SEQUENCE races_lost"))


def test_what_loses_every_race_is_written_later(
    follower: Follower, upstream: World, system: System, client: ApiClient
) -> None:
    """Following goes on, and the event is handled once nothing stands against it."""

    def gave_up() -> bool:
        with system.engine.connect() as connection:
            lost = connection.execute(text("SELECT last_value FROM races_lost")).scalar_one()
        return int(lost) > MOST_ATTEMPTS

    vm = deployed_vm(upstream, "new")
    happens(upstream, "VM.CREATE", vm)
    ended = threading.Event()
    thread = threading.Thread(target=follower.run, args=(ended,))
    with new_vms_conflict(system):
        thread.start()
        wait_for(lambda: gave_up() or not thread.is_alive())
    wait_for(lambda: vm in said(client, "listVirtualMachines") or not thread.is_alive())
    assert thread.is_alive()
    ended.set()
    thread.join()
