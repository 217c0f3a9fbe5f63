"""``bulkdeploy-iallocator`` as the allocator of a live cluster, and beside Ganeti's own: ``make test-ganeti``."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkdeploy.iallocator.evacuation import EVAC_MODES
from bulkdeploy.iallocator.program import answer_to
from tests.ganeti.live import gnt, needs_cluster
from tests.ganeti.service import instances, nodes
from tests.iallocator.test_properties import clusters, wanted

pytestmark = needs_cluster

OURS = "bulkdeploy-iallocator"
NO_TARGETS: dict[str, Any] = {"target_groups": []}
HAIL = "/usr/lib/ganeti/iallocators/hail"
NEW = [
    "-t",
    "diskless",
    "-o",
    "noop",
    "-B",
    "memory=128M,vcpus=1",
    "--net",
    "0:mode=bridged,link=br0",
    "--no-name-check",
    "--no-ip-check",
]


@pytest.fixture
def empty() -> Iterator[None]:
    """Leaves a cluster without instances."""
    yield
    for name in instances():
        gnt("gnt-instance", "remove", "--force", "--shutdown-timeout=0", name)


@pytest.mark.usefixtures("empty")
def test_ganeti_places_instances_where_it_says() -> None:
    """One, many at once, and off a node again: Ganeti takes every answer as it is."""
    gnt("gnt-instance", "add", "-I", OURS, "--net", "0:mode=bridged,link=br0", *NEW, "single")
    wanted = [
        {
            "instance_name": f"many{number}",
            "mode": "create",
            "disk_template": "diskless",
            "disks": [],
            "nics": [{"mode": "bridged", "link": "br0"}],
            "os_type": "noop",
            "hypervisor": "fake",
            "beparams": {"memory": 128, "vcpus": 1},
            "ip_check": False,
            "name_check": False,
        }
        for number in range(2 * len(nodes()) - 1)
    ]
    request = Path("batch.json")
    request.write_text(json.dumps(wanted))
    try:
        gnt("gnt-instance", "batch-create", "-I", OURS, str(request.absolute()))
    finally:
        request.unlink()
    assert Counter(node for node, _ in instances().values()) == dict.fromkeys(nodes(), 2)
    leaving = next(node for node in nodes() if node != "node1")
    gnt("gnt-node", "evacuate", "--force", "--primary-only", "-I", OURS, leaving)
    after = instances()
    assert len(after) == 2 * len(nodes())
    assert leaving not in {node for node, _ in after.values()}
    assert {state for _, state in after.values()} == {"running"}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Any request about a few nodes, of which some are full, offline or drained; spindles are shared."""
    document = draw(clusters())
    for node in document["nodes"].values():
        node["ndparams"]["exclusive_storage"] = False
    placed = [name for name, one in document["instances"].items() if one["admin_state"] == "up"]
    mirrored = [name for name in placed if document["instances"][name]["disk_template"] == "drbd"]
    kinds = ["allocate", "multi-allocate", *(["node-evacuate", "change-group"] if placed else [])]
    kind = draw(st.sampled_from([*kinds, *(["relocate"] if mirrored else [])]))
    request: dict[str, Any] = {"type": kind}
    if kind == "allocate":
        request |= draw(wanted())
    elif kind == "multi-allocate":
        one = draw(wanted())
        request["instances"] = [{**one, "name": f"new{number}"} for number in range(draw(st.integers(1, 3)))]
    elif kind == "relocate":
        name = draw(st.sampled_from(mirrored))
        one = document["instances"][name]
        request |= {"name": name, "required_nodes": 1, "relocate_from": one["nodes"][1:]}
        request["disk_space_total"] = one["disk_space_total"]
    else:
        request["instances"] = [draw(st.sampled_from(placed))]
        request |= NO_TARGETS if kind == "change-group" else {"evac_mode": draw(st.sampled_from(EVAC_MODES))}
    return {**document, "request": request}


def of_hail(document: dict[str, Any]) -> dict[str, Any]:
    """What Ganeti's own allocator answers."""
    command = [HAIL, "--no-capacity-checks", "-"]
    done = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@settings(max_examples=300, derandomize=True, deadline=None)
@given(requests())
def test_it_answers_what_hail_answers(document: dict[str, Any]) -> None:
    """Yes where hail says yes, with a result of the same form; nodes may be others. Who hail can move is moved.

    Always the same requests: where instances are placed one after the other, either may paint itself into a corner.
    """
    ours, theirs = answer_to(document, ["-", "--no-capacity-checks", "--pairs"]), of_hail(document)
    assert ours["success"] == theirs["success"], (ours["info"], theirs["info"])
    kind = document["request"]["type"]
    if kind in ("node-evacuate", "change-group"):
        moved = {one[0] for one in theirs["result"][0]}
        assert {one[0] for one in ours["result"][0]} >= moved, (ours["result"], theirs["result"])
        assert len(ours["result"][2]) == len(ours["result"][0])
    elif kind == "multi-allocate" and ours["success"]:
        assert [one[0] for one in ours["result"][0]] == sorted(one[0] for one in theirs["result"][0])
    else:
        assert len(ours["result"]) == len(theirs["result"])
