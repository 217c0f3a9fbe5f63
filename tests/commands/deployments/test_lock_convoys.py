"""Who waits for a host gives back what others need: no call stands behind one that waits for something else.

Source: the four steps of "Locking improvements" in the design of Ganeti 2.1: A holds one thing, B wants it and all
others, C wants one of these.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.store.locks import MOST_LOCK_TRIES, lock_timeout
from bulkdeploy.store.transaction import Transaction, attach
from bulkdeploy.telemetry import metrics
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.commands.deployments.test_placement_races import wait_for_waiters
from tests.support.api.api_client import Answer, ApiClient
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.zone_queries import Zone


@contextmanager
def hosts_held(engine: Engine) -> Iterator[None]:
    """Operation A: somebody holds the rows of cluster a-1's hosts for as long as the test wants."""
    query = "SELECT FROM host_capacity WHERE host_id IN (SELECT id FROM hosts WHERE name LIKE 'a-1-%') FOR UPDATE"
    with engine.begin() as connection:
        connection.execute(text(query))
        yield


def given_back() -> float:
    """How often a transaction of this process gave everything back."""
    return float(metrics.LOCK_TIMEOUTS._value.get())


@pytest.mark.parametrize("pinned", [False, True], ids=["the whole zone", "the cluster of the host"])
def test_a_call_elsewhere_ends_before_the_host_is_free(
    zone: Zone, client: ApiClient, engine: Engine, pinned: bool
) -> None:
    """A has a host, B waits for it, C is for another cluster: C ends while A still holds, B once A is done."""
    before = given_back()
    everywhere = zone.bulk_parameters(24)
    there = zone.bulk_parameters(6, clusterid=zone.id_of("clusters", "a-1"))
    elsewhere = zone.bulk_parameters(4, clusterid=zone.id_of("clusters", "b-1"))
    with ThreadPoolExecutor(2) as pool:
        with hosts_held(engine):
            waiting = pool.submit(client.post, "bulkDeployVirtualMachine", **(there if pinned else everywhere))
            wait_for_waiters(zone, 1)
            answer: Future[Answer] = pool.submit(client.post, "bulkDeployVirtualMachine", **elsewhere)
            assert answer.result(PATIENCE_S).status == 200
            assert not waiting.done()
            if not pinned:
                assert given_back() > before
        assert waiting.result(PATIENCE_S).status == 200
    assert_intact(engine)


def test_calls_for_different_places_are_planned_side_by_side(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """Plans of two clusters, and of a pod and another pod's cluster, hold no lock in common."""
    with ThreadPoolExecutor(2) as pool, hosts_held(engine):
        pod = zone.id_of("pods", "pod-a")
        held = pool.submit(client.post, "bulkDeployVirtualMachine", **zone.bulk_parameters(12, podid=pod))
        wait_for_waiters(zone, 1)
        other = zone.bulk_parameters(4, clusterid=zone.id_of("clusters", "b-2"))
        assert pool.submit(client.post, "bulkDeployVirtualMachine", **other).result(PATIENCE_S).status == 200
        assert not held.done()


def test_time_outs_double_to_five_seconds_and_then_wait(engine: Engine) -> None:
    """20 ms at first, twice that at each try, never above 5 s, 5 % either way; in the end, as long as it takes."""
    with engine.connect() as connection:
        assert lock_timeout(connection) == "0"
        for tries in range(MOST_LOCK_TRIES):
            most = lock_timeout(attach(connection, Transaction(tries)))
            middle = min(20 * 2**tries, 5000)
            assert 0.95 * middle - 1 <= float(most.removesuffix("ms")) <= 1.05 * middle + 1
        assert lock_timeout(attach(connection, Transaction(MOST_LOCK_TRIES))) == "0"


def test_only_hosts_are_waited_for_again_and_again(zone: Zone, engine: Engine, client: ApiClient) -> None:
    """A deployment that has its host gives its turn back once, and then waits for what everybody counts."""
    before = given_back()
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            connection.execute(text("LOCK TABLE resource_counts IN SHARE MODE"))
            waiting = pool.submit(client.post, "bulkDeployVirtualMachine", **zone.bulk_parameters(2))
            wait_for_waiters(zone, 1)
            seen = "SELECT bool_and(now() - query_start > interval '0.4 s') FROM pg_stat_activity"
            while not zone.scalar(f"{seen} WHERE datname = current_database() AND wait_event_type = 'Lock'"):
                pass
        assert waiting.result(PATIENCE_S).status == 200
    assert given_back() == before + 1
