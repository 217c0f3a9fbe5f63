"""Row 18: peers and this project in one run, each on the same input: ``make bench-peers``.

A peer that is not there is left out, and said to be. The ratio is what ours takes of what the peer takes.
hail, hbal, hspace: Debian's htools of Ganeti. Celery: its canvas group, sent and nothing else. OpenStack Placement:
``PLACEMENT_PYTHON`` names an interpreter that can import it and psycopg2.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from threading import Barrier, Thread

import numpy as np
from celery import group
from sqlalchemy import text
from sqlalchemy.engine import make_url

from benchmarks import row_14_balance, row_15_capacity
from benchmarks.calling import admin_client
from benchmarks.cpu import CpuMeter
from benchmarks.deploying import id_of, server_pids
from benchmarks.generation import OFFERING, TEMPLATE, Size
from benchmarks.ground import EMPTY, BenchmarkZone, Ground, say, with_database
from benchmarks.report import Line, line
from bulkdeploy.placement.host_loss import HeldVms
from bulkdeploy.placement.remaining_capacity import fill_up
from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.store.database.database import ensure_database
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments.new_vms import random_uuids
from bulkdeploy.store.ledger.ledger import claim_hosts
from tests.iallocator import documents

ROW = 18
HAIL = ("/usr/lib/ganeti/iallocators/hail", "/usr/bin/hail")
NODES, INSTANCES, HOSTS = 20, 100, 20
REPEATS = 3
BATCH, ONE_BY_ONE = 1000, 30
ROUNDS, CLIENTS, PLACES = 4, 4, 50
ZONE = Size(zones=1, pods=10, clusters=100, hosts=2_500, vms=0)


def run(ground: Ground) -> Iterator[Line]:
    """Planning, then bulk calls, then claims."""
    yield from _hail()
    yield from _hbal()
    yield from _hspace()
    with ground.zone(ZONE, audited=False) as bench:
        yield from _calls(bench)
    with ground.zone(EMPTY, audited=False) as bench:
        yield from _claims(bench)


def _hail() -> Iterator[Line]:
    found = next((path for path in HAIL if Path(path).exists()), None)
    if found is None:
        say("no hail")
        return
    document = documents.multi_allocate(documents.cluster(NODES), documents.wanted(INSTANCES, "drbd"))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        ours = [_cpu_of([Path(sys.executable).parent / "bulkdeploy-iallocator", file.name]) for _ in range(REPEATS)]
        theirs = _cpu_of([found, file.name])
    name = f"{INSTANCES} instances (drbd) on {NODES} nodes, program and start; hail"
    yield line(ROW, name, INSTANCES, ours, unit="s CPU", baseline=theirs)


def _hbal() -> Iterator[Line]:
    if not shutil.which("hbal"):
        say("no hbal")
        return
    where, sizes = row_14_balance.cluster(HOSTS, 6 * HOSTS)
    ours = [_cpu_here(lambda: row_14_balance.plan(HOSTS, where, sizes)) for _ in range(REPEATS)]
    theirs, end = row_14_balance.hbal(HOSTS, where, sizes)
    yield line(ROW, f"balance {HOSTS} hosts, {6 * HOSTS} VMs; hbal", 6 * HOSTS, ours, unit="s CPU", baseline=theirs)
    moved = row_14_balance.after(row_14_balance.plan(HOSTS, where, sizes), where)
    score = row_14_balance.formula(HOSTS, moved, sizes)
    yield line(ROW, "the end by hbal's formula; hbal's", 6 * HOSTS, [score], unit="", baseline=end)


def _hspace() -> Iterator[Line]:
    if not shutil.which("hspace"):
        say("no hspace")
        return
    zone, standard = row_15_capacity.cluster(HOSTS), row_15_capacity.STANDARD
    nobody = np.zeros(0, dtype=np.int64)
    simulated = f"preferred,{HOSTS},4T,{row_15_capacity.MEMORY},{row_15_capacity.CORES}"
    wanted = f"40g,{standard.memory_mib},{standard.cpu_number}"
    command = ["hspace", f"--simulate={simulated}", f"--standard-alloc={wanted}", "--disk-template=ext"]
    for name, held, option in (
        ("", None, ["--no-capacity-checks"]),
        (", any one of which may be lost", HeldVms((), nobody, nobody, nobody), []),
    ):
        ours = [_cpu_here(partial(fill_up, zone, standard, placement_catalog(), held=held)) for _ in range(REPEATS)]
        theirs = _cpu_of([*command, *option])
        what = f"capacity of {HOSTS} empty hosts{name}; hspace"
        yield line(ROW, what, HOSTS, ours, unit="s CPU", baseline=theirs)


def _calls(bench: BenchmarkZone) -> Iterator[Line]:
    """Bulk calls against a loop of single ones, and against a group of as many Celery tasks."""
    api = bench.api()
    client = admin_client(bench, api.settings.url)
    with bench.engine.connect() as connection:
        ids = {
            "zoneid": id_of(connection, "zones", "bench-1").uuid,
            "serviceofferingid": id_of(connection, "service_offerings", OFFERING).uuid,
            "templateid": id_of(connection, "templates", TEMPLATE).uuid,
            "networkids": id_of(connection, "networks", "guests").uuid,
        }

    def bulk(count: int) -> float:
        return client.call("bulkDeployVirtualMachine", **ids, virtualmachinecount=count).ms

    def loop(count: int) -> float:
        return sum(client.call("deployVirtualMachine", **ids).ms for _ in range(count))

    bulk(10), loop(10)
    many, one_by_one = [], []
    for _ in range(REPEATS):
        many.append(bulk(ONE_BY_ONE))
        one_by_one.append(loop(ONE_BY_ONE))
    name = f"one bulk call for {ONE_BY_ONE} VMs; as many deployVirtualMachine one after the other"
    yield line(ROW, name, ONE_BY_ONE, many, baseline=median(one_by_one))
    app = make_celery(bench.settings.require_redis_url)
    nothing = app.task(name="bench.nothing", ignore_result=True)(_nothing)

    def canvas() -> float:
        began = time.perf_counter()
        group(nothing.s(number) for number in range(BATCH)).apply_async()
        return 1000 * (time.perf_counter() - began)

    canvas(), bulk(BATCH)
    sent, answered = [], []
    for _ in range(REPEATS):
        sent.append(canvas())
        answered.append(bulk(BATCH))
    name = f"one bulk call for {BATCH} VMs, planned, claimed and kept; a Celery group of as many tasks, sent"
    yield line(ROW, name, BATCH, answered, baseline=median(sent))


def _nothing(number: int) -> None:
    del number


def _claims(bench: BenchmarkZone) -> Iterator[Line]:
    """The last places of a host, by clients that claim one at a time until there is none."""
    meter = CpuMeter(server_pids(bench))
    meter.start()
    seconds, cpu, over = _our_claims(bench)
    each = 1000 * (cpu + sum(meter.stop().values())) / (ROUNDS * PLACES)
    rate = ROUNDS * PLACES / seconds
    their_rate = their_cpu = their_over = None
    python = os.environ.get("PLACEMENT_PYTHON")
    if python is None:
        say("no OpenStack Placement: PLACEMENT_PYTHON names no interpreter that has it")
    else:
        url = with_database(bench.settings.require_database_url(), "placement")
        ensure_database(bench.settings.require_database_url(), "placement")
        driver = make_url(url).set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
        meter.start()
        program = Path(__file__).with_name("placement_claims.py")
        done = subprocess.run(
            [python, "-P", program, driver, *map(str, (ROUNDS, CLIENTS, PLACES))],
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        database = sum(meter.stop().values())
        their_rate = found["claims"] / found["seconds"]
        their_cpu = 1000 * (found["cpu_seconds"] + database) / found["claims"]
        their_over = found["overcommitted"]
    what = f"{CLIENTS} clients for the last {PLACES} places, one at a time"
    yield line(ROW, f"claims, {what}; Placement", PLACES, [rate], unit="claims/s", baseline=their_rate)
    yield line(ROW, f"CPU of a claim with the database, {what}; Placement", PLACES, [each], baseline=their_cpu)
    yield line(
        ROW, "rounds overcommitted; Placement", ROUNDS, [over], unit="rounds", baseline=their_over, at_most=0
    )


def _our_claims(bench: BenchmarkZone) -> tuple[float, float, int]:
    """Seconds by the clock and of CPU, and rounds in which more was granted than there was."""
    with bench.engine.connect() as connection:
        host = connection.execute(text("SELECT min(id) FROM hosts")).scalar_one()
    seconds = cpu = 0.0
    over = 0
    for _ in range(ROUNDS):
        with bench.engine.begin() as connection:
            connection.execute(
                text("UPDATE host_capacity SET vms_limit = vms_used + :more WHERE host_id = :host"),
                {"more": PLACES, "host": host},
            )
        start, granted = Barrier(CLIENTS + 1), list[int]()
        threads = [Thread(target=_claim_until_full, args=(bench, host, start, granted)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        began, own = time.perf_counter(), time.process_time()
        start.wait()
        for thread in threads:
            thread.join()
        seconds, cpu = seconds + time.perf_counter() - began, cpu + time.process_time() - own
        over += sum(granted) > PLACES
    return seconds, cpu, over


def _claim_until_full(bench: BenchmarkZone, host: int, start: Barrier, granted: list[int]) -> None:
    start.wait()
    while True:
        try:
            with bench.engine.begin() as connection:
                claim_hosts(connection, np.array([host]), random_uuids(1), account_id=1, cpu_mhz=1, memory_mib=1)
        except TransactionConflict:
            return
        granted.append(1)


def _cpu_here(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _cpu_of(command: Sequence[str | Path]) -> float:
    """CPU seconds of a program from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
