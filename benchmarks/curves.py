"""How the cost of a bulk call grows with the VMs asked for, the hosts, and the VMs that are there: ``make curves``.

CPU of this process and of its database sessions, for the whole call but HTTP and the sending. CPU and not the
clock: curves must show the work, not what else the machine had to do. Writes the points beside the picture, so
that ``make curves POINTS=kept`` draws it anew without measuring.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from sqlalchemy import text

from benchmarks.cpu import own_cpu_seconds
from benchmarks.deploying import deploy_without_sending
from benchmarks.generation import Size
from benchmarks.ground import BenchmarkZone, Ground, ground, say

IMAGES = Path(__file__).parent.parent / "docs" / "images"
REPEATS = 5
REQUESTED = (1, 10, 100, 1000, 3000, 10_000)
HOSTS = (1000, 5000, 10_000, 25_000, 50_000)
THERE, STEP, AMONG_THEM = 100_000, 10_000, 200
HOSTS_PER_CLUSTER, HOSTS_PER_POD = 25, 250


@dataclass(frozen=True)
class Curve:
    """Points of one curve: what is varied, and the CPU of a call in ms."""

    name: str
    axis: str
    points: Sequence[tuple[float, float]]


def main() -> None:
    """Measure (or read what was measured) and draw."""
    kept = IMAGES / "performance.json"
    if os.environ.get("POINTS") != "kept":
        with ground() as shared:
            curves = [*_against_hosts(shared), *_against_vms(shared)]
        kept.write_text(json.dumps([vars(curve) for curve in curves], indent=1) + "\n")
    _draw([Curve(**one) for one in json.loads(kept.read_text())], IMAGES / "performance.svg")


def _zone(hosts: int) -> Size:
    return Size(
        zones=1, pods=-(-hosts // HOSTS_PER_POD), clusters=-(-hosts // HOSTS_PER_CLUSTER), hosts=hosts, vms=0
    )


def _against_hosts(shared: Ground) -> list[Curve]:
    points: dict[int, list[tuple[float, float]]] = {1: [], 1000: []}
    for hosts in HOSTS:
        with shared.zone(_zone(hosts)) as bench:
            for count, found in points.items():
                found.append((hosts, _cpu_ms(bench, count)))
    return [Curve(f"{count} VMs", "hosts in the zone", found) for count, found in points.items()]


def _against_vms(shared: Ground) -> list[Curve]:
    with shared.zone(_zone(25_000)) as bench:
        requested = [(float(count), _cpu_ms(bench, count)) for count in REQUESTED]
    there = []
    with shared.zone(_zone(25_000)) as bench:
        for vms in range(0, THERE + 1, STEP):
            there.append((float(vms), _cpu_ms(bench, AMONG_THEM)))
            if vms < THERE:
                deploy_without_sending(bench, STEP)
    return [
        Curve("25,000 hosts", "VMs asked for", requested),
        Curve(f"{AMONG_THEM} VMs", "VMs of the same owner that are there", there),
    ]


def _cpu_ms(bench: BenchmarkZone, count: int) -> float:
    """The least of some calls, in ms of CPU: what else the machine does only adds."""
    deploy_without_sending(bench, count)
    sessions = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    used = []
    with bench.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(REPEATS):
            before = own_cpu_seconds(connection.execute(sessions).scalars()) + time.process_time()
            deploy_without_sending(bench, count)
            used.append(own_cpu_seconds(connection.execute(sessions).scalars()) + time.process_time() - before)
    say(f"{count} VMs: {1000 * min(used):.1f} ms")
    return round(1000 * min(used), 2)


def _draw(curves: Sequence[Curve], file: Path) -> None:
    mpl.rcParams |= {"svg.hashsalt": "bulkdeploy", "font.size": 9, "axes.spines.top": False}
    axes = list(dict.fromkeys(curve.axis for curve in curves))
    figure = Figure(figsize=(4 * len(axes), 3.2), layout="constrained")
    panels = figure.subplots(1, len(axes))
    for panel, axis in zip(panels, axes, strict=True):
        for curve in curves:
            if curve.axis == axis:
                panel.plot(*zip(*curve.points, strict=True), marker="o", markersize=3, label=curve.name)
        panel.set_xlabel(axis)
        panel.set_ylim(bottom=0)
        panel.legend(frameon=False)
    panels[0].set_ylabel("CPU of a bulk call, ms")
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
