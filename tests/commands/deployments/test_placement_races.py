"""What a plan was allowed to use holds until its claim is committed, whoever else is at work meanwhile."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.support.api.api_client import Answer, ApiClient
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.zone_queries import Zone

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
ONE_PLACE = (
    "UPDATE clusters SET allocation_state = 'Disabled' WHERE name <> 'a-1'",
    (
        "UPDATE host_capacity SET cpu_mhz_limit = 10 * o.cpu_number * o.cpu_mhz FROM service_offerings o"
        " WHERE o.name = 'Small'"
    ),
    (
        "INSERT INTO configuration_values VALUES"
        " ('Global', 0, 'cluster.cpu.allocated.capacity.disablethreshold', '0.034')"
    ),
)
"""Cluster a-1 holds 30 VMs on three hosts, and its threshold lets in one of them."""


@contextmanager
def claims_held_up(engine: Engine) -> Iterator[None]:
    """Nobody claims a host meanwhile: whoever wants to has planned, and waits."""
    with engine.begin() as connection:
        connection.execute(text("SELECT FROM host_capacity FOR UPDATE"))
        yield


@contextmanager
def commits_held_up(engine: Engine) -> Iterator[None]:
    """Nobody counts what owners use meanwhile: whoever deploys has claimed its hosts, and waits."""
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE resource_counts IN SHARE MODE"))
        yield


def wait_for_waiters(zone: Zone, number: int) -> None:
    """Wait until at least ``number`` transactions are blocked on a lock."""
    wait_for(lambda: int(zone.scalar(WAITING)) >= number, f"{number} transactions wait for locks", pause_s=0.02)


def wait_for_lasting_waiters(zone: Zone, number: int) -> None:
    """Wait until at least ``number`` transactions are blocked on a lock that they do not give up waiting for.

    A deployment waits for a lock only briefly (``MOST_WAIT``) while other calls could share its transaction. Then
    it gives everything back and begins anew by itself, and may be overtaken in between.
    """
    lasting = f"{WAITING} AND now() - query_start > interval '1 s'"
    wait_for(lambda: int(zone.scalar(lasting)) >= number, f"{number} transactions wait for locks", pause_s=0.02)


def single(zone: Zone, **more: object) -> dict[str, object]:
    """The parameters of a single deployment for acme."""
    requested = zone.bulk_parameters(1, **more)
    return {name: value for name, value in requested.items() if name != "virtualmachinecount"}


def statuses(answers: Sequence[Future[Answer]]) -> list[int]:
    """The HTTP statuses of all answers, ascending."""
    return sorted(answer.result(PATIENCE_S).status for answer in answers)


def test_racing_deployments_do_not_pass_a_threshold(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """Six single deployments that all saw the last place below the threshold: one gets it, the others 533."""
    for statement in ONE_PLACE:
        zone.change(statement)
    with ThreadPoolExecutor(6) as pool:
        with claims_held_up(engine):
            answers = [pool.submit(client.post, "deployVirtualMachine", **single(zone)) for _ in range(6)]
            wait_for_waiters(zone, 6)
        assert statuses(answers) == [200, 533, 533, 533, 533, 533]
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 1
    assert_intact(engine)


def test_bulk_and_single_deployments_share_a_threshold(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """A bulk call for the last five places and singles that race with it: five VMs, however they meet."""
    for statement in ONE_PLACE:
        zone.change(statement)
    zone.change("UPDATE configuration_values SET value = '0.167' WHERE name LIKE 'cluster.cpu%'")
    with ThreadPoolExecutor(4) as pool:
        with claims_held_up(engine):
            bulk = zone.bulk_parameters(5, minimumcount=1)
            answers = [pool.submit(client.post, "bulkDeployVirtualMachine", **bulk)]
            answers += [pool.submit(client.post, "deployVirtualMachine", **single(zone)) for _ in range(3)]
            wait_for_waiters(zone, 4)
        assert {answer.result(PATIENCE_S).status for answer in answers} <= {200, 533}
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 5
    assert_intact(engine)


@pytest.mark.parametrize("place", ["zone", "pod", "cluster"])
def test_a_place_is_disabled_after_what_was_planned_for_it(
    zone: Zone, client: ApiClient, engine: Engine, place: str
) -> None:
    """Disabling waits for deployments under way; once it is answered no VM comes any more."""
    name = {"zone": "small", "pod": "pod-a", "cluster": "a-1"}[place]
    place_id = zone.id_of(f"{place}s", name)
    pin = {} if place == "zone" else {f"{place}id": place_id}
    with ThreadPoolExecutor(2) as pool:
        with commits_held_up(engine):
            deployed = pool.submit(client.post, "deployVirtualMachine", **single(zone, **pin))
            wait_for_lasting_waiters(zone, 1)
            command = f"update{place.capitalize()}"
            disabled = pool.submit(client.post, command, id=place_id, allocationstate="Disabled")
            wait_for_lasting_waiters(zone, 2)
        assert (deployed.result(PATIENCE_S).status, disabled.result(PATIENCE_S).status) == (200, 200)
    if place != "zone":  # a root admin's own deployments are let into disabled zones
        assert client.post("deployVirtualMachine", **single(zone, **pin)).status == 533
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 1


@pytest.mark.parametrize("noun", ["Zone", "Pod", "Cluster", "Host"])
def test_what_is_about_to_be_used_is_not_dedicated_to_others(
    zone: Zone, client: ApiClient, engine: Engine, noun: str
) -> None:
    """A deployment under way counts: its place is not given to another account at the same moment."""
    name = {"Zone": "small", "Pod": "pod-a", "Cluster": "a-1", "Host": "a-1-1"}[noun]
    place = {f"{noun.lower()}id": zone.id_of(f"{noun.lower()}s", name)}
    pin = {"hostid": zone.id_of("hosts", "a-1-1")}
    with ThreadPoolExecutor(2) as pool:
        with commits_held_up(engine):
            deployed = pool.submit(client.post, "deployVirtualMachine", **single(zone, **pin))
            wait_for_lasting_waiters(zone, 1)
            given = {"domainid": zone.id_of("domains", "customers"), "account": "customers-admin"}
            dedicated = pool.submit(client.post, f"dedicate{noun}", **place, **given)
            wait_for_lasting_waiters(zone, 2)
        assert (deployed.result(PATIENCE_S).status, dedicated.result(PATIENCE_S).status) == (200, 536)
    assert zone.scalar("SELECT count(*) FROM dedicated_resources WHERE account_id IS NOT NULL") == 0


def test_who_waits_to_disable_is_not_overtaken(zone: Zone, client: ApiClient, engine: Engine) -> None:
    """Deployments that begin while an operator waits to disable their cluster go by what he says."""
    cluster = zone.id_of("clusters", "a-1")
    with ThreadPoolExecutor(5) as pool:
        with commits_held_up(engine):
            first = pool.submit(client.post, "deployVirtualMachine", **single(zone, clusterid=cluster))
            wait_for_lasting_waiters(zone, 1)
            disabled = pool.submit(client.post, "updateCluster", id=cluster, allocationstate="Disabled")
            wait_for_lasting_waiters(zone, 2)
            hosts = [zone.id_of("hosts", f"a-1-{number}") for number in (1, 2, 3)]
            later = [
                pool.submit(client.post, "deployVirtualMachine", **single(zone, hostid=host)) for host in hosts
            ]
            wait_for_lasting_waiters(zone, 5)
        assert (first.result(PATIENCE_S).status, disabled.result(PATIENCE_S).status) == (200, 200)
        assert statuses(later) == [533, 533, 533]
    assert_intact(engine)
