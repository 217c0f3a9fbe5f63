"""Row 20: how good bulk placements and balancing moves are by Ganeti's own measure.

Both hail and ours get the same bulk requests on CLUSTERS generated clusters, and hbal scores both ends (0 is best).
Then both hbal and ours balance the same skewed clusters, ours with as many moves as hbal made. Without Debian's
ganeti-htools there is nothing to compare with, and nothing is measured.
"""

import json
import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import row_14_balance
from benchmarks.ground import Ground, say
from benchmarks.report import Line, line
from bulkdeploy.iallocator.program import answer_to
from tests.iallocator import documents

ROW = 20
HAIL = Path("/usr/lib/ganeti/iallocators/hail")
CLUSTERS = 12
BETTER = 10
"""Of CLUSTERS, at least."""

BALANCED = ((10, 60), (20, 120), (12, 100), (16, 140), (8, 40), (20, 80))
"""Hosts and VMs of skewed clusters."""

Placements = list[tuple[str, list[str]]]


def run(ground: Ground | None = None) -> Iterator[Line]:
    """Place, then balance; both judged by hbal."""
    del ground  # pure: nothing is stood on
    if not HAIL.exists():
        say("no hail: install ganeti-htools")
        return
    better = 0
    for seed in range(CLUSTERS):
        document = generated(seed)
        wanted = document["request"]["instances"]
        ours = score(document, dict(map(tuple, answer_to(document, ["-", *OPTIONS])["result"][0])))
        theirs = score(document, dict(map(tuple, hail(document)["result"][0])))
        better += ours < theirs - 1e-9
        template, nodes = wanted[0]["disk_template"], len(document["nodes"])
        name = f"hbal's score after {len(wanted)} instances ({template}) on {nodes} nodes; after hail's"
        yield line(ROW, name, len(wanted), [ours], unit="", baseline=theirs)
    yield line(
        ROW, f"clusters of {CLUSTERS} that score less than after hail", CLUSTERS, [better], at_least=BETTER, unit=""
    )
    for hosts, vms in BALANCED:
        where, sizes = row_14_balance.cluster(hosts, vms)
        moves, end = row_14_balance.hbal_moves(hosts, where, sizes)
        made = row_14_balance.plan(hosts, where, sizes, most_moves=moves)
        ended = row_14_balance.formula(hosts, row_14_balance.after(made, where), sizes)
        name = f"hbal's score of {hosts} hosts, {vms} VMs after {made.moves} moves; after hbal's {moves}"
        yield line(ROW, name, vms, [ended], unit="", baseline=end, ratio_at_most=1.15)


OPTIONS = ["--no-capacity-checks"]
"""With them hail takes minutes for plain instances; ours and hail are asked alike."""


def generated(seed: int) -> dict[str, Any]:
    """A cluster of like nodes, some of which hold more than others, and a bulk request of mixed instances."""
    chance = random.Random(seed)  # noqa: S311 - a cluster, not a secret
    nodes, template = chance.randint(8, 24), ("drbd", "ext", "plain")[seed % 3]
    document = documents.cluster(nodes)
    names = sorted(document["nodes"])
    for number in range(nodes * chance.randint(0, 4)):
        members = documents.instance(chance.choice(documents.FLAVOURS), template)
        on = chance.sample(names[: max(2, nodes * 2 // 3)], 2 if template == "drbd" else 1)
        documents.placed(document, f"old{number:05d}", members, on)
        if template == "ext":  # its disks are elsewhere
            document["nodes"][on[0]]["free_disk"] += members["disk_space_total"]
    flavours = tuple(chance.choices(documents.FLAVOURS, k=5))
    wanted = documents.wanted(chance.randint(20, 60), template, flavours)
    return documents.multi_allocate(document, wanted)


def hail(document: Mapping[str, Any]) -> dict[str, Any]:
    """Hail's answer."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "request"
        path.write_text(json.dumps(document))
        said = subprocess.run([str(HAIL), *OPTIONS, str(path)], check=True, capture_output=True, text=True).stdout
    answer: dict[str, Any] = json.loads(said)
    return answer


def score(document: Mapping[str, Any], placed: Mapping[str, list[str]]) -> float:
    """Hbal's score of the cluster with these instances of its request where they were placed."""
    wanted = {one["name"]: one for one in document["request"]["instances"]}
    every = {**document["instances"], **{name: {**wanted[name], "nodes": on} for name, on in placed.items()}}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster"
        path.write_text(_as_text(document, every))
        command = ["hbal", "-t", str(path), "-l", "0", "-v"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Initial score: ([\d.]+)", said)
    if found is None:
        raise AssertionError(said)
    return float(found[1])


def _as_text(document: Mapping[str, Any], instances: Mapping[str, Any]) -> str:
    """The cluster in htools' text format."""
    (uuid,) = document["nodegroups"]
    policy = "128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,ext|4.0|32.0"
    nodes = []
    for name, node in document["nodes"].items():
        here = [one for one in instances.values() if name in one["nodes"]]
        memory = sum(one["memory"] for one in here if one["nodes"][0] == name)
        disk = sum(one["disk_space_total"] for one in here if one["disk_template"] != "ext")
        free = node["total_memory"] - node["reserved_memory"] - memory
        nodes.append(
            f"{name}|{node['total_memory']}|{node['reserved_memory']}|{free}|{node['total_disk']}"
            f"|{node['total_disk'] - disk}|{node['total_cpus']}|N|{uuid}|{node['ndparams']['spindle_count']}||N|0"
            f"|{node['reserved_cpus']}|1.0"
        )
    guests = [
        f"{name}|{one['memory']}|{one['disk_space_total']}|{one['vcpus']}|running|Y|{one['nodes'][0]}"
        f"|{one['nodes'][1] if len(one['nodes']) > 1 else ''}|{one['disk_template']}||1|1|N"
        for name, one in instances.items()
    ]
    parts = [f"default|{uuid}|preferred||", "\n".join(nodes), "\n".join(guests)]
    return "\n\n".join(parts) + f"\n\n\n|{policy}\ndefault|{policy}\n"
