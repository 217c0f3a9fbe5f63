"""Deploy calls that come at the same moment are done in one transaction, each answered as if it were alone."""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from errno import ENOSPC
from typing import Any
from uuid import uuid4

import orjson
import pytest
from sqlalchemy import Engine, text

from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.api.wire import WireAnswer, WireRequest
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.errors import DatabaseUnreachable
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.services.system import System
from bulkdeploy.telemetry import metrics
from bulkdeploy.telemetry.request_id import working_for
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.commands.deployments.test_placement_races import single
from tests.support.api.api_client import ApiClient
from tests.support.runs.statements import statements_of
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.zone_queries import Zone

SINGLE, BULK = "deployVirtualMachine", "bulkDeployVirtualMachine"
AT_COMMIT, COMMITTED = f"{Failpoint.CALL_COMMIT}.before", f"{Failpoint.CALL_COMMIT}.after"
Parameters = Mapping[str, object]


class Api:
    """An API process, and the commits of its calls."""

    def __init__(self, system: System, client: ApiClient) -> None:
        self._dispatcher, self._client = Dispatcher(system, find_commands()), client
        self._pool = ThreadPoolExecutor(16)
        self.commits = 0
        self.fault: Callable[[str], None] = lambda _: None

    def passes(self, place: str) -> None:
        """A call passes a failpoint."""
        self.commits += place == AT_COMMIT
        self.fault(place)

    def begin(self, command: str, parameters: Parameters) -> Future[WireAnswer]:
        """A call, answered in a thread of its own."""
        request = WireRequest(self._client.signed(command, **parameters))

        def answer() -> WireAnswer:
            with working_for(str(uuid4())):
                return self._dispatcher.answer(request)

        return self._pool.submit(answer)

    def call(self, command: str, parameters: Parameters) -> tuple[int, Any]:
        """The status and what is in the answer."""
        return read(self.begin(command, parameters))

    def together(
        self,
        command: str,
        first: Parameters,
        others: Sequence[Parameters],
        fault: Callable[[str], None] | None = None,
    ) -> list[tuple[int, Any]]:
        """What these calls answer: all others come while the first is being committed; ``fault`` sees them then."""
        reached, go_on = threading.Event(), threading.Event()

        def hold(place: str) -> None:
            if place == AT_COMMIT and not reached.is_set():
                reached.set()
                assert go_on.wait(PATIENCE_S)
                self.fault = fault or (lambda _: None)

        self.fault = hold
        begun = [self.begin(command, first)]
        assert reached.wait(PATIENCE_S)
        begun += [self.begin(command, each) for each in others]
        while self._dispatcher._shared.waiting() < len(others):
            assert [read(each) for each in begun if each.done()] == []
        go_on.set()
        return [read(each) for each in begun]


def read(answer: Future[WireAnswer]) -> tuple[int, Any]:
    """The status, and what is under the one key."""
    found = answer.result(PATIENCE_S)
    (content,) = orjson.loads(found.body).values()
    return found.status, content


@pytest.fixture
def api(system: System, client: ApiClient) -> Iterator[Api]:
    """An API process whose commits are counted."""
    made = Api(system, client)
    failpoints.arm(made.passes)
    yield made
    failpoints.arm(None)


def vm_count(zone: Zone) -> int:
    """VMs that there are."""
    return int(zone.scalar("SELECT count(*) FROM virtual_machines"))


@pytest.mark.parametrize("command", [SINGLE, BULK])
def test_calls_that_wait_are_committed_together(
    api: Api, system: System, zone: Zone, engine: Engine, command: str
) -> None:
    """Six calls wait for a seventh: two commits, as many statements as of two, and each call has its own job."""
    requested = single(zone) if command == SINGLE else zone.bulk_parameters(1)
    with statements_of(system.engine) as alone:
        assert api.call(command, requested)[0] == 200
    api.commits = 0
    with statements_of(system.engine) as seen:
        answers = api.together(command, requested, [requested] * 6)
    assert [status for status, _ in answers] == [200] * 7
    assert api.commits == 2
    assert len(seen) <= 2 * len(alone) + 7, (
        len(seen),
        len(alone),
        seen,
    )  # the checks of limits are each call's own
    jobs = [content["asyncjobs"][0] if command == BULK else content for _, content in answers]
    assert len({job["jobid"] for job in jobs}) == 7
    assert vm_count(zone) == sum(system.job_queue.waiting().values()) == 8
    assert zone.scalar("SELECT count(*) FROM outbox") == 0
    assert zone.scalar("SELECT count(DISTINCT request_id) FROM async_jobs") == 8
    assert_intact(engine)


def test_several_owners_are_dispersed_each_by_its_own_count(api: Api, zone: Zone, engine: Engine) -> None:
    """Bulk calls of two owners that wait together: the VMs of each differ by one at most between clusters."""
    other = {"account": "customers-admin", "domainid": zone.id_of("domains", "customers")}
    calls = [zone.bulk_parameters(7), zone.bulk_parameters(5, **other), zone.bulk_parameters(6)]
    answers = api.together(BULK, zone.bulk_parameters(1), calls)
    assert [status for status, _ in answers] == [200] * 4
    assert api.commits == 2
    query = (
        "SELECT d.account_id, c.id, count(v.id) AS vms FROM clusters c CROSS JOIN (SELECT DISTINCT account_id"
        " FROM virtual_machines) d LEFT JOIN virtual_machines v ON v.cluster_id = c.id"
        " AND v.account_id = d.account_id WHERE c.removed IS NULL GROUP BY 1, 2"
    )
    by_owner: dict[int, list[int]] = {}
    for row in zone.rows(query):
        by_owner.setdefault(row.account_id, []).append(row.vms)
    assert sorted(sum(vms) for vms in by_owner.values()) == [5, 14]
    assert all(max(vms) - min(vms) <= 1 for vms in by_owner.values())

    assert_intact(engine)


def _calls(zone: Zone, chance: random.Random) -> list[tuple[bool, Parameters]]:
    """Calls that can be done, and calls that are to be refused, mixed."""
    name = f"vm-{chance.randrange(10**6)}"
    good: list[Parameters] = [
        single(zone),
        single(zone, name=name),
        single(zone, startvm="false"),
        single(zone, account="customers-admin", domainid=zone.id_of("domains", "customers")),
    ]
    bad: list[Parameters] = [
        single(zone, name="first"),  # taken
        single(zone, keypair="nobody-s"),
        single(zone, securitygroupnames="default"),  # the zone has none
        single(zone, account="limited", domainid=zone.id_of("domains", "acme")),
    ]
    mixed = [(True, each) for each in good] + [(False, each) for each in bad]
    chance.shuffle(mixed)
    return mixed


@pytest.mark.parametrize("seed", range(2))
def test_refused_calls_change_nothing_for_the_others(
    api: Api, client: ApiClient, zone: Zone, engine: Engine, seed: int
) -> None:
    """Good and bad calls that wait together: the good are done, the bad get the error that they get alone."""
    of_domain = {"domainid": zone.id_of("domains", "acme")}
    person = {"firstname": "l", "lastname": "l", "email": "l@example.org", "password": "limited"}
    client.post("createAccount", username="limited", account="limited", accounttype=0, **of_domain, **person)
    client.post("updateResourceLimit", resourcetype=0, max=0, account="limited", **of_domain)
    calls = _calls(zone, random.Random(seed))  # noqa: S311 - no secret
    answers = api.together(SINGLE, single(zone, name="first"), [each for _, each in calls])[1:]
    good = [(status, answer) for (is_good, _), (status, answer) in zip(calls, answers, strict=True) if is_good]
    assert [status for status, _ in good] == [200] * len(good)
    assert vm_count(zone) == len(good) + 1
    for (is_good, requested), answered in zip(calls, answers, strict=True):
        if not is_good:
            assert answered == api.call(SINGLE, requested)
            assert answered[0] != 200
    assert vm_count(zone) == len(good) + 1
    assert_intact(engine)


def test_two_calls_for_one_name_are_answered_as_if_one_came_first(api: Api, zone: Zone, engine: Engine) -> None:
    """The name is the first one's; the other is told so, and a third call is not in their way."""
    named, other = single(zone, name="one"), single(zone)
    answers = api.together(SINGLE, other, [named, other, named, other])
    assert sorted(status for status, _ in answers) == [200, 200, 200, 200, 431]
    assert api.commits == 2
    assert vm_count(zone) == 4
    assert_intact(engine)


def test_what_does_not_fit_beside_the_others_is_refused_and_they_are_done(
    api: Api, zone: Zone, engine: Engine
) -> None:
    """A call for more VMs than there is room for waits among calls that fit."""
    zone.change("UPDATE host_capacity SET vms_limit = vms_used + 3")
    answers = api.together(BULK, zone.bulk_parameters(1), [zone.bulk_parameters(count) for count in (2, 500, 3)])
    assert [status for status, _ in answers] == [200, 200, 533, 200]
    assert vm_count(zone) == 6
    assert_intact(engine)


@pytest.mark.parametrize("place", [AT_COMMIT, COMMITTED])
def test_who_dies_between_the_plan_and_the_answer_is_done_once_or_not_at_all(
    api: Api, zone: Zone, engine: Engine, place: str
) -> None:
    """A fault before the commit leaves no VM; one after it leaves each VM once, and no call is told otherwise."""

    def die(passed: str) -> None:
        if passed == place:
            raise DatabaseUnreachable

    answers = api.together(BULK, zone.bulk_parameters(1), [zone.bulk_parameters(2)] * 3, die)
    assert [status for status, _ in answers[1:]] == [503] * 3
    assert vm_count(zone) == (1 if place == AT_COMMIT else 7)
    assert_intact(engine)


@pytest.mark.parametrize("held", ["affinity_groups", "ip_ranges", "storage_pools", "resource_counts"])
def test_who_waits_for_another_session_holds_up_nobody(
    api: Api, client: ApiClient, zone: Zone, engine: Engine, held: str
) -> None:
    """A call that needs rows which another session has locked gives its turn back, and waits by itself."""
    client.post("createAffinityGroup", name="apart", type="host anti-affinity")
    given_back = metrics.LOCK_TIMEOUTS._value.get
    with engine.begin() as holder:
        before = given_back()
        holder.execute(text(f"SELECT FROM {held} FOR UPDATE"))
        holder.execute(text(f"LOCK TABLE {held} IN SHARE MODE"))
        waiting = api.begin(SINGLE, single(zone, affinitygroupnames="apart"))
        while given_back() == before:
            assert not waiting.done()
        if held == "affinity_groups":
            assert api.call(SINGLE, single(zone))[0] == 200
        assert not waiting.done()
    assert read(waiting)[0] == 200
    assert_intact(engine)


def test_what_fails_after_the_commit_repeats_nothing(
    api: Api, zone: Zone, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction cannot be counted once it is committed: each call is done once, and only one is told."""

    def refuse(_: float) -> None:
        raise OSError(ENOSPC, "the directory of metrics is full")

    def fill(place: str) -> None:
        if place == AT_COMMIT:
            monkeypatch.setattr(metrics.SHARED_TRANSACTIONS, "observe", refuse)

    answers = api.together(BULK, zone.bulk_parameters(1), [zone.bulk_parameters(2)] * 3, fill)
    assert sorted(status for status, _ in answers) == [200, 200, 200, 530]
    assert vm_count(zone) == 7
    assert_intact(engine)
