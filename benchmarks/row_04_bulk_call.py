"""Row 4: the bulk call over HTTP, from the first byte sent to the last one of the answer.

The baseline of a call is the least that would have to be done for the same outcome: a raw COPY of the very
rows that it wrote into the same tables of a second database, committed once, and a raw pipelined push of the
very messages that it sent.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median

import orjson
import psycopg
from redis import Redis

from benchmarks.calling import Client, admin_client
from benchmarks.cpu import CpuMeter, resident_bytes
from benchmarks.deploying import id_of, server_pids
from benchmarks.generation import OFFERING, TEMPLATE
from benchmarks.ground import LARGE, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.queue.job_queue import ALL_QUEUES

CALLS = {1: 30, 1000: 7, 10_000: 5, 50_000: 2}
MOST_MS = {1: 30.0, 1000: 250.0, 10_000: 1500.0}
MESSAGES_PER_COMMAND = 1000
MIB = 1 << 20

WRITTEN: Mapping[str, str] = {
    "deployments": "SELECT * FROM deployments WHERE uuid = %(uuid)s",
    "virtual_machines": "SELECT v.* FROM virtual_machines v WHERE {mine}",
    "volumes": "SELECT w.* FROM volumes w JOIN virtual_machines v ON v.id = w.vm_id WHERE {mine}",
    "nics": "SELECT n.* FROM nics n JOIN virtual_machines v ON v.id = n.vm_id WHERE {mine}",
    "host_claims": "SELECT h.* FROM host_claims h JOIN virtual_machines v ON v.uuid = h.consumer WHERE {mine}",
    "storage_claims": "SELECT s.* FROM storage_claims s JOIN volumes w ON w.uuid = s.consumer"
    " JOIN virtual_machines v ON v.id = w.vm_id WHERE {mine}",
    "async_jobs": "SELECT j.* FROM async_jobs j WHERE j.deployment_id = (SELECT id FROM deployments"
    " WHERE uuid = %(uuid)s)",
    "events": "SELECT e.* FROM events e JOIN virtual_machines v ON v.uuid = e.resource_uuid"
    " AND v.id = e.resource_id WHERE {mine}",
    "outbox": "SELECT j.id, 'jobs.bulk.0', j.kind, j.created FROM async_jobs j WHERE j.deployment_id ="
    " (SELECT id FROM deployments WHERE uuid = %(uuid)s)",
}
MINE = "v.deployment_id = (SELECT id FROM deployments WHERE uuid = %(uuid)s)"


def run(ground: Ground) -> Iterator[Line]:
    """All sizes, the smallest first, in one zone that fills up."""
    with ground.zone(LARGE) as bench, ground.zone(LARGE, audited=False) as second:
        api = bench.api()
        bulk = _Bulk(bench, admin_client(bench, api.settings.url), api.process.pid, second)
        for _ in range(6):
            bulk.call(1)
        before = resident_bytes(api.process.pid)
        per_vm: dict[int, float] = {}
        for count, repeats in CALLS.items():
            calls = [bulk.call(count) for _ in range(repeats)]
            middle = median(call.ms for call in calls)
            per_vm[count] = middle / count
            raw = median(call.raw_ms for call in calls)
            cpu = median(call.cpu_ms for call in calls) / count
            say(f"N={count}: {middle:.0f} ms; CPU ms per VM {calls[-1].cpu_parts}")
            yield line(
                4,
                f"bulkDeployVirtualMachine over HTTP, N={count}",
                count,
                [call.ms for call in calls],
                baseline=raw,
                cpu_ms_per_vm=cpu,
                at_most=MOST_MS.get(count),
                ratio_at_most=2.0 if count == 10_000 else None,
            )
        growth = per_vm[50_000] / per_vm[1000]
        yield line(4, "time per VM, N=50000 against N=1000", 50_000, [growth], unit="x", at_most=1.2)
        grown = (resident_bytes(api.process.pid, peak=True) - before) / MIB
        yield line(4, "memory of the API processes at N=50000", 50_000, [grown], unit="MiB more", at_most=300)
        _forget_messages(bench)


@dataclass(frozen=True)
class _Call:
    ms: float
    raw_ms: float
    cpu_ms: float
    cpu_parts: str


class _Bulk:
    """Makes bulk calls and does the same work raw in the second database."""

    def __init__(self, bench: BenchmarkZone, client: Client, api_pid: int, second: BenchmarkZone) -> None:
        self._capacity, self._client, self._second = bench, client, second
        self._meter = CpuMeter({"api": [api_pid], **server_pids(bench)})
        self._redis = Redis.from_url(bench.settings.require_redis_url())
        with bench.engine.connect() as connection:
            self._ids = {
                "zoneid": id_of(connection, "zones", "bench-1").uuid,
                "serviceofferingid": id_of(connection, "service_offerings", OFFERING).uuid,
                "templateid": id_of(connection, "templates", TEMPLATE).uuid,
                "networkids": id_of(connection, "networks", "guests").uuid,
            }

    def call(self, count: int) -> _Call:
        """One bulk call, then the same rows and messages raw."""
        self._redis.delete(*ALL_QUEUES)
        self._meter.start()
        answered = self._client.call("bulkDeployVirtualMachine", **self._ids, virtualmachinecount=count)
        used = self._meter.stop()
        jobs = orjson.loads(answered.body)["bulkdeployvirtualmachineresponse"]["asyncjobs"]
        assert len(jobs) == count
        raw = self._raw(jobs[0]["deploymentid"], count)
        parts = ", ".join(f"{name} {1000 * seconds / count:.3f}" for name, seconds in used.items())
        return _Call(answered.ms, raw, 1000 * sum(used.values()), parts)

    def _raw(self, deployment: str, count: int) -> float:
        """Milliseconds to COPY the deployment's rows and push its messages."""
        rows: dict[str, bytes] = {}
        with psycopg.connect(self._capacity.settings.require_database_url()) as connection:
            for table, query in WRITTEN.items():
                rows[table] = _copied_out(connection, query.format(mine=MINE), deployment)
        messages = [message for queue in ALL_QUEUES for message in self._redis.lrange(queue, 0, -1)]
        assert len(messages) == count
        with psycopg.connect(self._second.settings.require_database_url()) as connection:
            began = time.perf_counter()
            for table, data in rows.items():
                with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy:
                    copy.write(data)
            connection.commit()
            with self._redis.pipeline(transaction=False) as pipeline:
                waiting = iter(messages)
                while chunk := list(islice(waiting, MESSAGES_PER_COMMAND)):
                    pipeline.lpush("bench.raw", *chunk)
                pipeline.execute()
            took = 1000 * (time.perf_counter() - began)
        self._redis.delete("bench.raw")
        return took


def _copied_out(connection: psycopg.Connection, query: str, deployment: str) -> bytes:
    """The rows in COPY's binary format."""
    safe = query.replace("%(uuid)s", f"'{deployment}'")
    with connection.cursor().copy(f"COPY ({safe}) TO STDOUT (FORMAT binary)".encode()) as copy:
        return b"".join(bytes(part) for part in copy)


def _forget_messages(bench: BenchmarkZone) -> None:
    with Redis.from_url(bench.settings.require_redis_url()) as redis:
        redis.delete(*ALL_QUEUES)
