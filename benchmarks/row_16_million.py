"""Row 16: a million VMs on 100,000 hosts, against 100,000 VMs on 25,000 of the same run. Only by name: ROW=16.

Four times the hosts, ten times the VMs. What a call needs of all hosts may grow with them; what is there already
must not matter to it: at most three times the CPU. What looks at every VM by its nature, as an audit does, is
measured per VM. CPU is that of the program and of the servers together, so that load on the machine shows little.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import orjson
from redis import Redis
from sqlalchemy import text

from benchmarks.calling import Answered, Client, admin_client
from benchmarks.cpu import CpuMeter, resident_bytes
from benchmarks.deploying import id_of, server_pids
from benchmarks.generation import OFFERING, TEMPLATE, Size
from benchmarks.ground import LARGE, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.provisioning.running.sweeping import Sweeper
from bulkdeploy.provisioning.volume_removal import VolumeRemoval
from bulkdeploy.provisioning.watches.filter_updates import FilterUpdates
from bulkdeploy.provisioning.watches.host_watch import HostWatch
from bulkdeploy.provisioning.watches.unmanaged_guests import UnmanagedGuests
from bulkdeploy.queue.job_queue import ALL_QUEUES
from bulkdeploy.wiring.worker import build_worker

ROW = 16
MILLION = Size(zones=1, pods=100, clusters=10_000, hosts=100_000, vms=1_000_000)
COUNT, REPEATS, PAGE = 10_000, 5, 500
AT_MOST = 3.0
MIB = 1 << 20
UPGRADE = (
    "ALTER TABLE virtual_machines ADD COLUMN benchmark text",
    "UPDATE virtual_machines SET benchmark = name",
)
"""What a migration does that gives every VM a value; in one transaction, as migrations are."""


@dataclass(frozen=True)
class Figure:
    """CPU milliseconds of each repeat; ``per`` is how many VMs it looks at by its nature, or 1."""

    cpu_ms: list[float]
    wall_ms: list[float]
    per: int = 1

    @property
    def each(self) -> list[float]:
        """CPU milliseconds for each VM looked at."""
        return [ms / self.per for ms in self.cpu_ms]


def run(ground: Ground) -> Iterator[Line]:
    """Everything at the one size, then at the other."""
    small, large = (_figures(ground, size) for size in (LARGE, MILLION))
    for name, figure in large.items():
        alone = figure.per == 1
        say(f"{name}: {median(small[name].wall_ms):.0f} ms, at a million VMs {median(figure.wall_ms):.0f} ms")
        yield line(
            ROW,
            name if alone else f"{name}, for each VM",
            figure.per,
            figure.each,
            unit="ms CPU",
            baseline=median(small[name].each),
            ratio_at_most=AT_MOST,
        )


def _figures(ground: Ground, size: Size) -> Mapping[str, Figure]:
    with ground.zone(size, audited=False) as bench:
        api = bench.api()
        client = admin_client(bench, api.settings.url)
        meter = CpuMeter({"api": [api.process.pid], **server_pids(bench)})
        calls = _Calls(bench, client)
        timed = partial(_timed, meter)
        found: dict[str, Figure] = {}
        for name, measure in (
            ("dry run of 10,000", partial(timed, partial(calls.bulk, COUNT, dryrun="true"))),
            ("bulk call of 1", partial(timed, partial(calls.bulk, 1), times=5)),
            ("bulk call of 10,000", partial(timed, partial(calls.bulk, COUNT), between=calls.forget_messages)),
            ("poll of a job", partial(timed, calls.poll, times=50)),
            ("page of 500 VMs", partial(timed, partial(calls.page, 20), times=5)),
            ("page of 500 VMs, the last", partial(timed, partial(calls.page, size.vms // PAGE), times=2)),
            ("page of a tenant's 500 VMs", partial(timed, partial(calls.page, 10, **calls.tenant()), times=5)),
            ("round of the sweeper", partial(_timed_here, bench, _passes(bench), repeats=4)),
            (
                "upgrade that writes to every VM",
                partial(_timed_here, bench, [partial(_upgrade, bench)], per=size.vms),
            ),
            (
                "look for guests without rows",
                partial(_timed_here, bench, [_unmanaged(bench).note_unmanaged], per=size.vms),
            ),
            ("audit", partial(_timed_here, bench, [bench.audit], per=size.vms)),
        ):
            figure = found[name] = measure()
            say(f"{size.vms} VMs: {name}: {median(figure.cpu_ms):.1f} ms CPU, {median(figure.wall_ms):.1f} ms")
        say(f"{size.vms} VMs: {resident_bytes(api.process.pid) / MIB:.0f} MiB in the API's processes")
        return found


class _Calls:
    """Calls over HTTP as the admin."""

    def __init__(self, bench: BenchmarkZone, client: Client) -> None:
        self._bench, self._client = bench, client
        self._job = ""
        with bench.engine.connect() as connection:
            self._ids = {
                "zoneid": id_of(connection, "zones", "bench-1").uuid,
                "serviceofferingid": id_of(connection, "service_offerings", OFFERING).uuid,
                "templateid": id_of(connection, "templates", TEMPLATE).uuid,
                "networkids": id_of(connection, "networks", "guests").uuid,
            }

    def bulk(self, count: int, **more: str) -> Answered:
        """Deploy, or plan, so many."""
        answered = self._client.call("bulkDeployVirtualMachine", **self._ids, virtualmachinecount=count, **more)
        if not more:
            jobs = orjson.loads(answered.body)["bulkdeployvirtualmachineresponse"]["asyncjobs"]
            assert len(jobs) == count
            self._job = jobs[0]["jobid"]
        return answered

    def poll(self) -> Answered:
        """Ask for one of the jobs made."""
        return self._client.call("queryAsyncJobResult", jobid=self._job)

    def page(self, page: int, **more: str) -> Answered:
        """List VMs."""
        answered = self._client.call("listVirtualMachines", listall="true", page=page, pagesize=PAGE, **more)
        assert len(orjson.loads(answered.body)["listvirtualmachinesresponse"]["virtualmachine"]) == PAGE
        return answered

    def tenant(self) -> dict[str, str]:
        """One that has a tenth of the VMs."""
        with self._bench.engine.connect() as connection:
            domain = connection.execute(text("SELECT uuid FROM domains WHERE path = 'ROOT/generated'")).scalar_one()
        return {"account": "tenant-1", "domainid": str(domain)}

    def forget_messages(self) -> None:
        """Empty the queues: the row has no worker that would run the jobs."""
        with Redis.from_url(self._bench.settings.require_redis_url()) as redis:
            redis.delete(*ALL_QUEUES)


def _passes(bench: BenchmarkZone) -> list[Callable[[], None]]:
    """The sweeper's, as its process makes them."""
    worker = build_worker(bench.settings)
    bench.programs.callback(worker.close)
    sweeper = Sweeper(worker.engine, worker.job_queue)
    patience_s = bench.settings.driver_timeout_seconds
    watch = HostWatch(worker.engine, worker.drivers, patience_s)
    filters = FilterUpdates(worker.engine, worker.drivers, patience_s)
    volumes = VolumeRemoval(worker.engine, worker.drivers, patience_s)
    return [
        *(sweeper.end_late, sweeper.expunge_destroyed, volumes.destroy_ownerless, sweeper.expire),
        *(sweeper.end_removals, sweeper.requeue_dropped, sweeper.requeue_throttled, sweeper.send_unsent),
        *(volumes.remove_volumes, watch.watch_hosts, watch.look_after_ends, filters.update_filters),
    ]


def _unmanaged(bench: BenchmarkZone) -> UnmanagedGuests:
    """What a sweeper does every ten minutes."""
    worker = build_worker(bench.settings)
    bench.programs.callback(worker.close)
    return UnmanagedGuests(worker.engine, worker.drivers)


def _upgrade(bench: BenchmarkZone) -> None:
    with bench.engine.begin() as connection:
        for statement in UPGRADE:
            connection.execute(text(statement))


def _timed(
    meter: CpuMeter, call: Callable[[], Answered], *, times: int = 1, between: Callable[[], None] | None = None
) -> Figure:
    """A call over HTTP, again and again; two before that do not count, for they warm up."""
    cpu, wall = [], []
    for repeat in range(REPEATS + 2):
        meter.start()
        took = sum(call().ms for _ in range(times)) / times
        used = 1000 * sum(meter.stop().values()) / times
        if between is not None:
            between()
        if repeat > 1:
            cpu.append(used)
            wall.append(took)
    return Figure(cpu, wall)


def _timed_here(
    bench: BenchmarkZone, works: Sequence[Callable[[], None]], *, repeats: int = 1, per: int = 1
) -> Figure:
    """Works one after the other, in this process; of several repeats the first warms up."""
    meter = CpuMeter(server_pids(bench))
    cpu, wall = [], []
    for repeat in range(repeats):
        meter.start()
        began, own = time.perf_counter(), time.process_time()
        for work in works:
            work()
        if repeat or repeats == 1:
            wall.append(1000 * (time.perf_counter() - began))
            cpu.append(1000 * (time.process_time() - own + sum(meter.stop().values())))
    return Figure(cpu, wall, per)
