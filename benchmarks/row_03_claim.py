"""Row 3: claims in the ledger: many in one atomic step, and clients that race for the last places."""

import time
from collections.abc import Iterator, Sequence
from statistics import median
from threading import Barrier, Thread

import numpy as np
from sqlalchemy import Engine, text

from benchmarks.cpu import CpuMeter
from benchmarks.deploying import server_pids
from benchmarks.ground import EMPTY, LARGE, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.store.database.copying import PerRow, copy_rows
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments.new_vms import random_uuids
from bulkdeploy.store.ledger.ledger import claim_hosts
from bulkdeploy.store.tables.ledger import host_claims

COUNT, REPEATS = 10_000, 7
CLAIMS_ALONE = frozenset({"claims_have_consumers"})
"""What the audit must find where claims are written without the VMs that they are for."""

ACCOUNT = 1
ROUNDS, CLIENTS, PLACES, HOSTS, EACH = 1000, 4, 50, 5, 15
"""Four clients want 15 places each of 50 on 5 hosts: three can have them, the fourth must not."""


def run(ground: Ground) -> Iterator[Line]:
    """Atomic claims in a zone of 25,000 hosts, races in a small one."""
    with ground.zone(LARGE, audited=False) as bench:
        yield from _atomic(bench)
        bench.audit(without=CLAIMS_ALONE)
    with ground.zone(EMPTY, audited=False) as bench:
        yield from _races(bench)
        bench.audit()


def _atomic(bench: BenchmarkZone) -> Iterator[Line]:
    with bench.engine.connect() as connection:
        hosts = np.array(connection.execute(text("SELECT id FROM hosts ORDER BY id")).scalars().all())
    spread = np.random.default_rng(3).choice(hosts, COUNT)
    walls, cpus, raw = [], [], []
    meter = CpuMeter(server_pids(bench))
    for _ in range(REPEATS):
        uuids = random_uuids(COUNT)
        meter.start()
        began, own = time.perf_counter(), time.process_time()
        with bench.engine.begin() as connection:
            claim_hosts(connection, spread, uuids, account_id=ACCOUNT, cpu_mhz=1, memory_mib=1)
        walls.append(1000 * (time.perf_counter() - began))
        cpus.append(1000 * (time.process_time() - own + sum(meter.stop().values())) / COUNT)
        raw.append(_raw_copy(bench.engine, spread.tolist()))
    yield line(
        3,
        f"claim {COUNT} VMs over {len(hosts)} hosts in one step",
        COUNT,
        cpus,
        unit="ms CPU/VM",
        cpu_ms_per_vm=median(cpus),
        at_most=0.05,
    )
    yield line(
        3, "the same by the clock, against a raw COPY of the claims' rows", COUNT, walls, baseline=median(raw)
    )


def _raw_copy(engine: Engine, hosts: Sequence[int]) -> float:
    """Milliseconds of a COPY of as many rows of claims into the same table, and its commit."""
    uuids = random_uuids(len(hosts))
    columns = {
        "consumer": PerRow(uuids),
        "host_id": PerRow(hosts),
        "consumer_kind": 1,
        "account_id": ACCOUNT,
        "cpu_mhz": 1,
        "memory_mib": 1,
    }
    began = time.perf_counter()
    with engine.begin() as connection:
        copy_rows(connection, host_claims, len(hosts), columns)
    took = 1000 * (time.perf_counter() - began)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM host_claims WHERE consumer_kind = 1"))
    return took


def _races(bench: BenchmarkZone) -> Iterator[Line]:
    with bench.engine.begin() as connection:
        hosts = connection.execute(text("SELECT id FROM hosts ORDER BY id LIMIT :n"), {"n": HOSTS}).scalars().all()
        connection.execute(
            text("UPDATE host_capacity SET vms_limit = :places WHERE host_id = ANY(:hosts)"),
            {"places": PLACES // HOSTS, "hosts": hosts},
        )
    wanted = np.repeat(np.array(hosts), EACH // HOSTS)
    times, over = [], 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        granted = _race(bench.engine, wanted)
        times.append(1000 * (time.perf_counter() - began))
        over += _overcommitted(bench.engine, granted)
    say(f"{ROUNDS} rounds of {CLIENTS} clients racing for the last {PLACES} places: {over} overcommitted")
    yield line(
        3,
        f"rounds overcommitted, {CLIENTS} clients for the last {PLACES} places",
        ROUNDS,
        [over],
        unit="rounds",
        at_most=0,
    )
    yield line(3, "one such round", CLIENTS * EACH, times)


def _race(engine: Engine, wanted: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Let all claim at once; how many places were granted."""
    start, granted = Barrier(CLIENTS), []

    def client() -> None:
        uuids = random_uuids(len(wanted))
        with engine.connect() as connection:
            start.wait()
            try:
                claim_hosts(connection, wanted, uuids, account_id=ACCOUNT, cpu_mhz=1, memory_mib=1)
                connection.commit()
                granted.append(len(wanted))
            except TransactionConflict:
                connection.rollback()

    threads = [Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(granted)


def _overcommitted(engine: Engine, granted: int) -> bool:
    """Whether claims and counters disagree or exceed the limit; all are given back for the next round."""
    with engine.begin() as connection:
        claims = connection.execute(text("SELECT count(*) FROM host_claims")).scalar_one()
        used, beyond = connection.execute(
            text("SELECT sum(vms_used), count(*) FILTER (WHERE vms_used > vms_limit) FROM host_capacity")
        ).one()
        connection.execute(text("DELETE FROM host_claims"))
        connection.execute(text("UPDATE account_clusters SET vms = 0"))
        connection.execute(
            text("UPDATE host_capacity SET vms_used = 0, cpu_mhz_used = 0, memory_mib_used = 0 WHERE vms_used > 0")
        )
    return bool(beyond or not claims == used == granted == EACH * (PLACES // EACH))
