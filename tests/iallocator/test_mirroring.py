"""Secondaries for instances whose primaries are chosen: what the driver for Ganeti plans with."""

from collections import Counter
from typing import Any

from bulkdeploy.iallocator.document import read_document
from bulkdeploy.iallocator.mirroring import Mirroring
from bulkdeploy.iallocator.refusal import Refusal
from tests.iallocator.documents import FLAVOURS, cluster, instance


def wanted(name: str, memory: int = 512, disk: int = 4096) -> dict[str, Any]:
    """A mirrored instance."""
    return {**instance((memory, 1, disk), "drbd"), "name": name}


def plan(nodes: int = 4, *, closed: tuple[str, ...] = (), **instances: tuple[str, str]) -> Mirroring:
    """A plan on a cluster with these instances of the largest flavour, on primary and secondary each."""
    document = cluster(nodes)
    for name, on in instances.items():
        document["instances"][name] = {**instance(FLAVOURS[-1], "drbd"), "nodes": list(on)}
        document["nodes"][on[0]]["free_memory"] -= FLAVOURS[-1][0]
    return Mirroring(read_document(document), closed=closed)


def test_a_batch_is_spread_and_no_instance_is_mirrored_on_its_primary() -> None:
    """Twelve on four nodes: each node mirrors three."""
    primaries = [f"node{number % 4:04d}" for number in range(12)]
    found = plan().mirror([(wanted(f"web{at}"), primary) for at, primary in enumerate(primaries)])
    assert all(secondary != primary for secondary, primary in zip(found, primaries, strict=True))
    assert set(Counter(map(str, found)).values()) == {3}


def test_nodes_keep_what_the_failure_of_another_would_bring() -> None:
    """Three instances whose secondary is a node take as much of its memory as if they ran there."""
    made = plan(2)
    assert made.mirror([(wanted(f"web{at}", memory=32768), "node0001") for at in range(3)]) == ["node0000"] * 3
    (refused,) = made.mirror([(wanted("db", memory=32768), "node0000")])
    assert isinstance(refused, Refusal)
    assert refused.reason == "node0000 cannot be the instance's primary: node node0000 lacks 1025 MiB of memory"


def test_a_closed_node_mirrors_nothing_new_and_is_left() -> None:
    """It may run what it runs; the secondary that it is goes elsewhere."""
    made = plan(3, closed=("node0001",), db=("node0000", "node0001"), web=("node0000", "node0002"))
    assert made.mirror([(wanted("new"), "node0000")]) == ["node0002"]
    assert made.new_secondary("db") == "node0002"
    assert made.new_secondary("web") is None
    assert made.new_secondary("unknown") is None


def test_what_is_about_to_be_made_counts() -> None:
    """A disk that a job is about to make leaves no capacity for another of that size."""
    made = plan(2)
    made.take(wanted("others", disk=3 << 20), ("node0000", "node0001"))
    made.take(wanted("others", disk=3 << 20), ("node0000", "gone"))
    (refused,) = made.mirror([(wanted("new", disk=1 << 20), "node0000")])
    assert isinstance(refused, Refusal)
    assert "MiB of disk space" in refused.reason


def test_a_node_that_lacks_disk_becomes_no_secondary() -> None:
    """The planner says how much is lacking; another one may."""
    made = plan(3, db=("node0000", "node0001"))
    made.take(wanted("others", disk=(4 << 20) - 8192), ("node0002", "node0000"))
    refused = made.moves_to("db", "node0002")
    assert refused is not None
    assert "node node0002 lacks" in refused.reason
    assert made.moves_to("db", "node0001") is None
