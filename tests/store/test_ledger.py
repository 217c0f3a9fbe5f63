"""The ledger: claims never pass a limit, whatever races; used is always the sum of claims."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from bulkdeploy.store.database.engine import TransactionConflict, run_transaction
from bulkdeploy.store.deployments.new_vms import random_uuids
from bulkdeploy.store.ledger.ledger import claim_hosts, claim_pools, release_hosts_of, release_pools_of
from tests.store.hosts import make_hosts, make_pool
from tests.support.runs.properties import examples

ACCOUNT = 7
FUNCTION_SCOPED = (HealthCheck.function_scoped_fixture,)


def claim(connection: Connection, hosts: list[int], consumers: list[UUID] | None = None) -> None:
    """Claim 1000 MHz and 1024 MiB per entry of ``hosts``."""
    who = consumers or [uuid4() for _ in hosts]
    claim_hosts(connection, np.array(hosts, dtype=np.int64), who, account_id=ACCOUNT, cpu_mhz=1000, memory_mib=1024)


def usage(connection: Connection) -> dict[int, tuple[int, int, int, int]]:
    """Per host its counted VMs, MHz, MiB, and its claims."""
    rows = connection.execute(
        text(
            "SELECT host_id, vms_used, cpu_mhz_used, memory_mib_used,"
            " (SELECT count(*) FROM host_claims x WHERE x.host_id = c.host_id) FROM host_capacity c"
        )
    )
    return {row[0]: tuple(row[1:]) for row in rows}


@given(
    calls=st.lists(
        st.one_of(
            st.lists(st.integers(0, 2), min_size=1, max_size=5).map(lambda hosts: ("claim", hosts)),
            st.integers(0, 30).map(lambda which: ("release", which)),
        ),
        max_size=15,
    )
)
@examples(25, suppress=FUNCTION_SCOPED)
def test_any_sequence_of_claims_and_releases_keeps_the_books(
    engine: Engine, calls: list[tuple[str, object]]
) -> None:
    """After any sequence, used = claims = what a plain model says, and a claim fails only where it must."""
    with engine.connect() as connection:
        hosts = make_hosts(connection, 3, vms=4)
        model: dict[UUID, int] = {}
        for kind, what in calls:
            if kind == "claim" and isinstance(what, list):
                wanted = [hosts[position] for position in what]
                fits = all(list(model.values()).count(host) + wanted.count(host) <= 4 for host in wanted)
                consumers = [uuid4() for _ in wanted]
                savepoint = connection.begin_nested()
                try:
                    claim(connection, wanted, consumers)
                except TransactionConflict:
                    assert not fits
                    savepoint.rollback()
                else:
                    assert fits
                    savepoint.commit()
                    model |= dict(zip(consumers, wanted, strict=True))
            elif isinstance(what, int) and what < len(model):
                consumer = list(model)[what]
                release_hosts_of(connection, [consumer])
                del model[consumer]
        held = {host: list(model.values()).count(host) for host in hosts}
        assert usage(connection) == {host: (n, n * 1000, n * 1024, n) for host, n in held.items()}
        counted = connection.execute(text("SELECT coalesce(sum(vms), 0) FROM account_clusters")).scalar_one()
        assert counted == len(model)
        connection.rollback()


@pytest.mark.parametrize("each", [1, 5])
def test_racing_claims_fill_a_host_exactly(engine: Engine, each: int) -> None:
    """Four clients claim one host with 50 places, one by one or five at a time: 50 are given, never 51."""
    with engine.begin() as connection:
        (host,) = make_hosts(connection, 1, vms=50)

    def client(_: int) -> int:
        won = 0
        for _ in range(100 // each):
            with engine.connect() as connection:
                try:
                    claim(connection, [host] * each)
                except TransactionConflict:
                    continue
                connection.commit()
                won += each
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(client, range(4))) == 50
    with engine.connect() as connection:
        assert usage(connection) == {host: (50, 50000, 51200, 50)}


def test_claims_over_the_same_hosts_in_any_order_do_not_deadlock(engine: Engine) -> None:
    """Clients that list the same hosts in different orders all get through (reference: a peer answers 500)."""
    with engine.begin() as connection:
        hosts = make_hosts(connection, 20, vms=100)
    generator = np.random.default_rng(7)
    orders = [generator.permutation(hosts).tolist() for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda order: run_transaction(engine, partial(claim, hosts=order)), orders))
    with engine.connect() as connection:
        assert {vms for vms, *_ in usage(connection).values()} == {40}


def test_a_host_that_is_no_longer_enabled_takes_no_claim(engine: Engine) -> None:
    """Between snapshot and claim a host went into maintenance: the claim finds out."""
    with engine.begin() as connection:
        (host,) = make_hosts(connection, 1, vms=5)
        connection.execute(text("UPDATE hosts SET resource_state = 'PrepareForMaintenance'"))
        with pytest.raises(TransactionConflict):
            claim(connection, [host])


def test_releasing_twice_gives_back_once(engine: Engine) -> None:
    """Release is safe to repeat, alone and together with consumers that never claimed."""
    with engine.begin() as connection:
        (host,) = make_hosts(connection, 1, vms=5)
        consumers = [uuid4(), uuid4()]
        claim(connection, [host, host], consumers)
        for _ in range(2):
            release_hosts_of(connection, [consumers[0], uuid4()])
        assert usage(connection) == {host: (1, 1000, 1024, 1)}


def test_pools_are_claimed_to_their_limit_and_given_back(engine: Engine) -> None:
    """A pool's bytes are claimed up to the limit, refused beyond it, and returned by volume."""
    with engine.begin() as connection:
        make_hosts(connection, 1, vms=1)
        pool = make_pool(connection, 100)
        volumes = [UUID(text_) for text_ in random_uuids(3)]
        claim_pools(connection, {pool: 100}, [pool] * 2, [40, 40], volumes[:2])
        savepoint = connection.begin_nested()
        with pytest.raises(TransactionConflict):
            claim_pools(connection, {pool: 100}, [pool], [30], volumes[2:])
        savepoint.rollback()
        for _ in range(2):
            release_pools_of(connection, volumes[:1])
        assert connection.execute(text("SELECT allocated_bytes FROM storage_pools")).scalar_one() == 40
