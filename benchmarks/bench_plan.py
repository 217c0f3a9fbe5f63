"""How much CPU one plan takes: JSON lines, one per case. Run: ``python benchmarks/bench_plan.py [repeats]``.

Zones are half full, thresholds on, each VM with a root disk in one of its cluster's two pools. Times are
CPU milliseconds of this process, so that load on the machine shows little. The planner is pure: no
database or network takes part.

hail's figures are CPU of Ganeti 3.0.2's allocator for as many nodes and requests (plain disks, its
capacity checks off, its fastest way). They are of a whole process, reading its input included, and hail
searches by a score over all nodes where we level one number: read the ratio as an order of magnitude.
The last one is extrapolated: 200 requests at the pace of a run of 10.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from bulkdeploy.domain.topology import AffinityType, StorageType
from bulkdeploy.placement.model import (
    Affinity,
    ClusterColumns,
    Disk,
    HostColumns,
    PlacementRequest,
    PoolColumns,
    ZoneSnapshot,
)
from bulkdeploy.placement.planner import plan

GIB = 1 << 30
TAG_SETS = (frozenset[str](), frozenset({"ssd"}), frozenset({"ssd", "gpu"}))


@dataclass(frozen=True)
class Case:
    """One line of the report; ``target`` in CPU milliseconds, ``baseline`` likewise where there is one."""

    name: str
    snapshot: ZoneSnapshot
    request: PlacementRequest
    target: float
    baseline: float | None = None


def zone(hosts: int, clusters: int) -> ZoneSnapshot:
    """A half-full zone; host ids run across the clusters, so that no order helps the planner."""
    rng = np.random.default_rng(7)
    yes, no = np.ones(hosts, dtype=bool), np.zeros(hosts, dtype=bool)
    owner_vms = rng.integers(0, 20, clusters)
    open_clusters = np.ones(clusters, dtype=bool)
    pools = 2 * clusters
    return ZoneSnapshot(
        ClusterColumns(
            id=np.arange(clusters) + 1,
            pod_id=np.arange(clusters) // 10 + 1,
            hypervisor=("KVM",) * clusters,
            enabled=open_clusters,
            pod_enabled=open_clusters,
            cpu_threshold=np.full(clusters, 0.85),
            memory_threshold=np.full(clusters, 0.85),
            owner_vms=owner_vms,
            all_vms=owner_vms + rng.integers(0, 100, clusters),
        ),
        HostColumns(
            id=np.arange(hosts) + 1,
            cluster=np.arange(hosts) % clusters,
            up=yes,
            enabled=yes,
            cores=np.full(hosts, 64),
            mhz=np.full(hosts, 2500),
            cpu_limit=np.full(hosts, 64 * 2500),
            cpu_used=rng.integers(0, 64 * 2500, hosts),
            memory_limit=np.full(hosts, 512 * 1024),
            memory_used=rng.integers(0, 512 * 1024, hosts),
            vms_limit=np.full(hosts, 144),
            vms_used=rng.integers(0, 60, hosts),
            owner_vms=rng.integers(0, 2, hosts),
            tag_set=rng.integers(0, len(TAG_SETS), hosts),
            foreign=no,
            own=no,
        ),
        PoolColumns(
            id=np.arange(pools) + 1,
            cluster=np.arange(pools) % clusters,
            host=np.full(pools, -1),
            up=np.ones(pools, dtype=bool),
            limit=np.full(pools, 100_000 * GIB),
            allocated=rng.integers(0, 50_000, pools) * GIB,
            tag_set=np.zeros(pools, dtype=np.int64),
            hypervisor=("",) * pools,
        ),
        TAG_SETS,
    )


def batch(count: int, **changes: object) -> PlacementRequest:
    """VMs of 2 x 1000 MHz and 4 GiB with a root disk of 20 GiB."""
    asked = PlacementRequest(
        count, 2, 1000, 4096, hypervisor="KVM", disks=(Disk(20 * GIB, StorageType.SHARED),), seed=11
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


def cases() -> Iterator[Case]:
    """The sizes that are promised, then those that hail was measured on."""
    for count, hosts, clusters, target in ((10_000, 25_000, 1_000, 10.0), (100_000, 100_000, 10_000, 80.0)):
        snapshot = zone(hosts, clusters)
        size = f"plan {count} VMs, {hosts} hosts, {clusters} clusters"
        yield Case(size, snapshot, batch(count), target)
        yield Case(f"{size}, pods first", snapshot, batch(count, pods_first=True), target)
        apart = Affinity(AffinityType.HOST_ANTI_AFFINITY, dict.fromkeys(range(1, hosts, 40), 1))
        ruled = batch(count, affinities=(apart,), host_tags=frozenset({"ssd"}))
        yield Case(f"{size}, anti-affinity and tags", snapshot, ruled, 3 * target)
    yield Case("plan 1 VM, 25000 hosts, 1000 clusters", zone(25_000, 1_000), batch(1), 5.0)
    hail = ((100, 500, 4.5, "measured"), (300, 300, 28.6, "measured"), (1000, 200, 598.0, "extrapolated"))
    for nodes, count, seconds, how in hail:
        asked = batch(count, host_algorithm="firstfitleastconsumed")
        name = f"plan {count} VMs, {nodes} hosts of one cluster, against hail ({how})"
        yield Case(name, zone(nodes, 1), asked, 1000 * seconds, 1000 * seconds)


def measure(case: Case, repeats: int) -> dict[str, object]:
    """Plan the case over and over; the first time warms up and does not count."""
    made = plan(case.snapshot, case.request)
    times = []
    for _ in range(repeats):
        began = time.process_time_ns()
        plan(case.snapshot, case.request)
        times.append((time.process_time_ns() - began) / 1e6)
    middle = median(times)
    return {
        "row": 1,
        "name": case.name,
        "n": case.request.count,
        "placed": made.placed,
        "median": round(middle, 3),
        "p95": round(sorted(times)[int(0.95 * (len(times) - 1))], 3),
        "unit": "ms CPU",
        "baseline": case.baseline,
        "ratio": None if case.baseline is None else round(case.baseline / middle),
        "cpu_ms_per_vm": round(middle / case.request.count, 6),
        "target": case.target,
        "met": middle <= case.target,
    }


def main() -> None:
    """Print one line per case."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    for case in cases():
        print(json.dumps(measure(case, repeats)), flush=True)


if __name__ == "__main__":
    main()
