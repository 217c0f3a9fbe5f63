"""``bulkdeploy-iallocator`` answers what Ganeti's own allocator was recorded to answer, in shape and in kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from bulkdeploy.iallocator.program import main
from tests.iallocator.oracle import breaches

SAMPLES = {
    path.stem: json.loads(path.read_bytes()) for path in sorted((Path(__file__).parent / "samples").glob("*.json"))
}
PLACED = [
    name for name in SAMPLES if name.startswith(("allocate-", "multi-allocate")) and name != "allocate-secondary"
]
MOVED = [name for name in SAMPLES if name.startswith(("node-evacuate", "change-group"))]


def run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Any, str]:
    """Exit status, answer (None: none) and errors of the program for a recorded request."""
    sample = SAMPLES[name]
    path = tmp_path / "request.json"
    path.write_text(json.dumps(sample["input"]))
    status = main([*sample["flags"], *flags, str(path)])
    written = capsys.readouterr()
    return status, json.loads(written.out) if written.out else None, written.err


def shape(value: Any) -> Any:
    """What is left of an answer when every text and number is forgotten."""
    if isinstance(value, list):
        return [shape(one) for one in value]
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return type(value).__name__


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "multi-evacuate-removed"])
def test_the_answer_has_the_recorded_shape(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same exit status, same success, same structure; the failed of a bulk request are pairs when asked for."""
    recorded = SAMPLES[name]
    status, answer, errors = run(name, tmp_path, capsys, "--pairs")
    assert (status, shape(answer)) == (recorded["exit_code"], shape(recorded["output"]))
    if answer is not None:
        assert answer["success"] is recorded["output"]["success"]
    assert bool(errors) is bool(recorded["stderr"])


@pytest.mark.parametrize("name", PLACED)
def test_the_nodes_chosen_are_allowed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They obey the policies and have what the instances need; the recorded answer does, too."""
    document, request = SAMPLES[name]["input"], SAMPLES[name]["input"]["request"]
    _, answer, _ = run(name, tmp_path, capsys)
    if SAMPLES[name]["flags"] or answer is None:
        return
    wanted = {one["name"]: {**one} for one in request.get("instances", [request])}
    pairs = (
        answer["result"][0]
        if "instances" in request and answer["result"]
        else [[request.get("name"), answer["result"]]]
    )
    assert breaches(document, [(wanted[name], nodes) for name, nodes in pairs if nodes]) == []


@pytest.mark.parametrize("name", MOVED)
def test_what_is_moved_lies_elsewhere(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each instance of the request is moved or failed, once, and the nodes named in its job are its new ones."""
    document, request = SAMPLES[name]["input"], SAMPLES[name]["input"]["request"]
    _, answer, _ = run(name, tmp_path, capsys)
    moved, failed, jobs = answer["result"]
    assert sorted(one[0] for one in [*moved, *failed]) == sorted(request["instances"])
    for (instance, group, nodes), job in zip(moved, jobs, strict=True):
        assert {opcode["instance_name"] for opcode in job} == {instance}
        assert nodes != document["instances"][instance]["nodes"]
        assert {document["nodegroups"][document["nodes"][node]["group"]]["name"] for node in nodes} == {group}
        assert {opcode["remote_node"] for opcode in job if "remote_node" in opcode} <= set(nodes)


def test_a_refusal_names_the_request_the_resource_the_node_and_the_amount(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a bulk request, too, where Ganeti's own allocator names none of them."""
    _, answer, _ = run("multi-allocate-one-too-big", tmp_path, capsys)
    assert "new00001.example.com: node node0003.example.com lacks 1025 MiB of memory" in answer["info"]
    _, answer, _ = run("allocate-policy", tmp_path, capsys)
    assert "cpu-count must be from 1 to 8 in group group0, not 9" in answer["info"]


def test_failed_instances_of_a_bulk_request_are_plain_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ganeti checks the answer; reasons stand in the information."""
    _, answer, _ = run("multi-allocate-group-partial", tmp_path, capsys)
    assert answer["result"][1] == ["new00001.example.com"]


def test_an_instance_s_own_group_is_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where Ganeti puts it in bulk requests."""
    document = SAMPLES["multi-allocate-group-ignored"]["input"]
    _, answer, _ = run("multi-allocate-group-ignored", tmp_path, capsys)
    groups = {
        document["nodegroups"][document["nodes"][node]["group"]]["name"]
        for _, nodes in answer["result"][0]
        for node in nodes
    }
    assert groups == {"group1"}


def test_the_older_evacuation_request_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new secondary for every instance that has its own on one of the nodes: pairs of names."""
    document = SAMPLES["multi-evacuate-removed"]["input"]
    status, answer, _ = run("multi-evacuate-removed", tmp_path, capsys)
    leaving = set(document["request"]["evac_nodes"])
    there = {name for name, one in document["instances"].items() if leaving & set(one["nodes"][1:])}
    assert (status, answer["success"]) == (0, True)
    assert {name for name, _ in answer["result"]} == there
    assert all(node not in {*leaving, *document["instances"][name]["nodes"]} for name, node in answer["result"])
