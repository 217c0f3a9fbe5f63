"""Row 21: operations on many VMs by one call each, against the bulk deployment and against single calls."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import text

from benchmarks.cpu import CpuMeter
from benchmarks.deploying import (
    Drain,
    RecordingQueue,
    Workers,
    admin,
    deploy_without_sending,
    server_pids,
    workers,
)
from benchmarks.ground import EMPTY, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.queue.job_queue import JobMessage
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, jobs_of_kind, run_bulk_operation
from bulkdeploy.services.fleets.vm_selection import VmSelection
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machine_migration import migrate_operation
from bulkdeploy.services.virtual_machines.virtual_machine_starting import start_operation
from bulkdeploy.services.virtual_machines.virtual_machines import stop_virtual_machine
from bulkdeploy.services.virtual_machines.vm_work import VmOperation
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.infrastructure.hosts import NO_PLACES
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.drivers import build_configured_drivers

COUNT = int(os.environ.get("VMS", "10000"))
SINGLE_CALLS, MOVED = 300, 1000
"""So many VMs are stopped by single calls, and moved by one call; the figures are for each VM."""

PROCESSES = 2
SOFTLY, KEPT = {"forced": False}, {"expunge": False}

OPERATIONS: Mapping[str, Callable[[], VmOperation]] = {
    "stop": lambda: jobs_of_kind(STOP, SOFTLY),
    "start": start_operation,
    "migrate": lambda: migrate_operation(NO_PLACES, NO_PLACES),
    "destroy": lambda: jobs_of_kind(DESTROY, KEPT),
}


@dataclass(frozen=True)
class Measured:
    """Calls, and the jobs that they made: seconds of the calls, CPU milliseconds per VM of all, and the drain."""

    seconds: float
    cpu_ms_per_vm: float
    drain: Drain


def run(ground: Ground) -> Iterator[Line]:
    """Deploy VMs by one call, then stop, start, move and destroy them by one call each."""
    with (
        ground.zone(EMPTY) as bench,
        workers(bench, processes=PROCESSES, threads=bench.settings.worker_threads) as running,
    ):
        deployed = _measure(running, lambda: deploy_without_sending(bench, COUNT)[1])
        yield from _lines("deploy", deployed, deployed)
        vms = _running_vms(bench)
        for name in ("stop", "start"):
            yield from _lines(name, _measure(running, partial(_bulk, bench, vms, OPERATIONS[name])), deployed)
        moved = vms[:MOVED]
        yield from _lines(
            "migrate", _measure(running, partial(_bulk, bench, moved, OPERATIONS["migrate"])), deployed
        )
        single = _measure(running, partial(_stop_singly, bench, vms[:SINGLE_CALLS]))
        yield _cpu_line("single calls: stop", single, deployed)
        yield from _lines("destroy", _measure(running, partial(_bulk, bench, vms, OPERATIONS["destroy"])), deployed)


def _lines(name: str, measured: Measured, deployed: Measured) -> Iterator[Line]:
    measured.drain.explain(name)
    yield line(
        21,
        f"bulk {name}, the call",
        measured.drain.count,
        [1000 * measured.seconds],
        baseline=1000 * deployed.seconds,
    )
    yield line(
        21,
        f"bulk {name}, jobs",
        measured.drain.count,
        [measured.drain.rate],
        unit="VMs/s",
        baseline=deployed.drain.rate,
    )
    yield _cpu_line(f"bulk {name}", measured, deployed)


def _cpu_line(name: str, measured: Measured, deployed: Measured) -> Line:
    return line(
        21,
        f"{name}, CPU of call and jobs",
        measured.drain.count,
        [measured.cpu_ms_per_vm],
        unit="ms CPU/VM",
        baseline=deployed.cpu_ms_per_vm,
        cpu_ms_per_vm=measured.cpu_ms_per_vm,
        ratio_at_most=1.0 if name in ("bulk stop", "bulk start", "bulk destroy") else None,
    )


def _measure(running: Workers, calls: Callable[[], Sequence[JobMessage]]) -> Measured:
    meter = CpuMeter(server_pids(running.bench))
    meter.start()
    cpu, began = time.process_time(), time.perf_counter()
    messages = calls()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    used = meter.stop()
    say(f"the call: {cpu:.2f} s CPU, {', '.join(f'{part} {spent:.2f} s' for part, spent in sorted(used.items()))}")
    cpu += sum(used.values())
    drain = running.run_jobs(messages)
    return Measured(seconds, 1000 * cpu / len(messages) + drain.cpu_ms_per_vm, drain)


def _bulk(bench: BenchmarkZone, vms: Sequence[EntityRef], operation: Callable[[], VmOperation]) -> list[JobMessage]:
    """Make one call for all of these VMs, and return the messages that it would send."""
    system, held = _system(bench)
    selection = VmSelection(filters={"ids": tuple(vms)}, visible=Visibility())
    request = BulkRequest(command="benchmark", operation=operation(), selection=selection)
    work = partial(run_bulk_operation, system=system, caller=admin(bench), request=request)
    run_transaction(bench.engine, work)
    return held.messages


def _stop_singly(bench: BenchmarkZone, vms: Sequence[EntityRef]) -> list[JobMessage]:
    """Make a call for each of these VMs, and return the messages that they would send."""
    system, held = _system(bench)
    caller = admin(bench)
    for vm in vms:
        work = partial(stop_virtual_machine, system=system, caller=caller, vm=vm, forced=False)
        run_transaction(bench.engine, work)
    return held.messages


def _system(bench: BenchmarkZone) -> tuple[System, RecordingQueue]:
    held = RecordingQueue()
    drivers = build_configured_drivers(bench.settings, bench.engine)
    return System(bench.engine, held, build_cipher(bench.settings), bench.settings.data_dir, drivers), held


def _running_vms(bench: BenchmarkZone) -> list[EntityRef]:
    """Return the VMs of the newest deployment."""
    query = "SELECT id, uuid, name FROM virtual_machines WHERE deployment_id = (SELECT max(id) FROM deployments)"
    with bench.engine.connect() as connection:
        return [EntityRef(Entity.VIRTUAL_MACHINE, *row) for row in connection.execute(text(f"{query} ORDER BY id"))]
