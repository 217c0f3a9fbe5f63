"""Ganeti's cluster score: predictions for an instance hold once it is placed, and bulk placements lower it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.iallocator.cluster import GanetiCluster
from bulkdeploy.iallocator.cluster_score import GroupScore
from bulkdeploy.iallocator.document import Instance, read_document, wanted_instance
from bulkdeploy.iallocator.program import answer_to
from tests.iallocator import documents
from tests.support.runs.properties import examples

TAGS = ("service:dns", "service:mail", "rack:r0", "rack:r1")
CLUSTER_TAGS = ["htools:iextags:service", "htools:nlocation:rack", "htools:desiredlocation:rack"]


def _document(nodes: int, template: str, given: list[tuple[int, int, int, str]]) -> dict[str, Any]:
    """A cluster with a rack tag on each node, and instances: flavour, primary, secondary, tag."""
    document = documents.cluster(nodes)
    document["cluster_tags"] = CLUSTER_TAGS
    names = sorted(document["nodes"])
    for at, name in enumerate(names):
        document["nodes"][name]["tags"] = [f"rack:r{at % 2}"]
    for number, (flavour, primary, secondary, tag) in enumerate(given):
        members = {**documents.instance(documents.FLAVOURS[flavour], template), "tags": [tag]}
        on = [names[primary % nodes], names[(primary + 1 + secondary % (nodes - 1)) % nodes]]
        documents.placed(document, f"old{number}", members, on if template == "drbd" else on[:1])
    return document


PLACED = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5), st.sampled_from(TAGS)), max_size=12
)


@examples(100)
@given(
    nodes=st.integers(2, 6),
    template=st.sampled_from(["drbd", "ext", "plain"]),
    there=PLACED,
    tag=st.sampled_from(TAGS),
)
def test_what_is_predicted_is_what_the_cluster_scores(
    nodes: int, template: str, there: list[tuple[int, int, int, str]], tag: str
) -> None:
    """On every node, and on every pair of nodes, with tags of exclusion, location and desired location."""
    cluster = GanetiCluster(read_document(_document(nodes, template, there)))
    scores = GroupScore(cluster, 0)
    members = {**documents.instance(documents.FLAVOURS[2], template), "tags": [tag], "name": "new"}
    new = wanted_instance(members)
    before = scores.now()
    if template != "drbd":
        predicted = scores.of_primaries(new)
        _check(cluster, scores, new, {(at,): predicted[at] for at in range(nodes)})
    else:
        lines = scores.of_pairs(new, np.arange(nodes))
        pairs: dict[tuple[int, ...], float] = {
            (p, s): lines[p, s] for p in range(nodes) for s in range(nodes) if p != s
        }
        _check(cluster, scores, new, pairs)
    assert scores.now() == pytest.approx(before)


def _check(
    cluster: GanetiCluster, scores: GroupScore, new: Instance, predicted: dict[tuple[int, ...], float]
) -> None:
    for nodes, score in predicted.items():
        cluster.place(new, nodes)
        assert scores.now() == pytest.approx(score), nodes
        cluster.take_away(new, nodes)


@pytest.mark.parametrize("template", ["drbd", "ext"])
def test_a_bulk_request_scores_less_than_one_after_the_other(template: str) -> None:
    """The objective of the program is the score: with the least used node first, clusters score more."""
    document = _document(6, template, [(flavour % 4, 0, flavour, "x") for flavour in range(6)])
    document = documents.multi_allocate(document, documents.wanted(17, template))
    scored = {}
    for objective in ("hbal", "leastused"):
        answer = answer_to(document, ["-", "--objective", objective])
        assert answer["success"], answer
        cluster = GanetiCluster(read_document(document))
        new = {one["name"]: wanted_instance(one) for one in document["request"]["instances"]}
        for name, nodes in answer["result"][0]:
            cluster.place(new[name], [cluster.position[node] for node in nodes])
        scored[objective] = GroupScore(cluster, 0).now()
    assert scored["hbal"] < scored["leastused"]
