"""Deploy calls whose transaction is repeated or undone: one effect and one sending, or none at all."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint, Fault
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import TransactionConflict
from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import Bulk, assert_intact
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.zones.zone_queries import Zone

VMS = 3
CONFLICTS = 2
AT_COMMIT = f"{Failpoint.CALL_COMMIT}.before"
AT_SENDING = f"{Failpoint.CALL_PUBLISH}.before"


class Commits:
    """Which commits of calls were begun, the first ``times`` of which end in an error, and what was sent after."""

    def __init__(self, error: Exception, times: int) -> None:
        self._error, self._times = error, times
        self.places: list[str] = []

    def __call__(self, place: str) -> None:
        """A process passes a place."""
        if place in (AT_COMMIT, AT_SENDING):
            self.places.append(place)
            if place == AT_COMMIT and self.places.count(AT_COMMIT) <= self._times:
                raise self._error


def armed(fault: Fault) -> Iterator[Fault]:
    """A fault while a test runs."""
    failpoints.arm(fault)
    yield fault
    failpoints.arm(None)


@pytest.fixture
def conflicts() -> Iterator[Fault]:
    """The transaction of a call loses its first races, each at its commit."""
    yield from armed(Commits(TransactionConflict(), CONFLICTS))


@pytest.fixture
def failures() -> Iterator[Fault]:
    """The handler of a call has done all its work when something breaks."""
    yield from armed(Commits(RuntimeError("a fault"), 1))


def waiting(system: System) -> int:
    """Messages that wait for a worker."""
    return sum(system.job_queue.waiting().values())


def test_a_repeated_deploy_call_deploys_and_sends_once(
    system: System, engine: Engine, zone: Zone, bulk: Bulk, conflicts: Commits
) -> None:
    """Its answer names the VMs of the attempt that was committed."""
    answer = bulk(count=VMS)
    assert conflicts.places == [*[AT_COMMIT] * (CONFLICTS + 1), AT_SENDING]
    vms = {str(row.uuid) for row in zone.rows("SELECT uuid FROM virtual_machines")}
    assert {job["jobinstanceid"] for job in answer["asyncjobs"]} == vms
    assert len(vms) == waiting(system) == VMS
    assert zone.scalar("SELECT count(*) FROM outbox") == 0
    assert_intact(engine)


def test_a_deploy_call_that_fails_leaves_nothing_and_sends_nothing(
    system: System, bulk: Bulk, nothing_written: TableChanges, failures: Commits
) -> None:
    """Not even the outbox knows of it."""
    with pytest.raises(ApiFailure) as failure:
        bulk(count=VMS)
    assert (failure.value.status, failures.places) == (530, [AT_COMMIT])
    assert nothing_written()
    assert waiting(system) == 0


def test_a_repeated_stop_is_one_job(
    system: System, client: ApiClient, zone: Zone, bulk: Bulk, conflicts: Commits
) -> None:
    """A call that makes a job for an existing VM makes it once, and the answer names it."""
    failpoints.arm(None)
    deployed = bulk(count=1)
    failpoints.arm(conflicts)
    answer = client.call("destroyVirtualMachine", id=deployed["asyncjobs"][0]["jobinstanceid"], expunge=True)
    made = zone.rows("SELECT uuid FROM async_jobs WHERE kind <> 'deploy_virtual_machine'")
    assert [str(row.uuid) for row in made] == [answer["jobid"]]
    assert conflicts.places == [*[AT_COMMIT] * (CONFLICTS + 1), AT_SENDING]
    assert waiting(system) == 2


def test_a_repeated_change_is_made_and_recorded_once(zone: Zone, client: ApiClient, conflicts: Commits) -> None:
    """A pod that is given a part of its network keeps the rest, and the event names what was changed."""
    made = {"gateway": "10.7.0.1", "netmask": "255.255.255.0", "startip": "10.7.0.10"}
    failpoints.arm(None)
    pod = client.call("createPod", zoneid=zone.id_of("zones", "small"), name="new", **made)["pod"]
    failpoints.arm(conflicts)
    changed = client.call("updatePod", id=pod["id"], endip="10.7.0.99")["pod"]
    assert (changed["gateway"], changed["startip"], changed["endip"]) == ("10.7.0.1", ["10.7.0.10"], ["10.7.0.99"])
    assert conflicts.places == [AT_COMMIT] * (CONFLICTS + 1)
    assert zone.scalar("SELECT count(*) FROM events WHERE event_type = 'POD.EDIT'") == 1
