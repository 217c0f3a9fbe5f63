"""What tags of nodes decide: desired locations, locations of mirrors, migrations; and spindles."""

from typing import Any

import pytest

from bulkdeploy.iallocator.program import answer_to
from tests.iallocator import documents

FLAVOUR = documents.FLAVOURS[1]


def _cluster(node_tags: list[list[str]], cluster_tags: list[str]) -> dict[str, Any]:
    document = documents.cluster(len(node_tags))
    document["cluster_tags"] = cluster_tags
    for name, tags in zip(sorted(document["nodes"]), node_tags, strict=True):
        document["nodes"][name]["tags"] = tags
    return document


def _allocate(document: dict[str, Any], template: str, **members: Any) -> dict[str, Any]:
    (wanted,) = documents.wanted(1, template, (FLAVOUR,))
    return dict(answer_to({**document, "request": {"type": "allocate", **wanted, **members}}, ["-"]))


@pytest.mark.parametrize("template", ["ext", "drbd"])
def test_a_primary_goes_to_its_desired_location(template: str) -> None:
    """A tag that the cluster does not declare decides nothing."""
    tags = ["power:a", "power:b", "power:c"]
    document = _cluster([[tag] for tag in tags], ["htools:desiredlocation:power", "htools:nlocation:power"])
    assert _allocate(document, template, tags=["power:b"])["result"][0] == "node0001"
    assert _allocate(document, template, tags=["colour:b"])["result"][0] != "node0001"


def test_a_mirror_goes_to_another_location() -> None:
    """Two nodes share a rack: the pair is never theirs."""
    document = _cluster([["rack:1"], ["rack:1"], ["rack:2"]], ["htools:nlocation:rack"])
    assert "node0002" in _allocate(document, "drbd")["result"]


RUNS_ON = ("node0000", "node0001", "node0002")


@pytest.mark.parametrize(
    ("allowed", "destination"), [([], "node0002"), (["htools:allowmigration:cpu:old::cpu:new"], "node0001")]
)
def test_migration_tags_say_where_instances_may_go(allowed: list[str], destination: str) -> None:
    """From a node with a tag only to one with the same tag, or with one that the cluster allows."""
    document = _cluster([["cpu:old"], ["cpu:new"], ["cpu:old"]], ["htools:migration:cpu", *allowed])
    documents.placed(document, "moves", documents.instance(FLAVOUR, "ext"), ["node0000"])
    for number in range(3):
        documents.placed(document, f"old{number}", documents.instance(FLAVOUR, "ext"), ["node0002"])
    request = {"type": "node-evacuate", "instances": ["moves"], "evac_mode": "primary-only"}
    moved, failed, _ = answer_to({**document, "request": request}, ["-"])["result"]
    assert (failed, moved[0][2]) == ([], [destination])
    relocate = {"type": "relocate", "name": "moves", "required_nodes": 1, "disk_space_total": 0}
    relocate["relocate_from"] = ["node0000"]
    assert answer_to({**document, "request": relocate}, ["-"])["result"] == [destination]


def test_a_mirrored_instance_does_not_fail_over_against_migration_tags() -> None:
    """Its secondary is a node that takes nothing from its primary: it is named as failed, with the reason."""
    document = _cluster([["cpu:new"], ["cpu:old"], []], ["htools:migration:cpu"])
    documents.placed(document, "moves", documents.instance(FLAVOUR, "drbd"), ["node0000", "node0001"])
    request = {"type": "node-evacuate", "instances": ["moves"], "evac_mode": "primary-only"}
    moved, failed, _ = answer_to({**document, "request": request}, ["-"])["result"]
    assert (moved, failed[0][0]) == ([], "moves")
    assert "migration tags" in failed[0][1]


def test_spindles_count_on_both_nodes_and_for_local_disks_only() -> None:
    """A node of one spindle at a ratio of one takes one local instance; those on shared storage are not counted."""
    document = _cluster([[], [], []], [])
    for group in document["nodegroups"].values():
        group["ipolicy"]["spindle-ratio"] = 1.0
    for node in document["nodes"].values():
        node["ndparams"]["spindle_count"] = 1
    for number, name in enumerate(sorted(document["nodes"])):
        documents.placed(document, f"shared{number}", documents.instance(FLAVOUR, "ext"), [name])
    documents.placed(document, "local", documents.instance(FLAVOUR, "plain"), ["node0000"])
    assert set(_allocate(document, "drbd")["result"]) == {"node0001", "node0002"}
    documents.placed(document, "other", documents.instance(FLAVOUR, "plain"), ["node0001"])
    answer = _allocate(document, "drbd")
    assert (answer["success"], "spindle" in answer["info"]) == (False, True)


def test_exclusive_storage_hands_out_whole_spindles() -> None:
    """A node without enough free spindles takes no instance; one that names no spindles is refused everywhere."""
    document = _cluster([[], []], [])
    for node, free in zip(document["nodes"].values(), (1, 3), strict=True):
        node["ndparams"]["exclusive_storage"] = True
        node |= {"total_spindles": 4, "free_spindles": free}
    assert _allocate(document, "plain", disks=[{"size": 1024, "spindles": 2}])["result"] == ["node0001"]
    answer = _allocate(document, "plain", disks=[{"size": 1024}])
    assert (answer["success"], "spindles" in answer["info"]) == (False, True)


def test_a_new_instance_costs_the_fewest_possible_allocations_where_all_storage_is_exclusive() -> None:
    """The fuller of two nodes takes the instance, although the cluster score and N+1 speak for the empty one.

    The policy's bound of spindles is for the disks, not for the instance's ``spindle_use``.
    """
    document = _cluster([[], []], [])
    for node in document["nodes"].values():
        node["ndparams"]["exclusive_storage"] = True
        node |= {"total_spindles": 4, "free_spindles": 4}
    for group in document["nodegroups"].values():
        (pair,) = group["ipolicy"]["minmax"]
        pair["min"] |= {"memory-size": 4096, "spindle-use": 2}
        pair["max"]["spindle-use"] = 2
    used = documents.instance(documents.FLAVOURS[2], "plain") | {"memory": documents.NODE_MEMORY - 6000}
    documents.placed(document, "used", used, ["node0001"])
    new = {"disks": [{"size": 20480, "spindles": 2}], "memory": 4096, "spindle_use": 9}
    assert _allocate(document, "plain", **new)["result"] == ["node0001"]
    answer = _allocate(document, "plain", **(new | {"disks": [{"size": 20480, "spindles": 3}]}))
    assert (answer["success"], "spindle-use must be from 2 to 2" in answer["info"]) == (False, True)


def test_the_number_of_nics_is_not_the_allocators_to_check() -> None:
    """As hail has it: a policy that asks for a nic does not keep an instance without one from any node."""
    document = _cluster([[], []], [])
    for group in document["nodegroups"].values():
        for pair in group["ipolicy"]["minmax"]:
            pair["min"]["nic-count"] = 1
    assert _allocate(document, "ext", nics=[])["success"]
