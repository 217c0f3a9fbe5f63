"""Row 14: how much CPU it takes to plan the moves that balance a zone, and how good their end is.

Clusters are generated as hbal's were for its figures: hosts of 128 GiB and 32 cores, half of which have nine tenths
of the VMs, of four flavours. The end is judged by the formula of Ganeti's hbal, as it is for VMs on shared storage:
the standard deviations of free memory and of cores per host, and four times that of VMs per host. Where hbal is
installed (Debian's ganeti-htools) it runs on the very same clusters up to HBAL_HOSTS hosts; its CPU and its end are
the baseline, and its start must be what our reading of its formula says.
"""

import random
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.ground import Ground
from benchmarks.report import Line, line
from bulkdeploy.placement.balance import BalanceHosts, BalancePlan, BalanceVms, plan_balance
from bulkdeploy.placement.model import Ints

ROW = 14
MEMORY, RESERVED, CORES = 131_072, 1024, 32
FLAVOURS = ((4096, 1), (8192, 2), (8192, 4), (16_384, 4))
"""MiB and cores."""

PUBLISHED = {(20, 120): 1.6, (40, 240): 20.2}
"""Hosts and VMs; hbal's CPU seconds on clusters like these, measured once."""

CASES = ((20, 120, 0.2), (40, 240, 1.0), (1000, 10_000, 10.0))
"""Hosts, VMs, CPU seconds at most."""

HBAL_HOSTS = 20
"""hbal takes half a minute of CPU for 40."""

REPEATS = 3


def run(ground: Ground | None = None) -> Iterator[Line]:
    """Plan each cluster; hbal where it is there."""
    del ground  # pure: nothing is stood on
    for hosts, vms, most_s in CASES:
        where, sizes = cluster(hosts, vms)
        seconds = []
        for _ in range(REPEATS if hosts < 1000 else 1):
            began = time.process_time()
            made = plan(hosts, where, sizes)
            seconds.append(time.process_time() - began)
        cpu, end = PUBLISHED.get((hosts, vms)), None
        if hosts <= HBAL_HOSTS and shutil.which("hbal"):
            cpu, end = hbal(hosts, where, sizes)
        name = f"balance {hosts} hosts, {vms} VMs"
        yield line(ROW, name, vms, seconds, unit="s CPU", baseline=cpu, at_most=most_s)
        score = formula(hosts, after(made, where), sizes)
        ended = f"{name}: end by hbal's formula, {made.moves} moves"
        yield line(ROW, ended, vms, [score], unit="", baseline=end, ratio_at_most=None if end is None else 1.0)


def cluster(hosts: int, vms: int) -> tuple[Ints, Ints]:
    """Where each VM is, and its MiB and cores: half of the hosts have nine tenths of them, as far as they fit."""
    chance = random.Random(1)  # noqa: S311 - a cluster, not a secret
    used = [0] * hosts
    where, sizes = [], []
    for number in range(vms):
        memory, cores = FLAVOURS[number % len(FLAVOURS)]
        host = chance.randrange(hosts if chance.random() < 0.1 else hosts // 2)
        while used[host] + memory >= MEMORY - RESERVED:
            host = chance.randrange(hosts)
        used[host] += memory
        where.append(host)
        sizes.append((memory, cores))
    return np.array(where), np.array(sizes)


def plan(hosts: int, where: Ints, sizes: Ints, *, most_moves: int | None = None) -> BalancePlan:
    """All moves that gain anything to speak of, or so many; one owner, no rule but room."""

    def used(weights: Ints | None = None) -> Ints:
        return np.bincount(where, weights=weights, minlength=hosts).astype(np.int64)

    vms = len(where)
    return plan_balance(
        BalanceHosts(
            id=np.arange(hosts),
            cluster=np.zeros(hosts, dtype=np.int64),
            cpu_limit=np.full(hosts, 4 * CORES),
            cpu_used=used(sizes[:, 1]),
            memory_limit=np.full(hosts, MEMORY - RESERVED),
            memory_used=used(sizes[:, 0]),
            vms_limit=np.full(hosts, vms),
            vms_used=used(),
        ),
        BalanceVms(
            id=np.arange(vms),
            host=where,
            cpu=sizes[:, 1],
            memory=sizes[:, 0],
            owner=np.zeros(vms, dtype=np.int64),
            reach=np.zeros(vms, dtype=np.int64),
            movable=np.ones(vms, dtype=bool),
            apart={},
        ),
        np.ones((1, hosts), dtype=bool),
        most_moves=vms if most_moves is None else most_moves,
        least_gain=0.001,
    )


def after(made: BalancePlan, where: Ints) -> Ints:
    """Where each VM is after all moves."""
    ends = where.copy()
    for moves in made.sets:
        for move in moves:
            ends[move.vm_id] = move.to_host_id
    return ends


def formula(hosts: int, where: Ints, sizes: Ints) -> float:
    """Hbal's score of a cluster like these; what is the same on all hosts adds nothing."""
    memory, cores, vms = (
        np.bincount(where, weights=weights, minlength=hosts) for weights in (sizes[:, 0], sizes[:, 1], None)
    )
    return float(np.std(memory / MEMORY) + np.std(cores / CORES) + 4 * np.std(vms))


def hbal(hosts: int, where: Ints, sizes: Ints) -> tuple[float, float]:
    """CPU seconds of hbal on this cluster, and its score at the end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, end = hbal_moves(hosts, where, sizes)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, end


def hbal_moves(hosts: int, where: Ints, sizes: Ints) -> tuple[int, float]:
    """How many moves hbal makes on this cluster, and its score at the end.

    Raises:
        AssertionError: hbal's score of the start is not that of ``formula``.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster"
        path.write_text(_as_text(hosts, where, sizes))
        said = subprocess.run(["hbal", "-t", str(path)], check=True, capture_output=True, text=True).stdout
    start, end = (float(found) for found in re.findall(r"improved from (\S+) to (\S+)", said)[0])
    if abs(start - formula(hosts, where, sizes)) > 1e-6:
        raise AssertionError(f"hbal says {start} of the start, the formula {formula(hosts, where, sizes)}")
    return int(re.findall(r"Solution length=(\d+)", said)[0]), end


def _as_text(hosts: int, where: Ints, sizes: Ints) -> str:
    """The cluster in htools' text format."""
    used = np.bincount(where, weights=sizes[:, 0], minlength=hosts).astype(int).tolist()
    group = "11111111-1111-1111-1111-111111111111"
    policy = "128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|ext|4.0|32.0"
    nodes = [
        f"node-{at}|{MEMORY}|{RESERVED}|{MEMORY - RESERVED - used[at]}|4194304|4194304|{CORES}|{'N' if at else 'M'}"
        f"|{group}|1||N|0|1|1.0"
        for at in range(hosts)
    ]
    guests = [
        f"vm-{number}|{memory}|40960|{cores}|running|Y|node-{host}||ext||1|1|N"
        for number, (host, (memory, cores)) in enumerate(zip(where.tolist(), sizes.tolist(), strict=True))
    ]
    parts = [
        f"default|{group}|preferred||",
        "\n".join(nodes),
        "\n".join(guests),
        "",
        f"|{policy}\ndefault|{policy}",
    ]
    return "\n\n".join(parts[:3]) + f"\n\n\n{parts[4]}\n"
