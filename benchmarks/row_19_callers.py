"""Row 19: calls of one VM, one after the other and a hundred at once, and bulk calls of ten owners at once.

The baseline of calls at once are calls that share no transaction, made in turns with them: single ones name their
VM's id, bulk ones give a request token.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from uuid import uuid4

from redis import Redis
from sqlalchemy import text

from benchmarks.calling import Client, Load, admin_client, crowd
from benchmarks.cpu import CpuMeter
from benchmarks.deploying import id_of, server_pids
from benchmarks.generation import OFFERING, TEMPLATE
from benchmarks.ground import LARGE, Api, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.queue.job_queue import ALL_QUEUES

ROW = 19
ALONE, TURNS, SECONDS = 40, 3, 5.0
CALLERS, OWNERS, VMS = 100, 10, 20
SINGLE, BULK = "deployVirtualMachine", "bulkDeployVirtualMachine"
Parameters = Mapping[str, object]
"""What a call is asked for."""


def run(ground: Ground) -> Iterator[Line]:
    """One caller, a hundred, then ten owners: anywhere, in clusters by tag, and pinned to one each."""
    with ground.zone(LARGE) as bench:
        api = bench.api()
        callers = _Callers(bench, api, admin_client(bench, api.settings.url))
        for command, parameters in ((SINGLE, callers.vm), (BULK, callers.vm | {"virtualmachinecount": 1})):
            took = callers.one_by_one(command, parameters)
            yield line(ROW, f"{command}, one VM, one caller", 1, took, at_most=15)
        singles = callers.in_turns(SINGLE, [callers.vm], CALLERS, lambda: {"customid": uuid4()})
        yield from _lines(f"{CALLERS} callers of {SINGLE}", CALLERS, singles, at_least=250, p95_at_most=500)
        for name, each in callers.owners().items():
            loads = callers.in_turns(BULK, each, OWNERS, lambda: {"requesttoken": uuid4()})
            yield from _lines(f"{OWNERS} owners' bulk calls of {VMS} VMs, {name}", OWNERS, loads)
        with suppress(Exception):
            Redis.from_url(bench.settings.require_redis_url()).delete(*ALL_QUEUES)


@dataclass(frozen=True)
class _Turn:
    """What a crowd got, and the CPU that a call took, in milliseconds."""

    load: Load
    cpu_ms: float

    @property
    def p95(self) -> float:
        """Milliseconds that 95 of 100 answers did not take longer than."""
        return sorted(self.load.waits)[int(0.95 * (len(self.load.waits) - 1))]


def _lines(
    name: str,
    callers: int,
    turns: tuple[list[_Turn], list[_Turn]],
    at_least: float | None = None,
    p95_at_most: float | None = None,
) -> Iterator[Line]:
    """Calls a second, and how long the slow ones take; each beside calls that share nothing."""
    shared, apart = turns
    for kind, those in (("sharing", shared), ("apart", apart)):
        rates = ", ".join(f"{turn.load.rate:.0f}/s at {turn.cpu_ms:.1f} ms CPU" for turn in those)
        say(f"{name}, {kind}: {rates}")
    yield line(
        ROW,
        name,
        callers,
        [turn.load.rate for turn in shared],
        unit="calls/s",
        baseline=median(turn.load.rate for turn in apart),
        cpu_ms_per_vm=median(turn.cpu_ms for turn in shared),
        at_least=at_least,
    )
    yield line(
        ROW,
        f"{name}: 95 of 100 within",
        callers,
        [turn.p95 for turn in shared],
        baseline=median(turn.p95 for turn in apart),
        at_most=p95_at_most,
    )


class _Callers:
    """Callers of one API."""

    def __init__(self, bench: BenchmarkZone, api: Api, client: Client) -> None:
        self._bench, self._api, self._client = bench, api, client
        self._meter = CpuMeter({"api": [api.process.pid], **server_pids(bench)})
        with bench.engine.connect() as connection:
            self.vm: dict[str, object] = {
                "zoneid": id_of(connection, "zones", "bench-1").uuid,
                "serviceofferingid": id_of(connection, "service_offerings", OFFERING).uuid,
                "templateid": id_of(connection, "templates", TEMPLATE).uuid,
                "networkids": id_of(connection, "networks", "guests").uuid,
            }

    def one_by_one(self, command: str, parameters: Parameters) -> list[float]:
        """Milliseconds of some calls, once all is warm."""
        waits = [self._client.call(command, **parameters).ms for _ in range(ALONE + 10)]
        return waits[10:]

    def in_turns(
        self, command: str, each: list[Parameters], callers: int, apart: Callable[[], Parameters]
    ) -> tuple[list[_Turn], list[_Turn]]:
        """Turns of calls that share transactions, and of calls that share none."""
        turns: tuple[list[_Turn], list[_Turn]] = ([], [])
        for _ in range(TURNS):
            turns[0].append(self._turn(command, itertools.cycle(each), callers))
            turns[1].append(self._turn(command, ({**one, **apart()} for one in itertools.cycle(each)), callers))
        return turns

    def _turn(self, command: str, parameters: Iterator[Parameters], callers: int) -> _Turn:
        targets = (f"/client/api?{self._client.query(command, **one)}" for one in parameters)
        self._meter.start()
        load = crowd(self._api.settings.url, targets, callers, lambda elapsed: elapsed < SECONDS)
        used = self._meter.stop()
        time.sleep(0.5)
        return _Turn(load, 1000 * sum(used.values()) / len(load.waits))

    def owners(self) -> dict[str, list[Parameters]]:
        """Bulk calls, one for each owner: for any cluster, for those with a tag, and pinned to one."""
        with self._bench.engine.begin() as connection:
            domain = id_of(connection, "domains", "generated").uuid
            connection.execute(text(f"UPDATE hosts SET tags = ARRAY['part-' || cluster_id % {OWNERS}]"))  # noqa: S608
            query = "SELECT id FROM clusters ORDER BY id LIMIT :number"
            rows = connection.execute(text(f"SELECT uuid FROM clusters WHERE id IN ({query})"), {"number": OWNERS})  # noqa: S608
            clusters = list(rows.scalars())
        bulk = {**self.vm, "virtualmachinecount": VMS, "domainid": domain}
        everywhere: list[Parameters] = [{**bulk, "account": f"tenant-{number + 1}"} for number in range(OWNERS)]
        by_tag: list[Parameters] = [
            {**one, "serviceofferingid": self._offering(f"part-{number}")} for number, one in enumerate(everywhere)
        ]
        pinned: list[Parameters] = [
            {**one, "clusterid": cluster} for one, cluster in zip(everywhere, clusters, strict=True)
        ]
        return {"anywhere": everywhere, "in clusters by tag": by_tag, "pinned to a cluster each": pinned}

    def _offering(self, tag: str) -> object:
        sizes = {"cpunumber": 1, "cpuspeed": 500, "memory": 512}
        self._client.call("createServiceOffering", name=tag, displaytext=tag, hosttags=tag, **sizes)
        with self._bench.engine.connect() as connection:
            return id_of(connection, "service_offerings", tag).uuid
