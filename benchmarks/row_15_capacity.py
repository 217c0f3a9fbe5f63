"""Row 15: how much CPU it takes to find how many more VMs fit, and whether as many fit as hspace says.

Hosts as hspace's were for its figures: 128 GiB of which one is their own, 32 cores at four to one, empty; standard
VMs of 8 GiB and 4 cores.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.ground import Ground
from benchmarks.report import Line, line
from bulkdeploy.placement.host_loss import HeldVms
from bulkdeploy.placement.model import ClusterColumns, HostColumns, PlacementRequest, PoolColumns, ZoneSnapshot
from bulkdeploy.placement.remaining_capacity import fill_up
from bulkdeploy.scheduling.catalog import placement_catalog

ROW = 15
MEMORY, CORES, MHZ, RATIO = 127 * 1024, 32, 2000, 4
STANDARD = PlacementRequest(count=0, cpu_number=4, cpu_mhz=1000, memory_mib=8192, hypervisor="KVM")
A_HOST = 15
"""Standard VMs that a host holds."""

PUBLISHED = {10: (0.21, 12.7), 20: (0.5, 25.2), 40: (1.7, 73.8)}
"""Hosts; hspace's CPU seconds without and with room for the loss of a host, measured once."""

AT_MOST_S = 0.05
REPEATS = 5


def run(ground: Ground | None = None) -> Iterator[Line]:
    """Find the capacity of each cluster, without and with room for the loss of a host."""
    del ground  # pure: nothing is stood on
    nobody = np.zeros(0, dtype=np.int64)
    for hosts, published in PUBLISHED.items():
        zone = cluster(hosts)
        for held, lost, baseline in (
            (None, 0, published[0]),
            (HeldVms((), nobody, nobody, nobody), 1, published[1]),
        ):
            seconds = []
            for _ in range(REPEATS):
                began = time.process_time()
                found = fill_up(zone, STANDARD, placement_catalog(), held=held)
                seconds.append(time.process_time() - began)
            expected = (hosts - lost) * A_HOST
            if found.plan.placed != expected:
                raise AssertionError(f"{hosts} hosts: {found.plan.placed} VMs fit, hspace says {expected}")
            name = f"capacity of {hosts} hosts" + (", any one of which may be lost" if lost else "")
            yield line(ROW, name, expected, seconds, unit="s CPU", baseline=baseline, at_most=AT_MOST_S)


def cluster(hosts: int) -> ZoneSnapshot:
    """One cluster of empty hosts without storage."""
    none, yes, no = np.zeros(hosts, dtype=np.int64), np.ones(hosts, dtype=bool), np.zeros(hosts, dtype=bool)
    empty = np.zeros(0, dtype=np.int64)

    def each(value: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.full(hosts, value, dtype=np.int64)

    one = np.ones(1, dtype=np.int64)
    return ZoneSnapshot(
        clusters=ClusterColumns(
            id=one,
            pod_id=one,
            hypervisor=("KVM",),
            enabled=yes[:1],
            pod_enabled=yes[:1],
            policy=none[:1],
            cpu_threshold=np.full(1, np.inf),
            memory_threshold=np.full(1, np.inf),
            owner_vms=none[:1],
            all_vms=none[:1],
        ),
        hosts=HostColumns(
            id=np.arange(hosts, dtype=np.int64),
            cluster=none,
            up=yes,
            enabled=yes,
            cores=each(CORES),
            mhz=each(MHZ),
            cpu_limit=each(RATIO * CORES * MHZ),
            cpu_used=none,
            memory_limit=each(MEMORY),
            memory_used=none,
            vms_limit=each(128),
            vms_used=none,
            owner_vms=none,
            tag_set=none,
            foreign=no,
            own=no,
        ),
        pools=PoolColumns(
            id=empty,
            cluster=empty,
            host=empty,
            up=no[:0],
            limit=empty,
            allocated=empty,
            tag_set=empty,
            hypervisor=(),
        ),
        tag_sets=(frozenset(),),
    )
