"""Row 23: the whole life of a fleet by seven calls over HTTP, with an audit after each of them."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import text

from benchmarks.calling import admin_client
from benchmarks.cpu import CpuMeter
from benchmarks.deploying import POLL_S, id_of, server_pids, workers
from benchmarks.generation import OFFERING, TEMPLATE
from benchmarks.ground import EMPTY, BenchmarkZone, Ground, say
from benchmarks.report import Line, line

ROW = 23
COUNT = int(os.environ.get("VMS", "1000"))
STAYING = COUNT * 6 // 10
"""The VMs that the deployment is scaled in to."""

PROCESSES = 2
DEADLINE_S = 900.0
LARGER: Mapping[str, object] = {"cpunumber": 2, "cpuspeed": 1000, "memory": 2048}
DONE = text(
    "SELECT (SELECT count(*) FROM virtual_machines v JOIN deployments d ON d.id = v.deployment_id"
    "   WHERE v.state = :state AND d.uuid = CAST(:deployment AS uuid)) = :left"
    " AND NOT EXISTS (SELECT FROM async_jobs WHERE status = 0)"
    " AND NOT EXISTS (SELECT FROM replacements WHERE completed IS NULL)"
)
"""The condition that no job and no replacement is open, and that ``left`` VMs are in a state."""


@dataclass(frozen=True)
class _Step:
    """A call of the seven, and the condition that ends it.

    Attributes:
        name: what the call does, in words.
        command: its command.
        parameters: its parameters; None stands for the deployment.
        state, left: when it is done, so many VMs are in this state.
        count: the VMs that the call works on.
    """

    name: str
    command: str
    parameters: Mapping[str, object]
    state: str
    left: int = COUNT
    count: int = COUNT


@dataclass
class _Fleet:
    """A managed deployment, and the URL of the API that operates it."""

    bench: BenchmarkZone
    url: str
    meter: CpuMeter
    deployment: str = field(default="")

    def take(self, step: _Step) -> Iterator[Line]:
        """Make a call, wait until what it asks for is there, and check every invariant."""
        parameters = {name: self.deployment if value is None else value for name, value in step.parameters.items()}
        self.meter.start()
        began = time.perf_counter()
        # A step may outlast the time for which the API keeps an idle connection.
        answer = admin_client(self.bench, self.url).call(step.command, **parameters)
        if not self.deployment:
            (body,) = json.loads(answer.body).values()
            self.deployment = body["asyncjobs"][0]["deploymentid"]
        seconds = self._wait(step) - began
        cpu = {part: 1000 * used / step.count for part, used in sorted(self.meter.stop().items())}
        say(f"{step.name}: CPU ms per VM: {', '.join(f'{part} {ms:.3f}' for part, ms in cpu.items())}")
        self.bench.audit()
        yield line(ROW, f"{step.name}: the call", step.count, [answer.ms])
        total = sum(cpu.values())
        yield line(ROW, f"{step.name}: until done", step.count, [seconds], unit="s", cpu_ms_per_vm=total)

    def _wait(self, step: _Step) -> float:
        """Return the time at which the call was seen to be done."""
        wanted = {"deployment": self.deployment, "state": step.state, "left": step.left}
        deadline = time.perf_counter() + DEADLINE_S
        with self.bench.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not connection.execute(DONE, wanted).scalar_one():
                assert time.perf_counter() < deadline, f"{step.name} does not end"
                time.sleep(POLL_S)
        return time.perf_counter()


def run(ground: Ground) -> Iterator[Line]:
    """Deploy a managed fleet, stop, scale, start, reimage and shrink it, and destroy what is left."""
    with (
        ground.zone(EMPTY) as bench,
        workers(bench, processes=PROCESSES, threads=bench.settings.worker_threads) as running,
    ):
        api = bench.api()
        admin_client(bench, api.settings.url).call(
            "createServiceOffering", name="larger", displaytext="larger", **LARGER
        )
        meter = CpuMeter({**running.groups, "api": [api.process.pid], **server_pids(bench)})
        fleet = _Fleet(bench, api.settings.url, meter)
        for step in _steps(bench):
            say(step.name)
            yield from fleet.take(step)


def _steps(bench: BenchmarkZone) -> tuple[_Step, ...]:
    with bench.engine.connect() as connection:
        vm: dict[str, object] = {
            "zoneid": id_of(connection, "zones", "bench-1").uuid,
            "serviceofferingid": id_of(connection, "service_offerings", OFFERING).uuid,
            "templateid": id_of(connection, "templates", TEMPLATE).uuid,
            "networkids": id_of(connection, "networks", "guests").uuid,
            "virtualmachinecount": COUNT,
            "managed": True,
        }
        larger = id_of(connection, "service_offerings", "larger").uuid
    all_of, one = {"deploymentid": None}, {"id": None}
    restored: dict[str, object] = {"method": "Restore", "maxunavailable": "10%"}
    return (
        _Step("deploy", "bulkDeployVirtualMachine", vm, "Running"),
        _Step("stop", "bulkStopVirtualMachine", all_of, "Stopped"),
        _Step("scale", "bulkScaleVirtualMachine", {**all_of, "serviceofferingid": larger}, "Stopped"),
        _Step("start", "bulkStartVirtualMachine", all_of, "Running"),
        _Step("reimage in steps", "replaceBulkDeployment", {**one, **restored}, "Running"),
        _Step(
            "scale in",
            "updateBulkDeployment",
            {**one, "virtualmachinecount": STAYING},
            "Running",
            left=STAYING,
            count=COUNT - STAYING,
        ),
        _Step(
            "destroy", "updateBulkDeployment", {**one, "virtualmachinecount": 0}, "Running", left=0, count=STAYING
        ),
    )
