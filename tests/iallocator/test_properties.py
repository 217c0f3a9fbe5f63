"""Of any cluster: nodes that are given are allowed, and a refusal means that there are none."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.iallocator.program import answer_to
from tests.iallocator import documents
from tests.iallocator.oracle import breaches, possible

SMALL = (2048, 1, 10240)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """A few nodes, some not for use, with little free, and instances that lie on them."""
    document = documents.cluster(draw(st.integers(1, 6)), draw(st.integers(1, 2)))
    document["cluster_tags"] = ["htools:iextags:service"]
    for group in document["nodegroups"].values():
        group["alloc_policy"] = draw(st.sampled_from(("preferred", "preferred", "last_resort", "unallocable")))
        group["ipolicy"]["vcpu-ratio"] = draw(st.sampled_from((0.1, 4.0)))
    names = list(document["nodes"])
    for node in document["nodes"].values():
        node["free_memory"] = draw(st.sampled_from((2048, 2049, 10240, 20480)))
        node["free_disk"] = draw(st.sampled_from((10368, 10369, 409600)))
        node["offline"] = draw(st.sampled_from((False, False, False, True)))
        node["drained"] = draw(st.sampled_from((False, False, False, True)))
        node["ndparams"]["exclusive_storage"] = draw(st.booleans())
        node["free_spindles"] = draw(st.integers(0, 2))
    for number in range(draw(st.integers(0, 6))):
        members = documents.instance(SMALL, draw(st.sampled_from(("drbd", "plain"))))
        members["tags"] = draw(st.sampled_from(([], ["service:dns"])))
        primary = draw(st.sampled_from(names))
        peers = [name for name in names if document["nodes"][name]["group"] == document["nodes"][primary]["group"]]
        secondary = draw(st.sampled_from(peers))
        mirrored = members["disk_template"] == "drbd" and secondary != primary
        members["disk_template"] = "drbd" if mirrored else "plain"
        nodes = [primary, secondary] if mirrored else [primary]
        state = draw(st.sampled_from(("up", "down")))
        document["instances"][f"inst{number}"] = {**members, "nodes": nodes, "admin_state": state}
    return document


@st.composite
def wanted(draw: st.DrawFn) -> dict[str, Any]:
    """An instance to place."""
    template = draw(st.sampled_from(("drbd", "plain", "diskless", "ext")))
    (members,) = documents.wanted(1, template, (draw(st.sampled_from((*documents.FLAVOURS, (2048, 9, 10240)))),))
    if template == "diskless":
        members.update(disks=[], disk_space_total=0)
    return {**members, "tags": draw(st.sampled_from(([], ["service:dns"])))}


@given(clusters(), wanted())
def test_one_instance_goes_to_nodes_that_take_it_or_there_are_none(
    document: dict[str, Any], instance: dict[str, Any]
) -> None:
    """Checked against every node, or pair of nodes."""
    request = {**document, "request": {"type": "allocate", **instance}}
    answer = answer_to(request, ["-", "--no-capacity-checks"])
    allowed = possible(document, instance)
    assert answer["success"] is bool(allowed)
    if allowed:
        assert tuple(answer["result"]) in allowed


@given(clusters(), st.lists(wanted(), max_size=6))
def test_many_instances_fit_together(document: dict[str, Any], instances: list[dict[str, Any]]) -> None:
    """Each is placed or failed, in their order, and those placed obey every rule together."""
    wanted_ones = [{**one, "name": f"new{number}"} for number, one in enumerate(instances)]
    request = documents.multi_allocate(document, wanted_ones)
    request["request"]["group_name"] = "group0"
    answer = answer_to(request, ["-", "--no-capacity-checks"])
    placed, failed = answer["result"]
    names = [name for name, _ in placed]
    assert sorted([*names, *failed]) == sorted(one["name"] for one in wanted_ones)
    assert names == sorted(names)
    by_name = {one["name"]: {**one, "group_name": "group0"} for one in wanted_ones}
    assert breaches(document, [(by_name[name], nodes) for name, nodes in placed]) == []


def test_load_is_spread() -> None:
    """Alike instances evenly over nodes; of mixed sizes each node's memory is used nearly alike, primaries 2 to 8.

    Ganeti's own allocator leaves a standard deviation of 0.06 of a node's memory in such cases.
    """
    empty = documents.cluster(20)
    alike = documents.wanted(100, "drbd", (documents.FLAVOURS[1],))
    pairs = answer_to(documents.multi_allocate(empty, alike), ["-"])["result"][0]
    assert sorted([nodes[0] for _, nodes in pairs].count(node) for node in empty["nodes"]) == [5] * 20
    mixed = documents.wanted(100, "drbd")
    pairs = answer_to(documents.multi_allocate(empty, mixed), ["-"])["result"][0]
    memory = dict.fromkeys(empty["nodes"], 0)
    for wanted_one, (_, nodes) in zip(mixed, pairs, strict=True):
        memory[nodes[0]] += wanted_one["memory"]
    mean = sum(memory.values()) / 20
    deviation = (sum((used - mean) ** 2 for used in memory.values()) / 20) ** 0.5
    assert deviation / documents.NODE_MEMORY < 0.02


def test_memory_is_kept_for_the_instances_of_any_one_node() -> None:
    """Of instances without a secondary a cluster takes no more than all nodes but one hold; fewer checks, more."""
    document = documents.cluster(4)
    eight_gib = (8192, 1, 10240)
    for template in ("plain", "ext"):
        request = documents.multi_allocate(document, documents.wanted(60, template, (eight_gib,)))
        request["request"]["group_name"] = "group0"
        placed, failed = answer_to(request, ["-"])["result"]
        assert (len(placed), len(failed)) == (45, 15)
        placed, failed = answer_to(request, ["-", "--no-capacity-checks"])["result"]
        assert (len(placed), len(failed)) == (60, 0)


def test_a_secondary_is_in_another_location_if_there_is_one() -> None:
    """Locations are node tags that a cluster tag declares."""
    document = documents.cluster(4)
    document["cluster_tags"] = ["htools:nlocation:power"]
    for number, node in enumerate(document["nodes"].values()):
        node["tags"] = [f"power:{number % 2}"]
    pairs = answer_to(documents.multi_allocate(document, documents.wanted(20, "drbd")), ["-"])["result"][0]
    assert {(int(first[-1]) + int(second[-1])) % 2 for _, (first, second) in pairs} == {1}
