"""Rows 1 and 2: how much CPU one plan takes, and how much memory.

Zones are half full, thresholds on, each VM with a root disk in one of its cluster's two pools. Times are
CPU milliseconds of this process, so that load on the machine shows little. The planner is pure: no
database or network takes part.

hail's figures are CPU of Ganeti 3.0.2's allocator for as many nodes and requests (plain disks, its
capacity checks off, its fastest way). They are of a whole process, reading its input included, and hail
searches by a score over all nodes where we level one number: read the ratio as an order of magnitude.
The last one is extrapolated: 200 requests at the pace of a run of 10.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import median

import numpy as np

from benchmarks.ground import Ground
from benchmarks.report import Line, line
from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType
from bulkdeploy.placement.batch import plan_batch
from bulkdeploy.placement.model import (
    Affinity,
    ClusterColumns,
    Disk,
    HostColumns,
    PlacementRequest,
    Plan,
    PoolColumns,
    ZoneSnapshot,
)
from bulkdeploy.placement.planner import plan
from bulkdeploy.scheduling.catalog import placement_catalog

GIB = 1 << 30
REPEATS = 30
HAIL_SIZES = {(100, 500): (4.5, "measured"), (300, 300): (28.6, "measured"), (1000, 200): (598.0, "extrapolated")}
"""Nodes and requests; hail's CPU seconds, and how they are known."""

FLAVOURS = ((1, 1024), (2, 4096), (4, 8192), (8, 16_384))
"""Cores and MiB."""

TAG_SETS = (frozenset[str](), frozenset({"ssd"}), frozenset({"ssd", "gpu"}))


@dataclass(frozen=True)
class Case:
    """One line of the report; ``target`` in CPU milliseconds, ``baseline`` likewise where there is one."""

    name: str
    snapshot: ZoneSnapshot
    request: PlacementRequest
    target: float
    baseline: float | None = None
    row: int = 1


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
            policy=np.zeros(clusters, dtype=np.int64),
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
    requested = PlacementRequest(
        count, 2, 1000, 4096, hypervisor="KVM", disks=(Disk(20 * GIB, StorageType.SHARED),), seed=11
    )
    return replace(requested, **changes)  # type: ignore[arg-type]


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
    for (nodes, count), (seconds, how) in HAIL_SIZES.items():
        requested = batch(count, host_algorithm="firstfitleastconsumed")
        name = f"plan {count} VMs, {nodes} hosts of one cluster, against hail ({how})"
        yield Case(name, zone(nodes, 1), requested, 10.0, 1000 * seconds, row=2)


def run(ground: Ground | None = None) -> Iterator[Line]:
    """Plan each case over and over; the first time warms up and does not count."""
    del ground  # pure: nothing is stood on
    for case in cases():
        _plan(case.snapshot, case.request)
        times = [_cpu_ms(partial(_plan, case.snapshot, case.request)) for _ in range(REPEATS)]
        count = case.request.count
        yield line(
            case.row,
            case.name,
            count,
            times,
            unit="ms CPU",
            baseline=case.baseline,
            cpu_ms_per_vm=median(times) / count,
            at_most=case.target,
        )
    yield from _unlike()


def _plan(snapshot: ZoneSnapshot, requested: PlacementRequest) -> Plan:
    """Plan on a snapshot that nobody has looked at yet: what it would keep for the next plan is left out."""
    return plan(replace(snapshot), requested, placement_catalog())


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / 1e6


def _plan_unlike(snapshot: ZoneSnapshot, kinds: Sequence[PlacementRequest]) -> None:
    """A batch of unlike VMs; every kind sees what those before it have taken."""
    made = plan_batch(replace(snapshot), kinds, placement_catalog())
    if made.refused:
        raise RuntimeError(f"{made.refused} VMs were refused: the row measures plans that fit")


def flavours(count: int) -> list[PlacementRequest]:
    """A quarter of the VMs of each flavour."""
    shares = [count * at // len(FLAVOURS) for at in range(len(FLAVOURS) + 1)]
    return [
        batch(after - before, host_algorithm="firstfitleastconsumed", cpu_number=cores, memory_mib=memory)
        for (cores, memory), before, after in zip(FLAVOURS, shares, shares[1:], strict=False)
    ]


def sizes(count: int, kinds: int) -> list[PlacementRequest]:
    """So many VMs of so many sizes, evenly."""
    shares = [count * at // kinds for at in range(kinds + 1)]
    return [
        batch(after - before, cpu_number=1 + at % 8, memory_mib=512 * (1 + at))
        for at, (before, after) in enumerate(pairwise(shares))
    ]


def _unlike() -> Iterator[Line]:
    cases: list[tuple[str, ZoneSnapshot, list[PlacementRequest], float, float]] = [
        (
            f"plan {count} VMs of four flavours, {nodes} hosts of one cluster",
            zone(nodes, 1),
            flavours(count),
            50,
            100,
        )
        for nodes, count in HAIL_SIZES
    ]
    hosts, large = zone(100, 10), zone(25_000, 1_000)
    cases += [
        ("plan 500 unlike VMs (20 sizes), 100 hosts", hosts, sizes(500, 20), 50, 100),
        ("plan 500 unlike VMs (each its own size), 100 hosts", zone(100, 10), _own_sizes(500), 50, 100),
        ("plan 10000 unlike VMs (50 sizes), 25000 hosts, 1000 clusters", large, sizes(10_000, 50), 1_000, 300),
        ("plan 10000 existing VMs, 25000 hosts, 1000 clusters", large, _existing(10_000, 1_000), 150, 100),
    ]
    for name, snapshot, kinds, target, most_mib in cases:
        count = sum(kind.count for kind in kinds)
        _plan_unlike(snapshot, kinds)
        times = [_cpu_ms(partial(_plan_unlike, snapshot, kinds)) for _ in range(3 if len(kinds) > 20 else REPEATS)]
        yield line(2, name, count, times, unit="ms CPU", cpu_ms_per_vm=median(times) / count, at_most=target)
        yield line(2, f"{name}, memory", count, [_peak_mib(snapshot, kinds)], unit="MiB", at_most=most_mib)


def _existing(count: int, clusters: int) -> list[PlacementRequest]:
    """Return requests for VMs that are pinned to the clusters of their volumes."""
    return [batch(count // clusters, cluster_id=at + 1, disks=()) for at in range(clusters)]


def _own_sizes(count: int) -> list[PlacementRequest]:
    return [batch(1, cpu_number=1 + at % 4, memory_mib=512 + 8 * at) for at in range(count)]


def _peak_mib(snapshot: ZoneSnapshot, kinds: Sequence[PlacementRequest]) -> float:
    """The most memory that planning holds at once, beside its snapshot."""
    tracemalloc.start()
    try:
        _plan_unlike(snapshot, kinds)
        return tracemalloc.get_traced_memory()[1] / (1 << 20)
    finally:
        tracemalloc.stop()
