"""Row 17: what a VM costs PostgreSQL: write-ahead log, index entries and commits, to ask for it and to run it.

Counted in the log itself, record by record, so that what the simulated hypervisors write is told apart; images of
whole pages, which depend on when the last checkpoint was, are left out and told apart as well.
"""

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from benchmarks.deploying import deploy_without_sending, workers
from benchmarks.ground import EMPTY, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.embedded.postgres import binaries
from bulkdeploy.wiring.system import build_job_queue

COUNT = 1000
MOST_BYTES = 2500
RECORD = re.compile(r"rmgr: (\w+)\s+len \(rec/tot\):\s+(\d+)/\s*(\d+),.*? desc: (\w+)")
RELATION = re.compile(r"rel \d+/(\d+)/(\d+)")
DATABASE = "SELECT oid::int FROM pg_database WHERE datname = current_database()"
NAMES = "SELECT pg_relation_filenode(oid)::int, relname FROM pg_class WHERE pg_relation_filenode(oid) IS NOT NULL"
UPDATES = "SELECT sum(n_tup_upd)::int, sum(n_tup_hot_upd)::int FROM pg_stat_user_tables"


@dataclass(frozen=True)
class Written:
    """What the product's database wrote, per VM: bytes without images, those of images, index entries, commits."""

    bytes: float
    images: float
    index_entries: float
    commits: float


def run(ground: Ground) -> Iterator[Line]:
    """A bulk call, then its drain, in a zone whose pages have their images since the last checkpoint."""
    with ground.zone(EMPTY) as bench, workers(bench, processes=2, threads=64) as running:
        running.drain(COUNT)
        queue = build_job_queue(running.settings)
        with psycopg.connect(bench.settings.require_database_url(), autocommit=True) as connection:
            began = _position(connection)
            _, messages = deploy_without_sending(bench, COUNT)
            called = _position(connection)
            before = _updates(connection)
            queue.send(messages)
            while connection.execute("SELECT EXISTS (SELECT FROM async_jobs WHERE status = 0)").fetchone() == (
                True,
            ):
                time.sleep(0.2)
            ended = _position(connection)
            updates, on_page = (after - first for after, first in zip(_updates(connection), before, strict=True))
            connection.execute("SELECT pg_switch_wal()")
        asking, working = _read(bench, began, called), _read(bench, called, ended)
        for name, part in (("to ask for it", asking), ("to run it", working)):
            say(f"{name}: images {part.images:.0f} B, commits {part.commits:.3f} per VM")
            yield line(17, f"write-ahead log per VM, {name}", COUNT, [part.bytes], unit="B")
            yield line(17, f"index entries per VM, {name}", COUNT, [part.index_entries], unit="entries")
        whole = asking.bytes + working.bytes
        yield line(17, "write-ahead log per VM, in all", COUNT, [whole], unit="B", at_most=MOST_BYTES)
        yield line(17, "updates that touch no index", updates, [100 * on_page / updates], unit="%")


def _position(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def _updates(connection: psycopg.Connection) -> tuple[int, int]:
    time.sleep(1.5)  # sessions tell of what they did once a second
    row = connection.execute(UPDATES).fetchone()
    assert row is not None
    return row[0], row[1]


def _read(bench: BenchmarkZone, start: str, end: str) -> Written:
    """The log between two positions, of the product's database."""
    with psycopg.connect(bench.settings.require_database_url(), autocommit=True) as connection:
        (database,) = connection.execute(DATABASE).fetchone() or (0,)
        names: dict[int, str] = dict(connection.execute(NAMES).fetchall())
    folder = bench.ground.postgres.data_dir / "pg_wal"
    command = [str(binaries() / "pg_waldump"), "-p", str(folder), "-s", start, "-e", end]
    dump = subprocess.run(command, capture_output=True, text=True, check=True)
    by_relation: Counter[str] = Counter()
    images = entries = commits = 0
    for record in dump.stdout.splitlines():
        found, relation = RECORD.match(record), RELATION.search(record)
        if found is None:
            continue
        manager, alone, whole, kind = found[1], int(found[2]), int(found[3]), found[4]
        commits += manager == "Transaction" and kind == "COMMIT"
        if relation is not None and int(relation[1]) == database:
            images += whole - alone
            entries += manager == "Btree" and kind.startswith("INSERT_LEAF")
            by_relation[names.get(int(relation[2]), "gone")] += alone
    for name, size in by_relation.most_common(8):
        say(f"  {size / COUNT:.0f} B per VM in {name}")
    return Written(*(amount / COUNT for amount in (by_relation.total(), images, entries, commits)))
