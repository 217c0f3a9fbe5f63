"""Runs allocator programs of others, and checks their answers completely."""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bulkdeploy.processes.run_program import ProgramKilled, ProgramNotRun, run_program

MOST_BYTES = 64 << 20
SHOWN_CHARACTERS = 300


class NoAnswer(Exception):
    """An allocator program did not place the instances. The text is the reason."""


def run_allocator(program: Path, document: Mapping[str, Any], *, timeout_s: float) -> Any:
    """Run an allocator program with a request, and return the ``result`` of its answer.

    Raises:
        NoAnswer: the program refused, failed, took too long, or printed something that is not an answer.
    """
    with tempfile.TemporaryDirectory(prefix="bulkdeploy-allocator-") as folder:
        file = Path(folder) / "request.json"
        file.write_text(json.dumps(document))
        try:
            ended = run_program([str(program), str(file)], timeout_s=timeout_s, most_bytes=MOST_BYTES)
        except (ProgramNotRun, ProgramKilled) as error:
            raise NoAnswer(str(error)) from error
    if ended.code != 0:
        raise NoAnswer(f"{ended.how}: {_shown(ended.complained or ended.printed)}")
    try:
        answer = json.loads(ended.printed)
        success, info = answer["success"], str(answer["info"])
        result = answer["result"] if "result" in answer else answer["nodes"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NoAnswer(f"the program's output is not an answer: {_shown(ended.printed)}") from error
    if success is not True:
        raise NoAnswer(_shown(info))
    return result


def allocated(result: object, names: Sequence[str], nodes: Mapping[str, int]) -> Counter[int]:
    """Return the number of instances that each host gets in the answer to a bulk request.

    ``nodes`` has the host id of each node name.

    Raises:
        NoAnswer: the answer does not have exactly one node for each of the instances ``names``.
    """
    if not isinstance(result, list) or len(result) != 2 or not all(isinstance(part, list) for part in result):
        raise NoAnswer(f"the program's output is not an answer to a bulk request: {_shown(json.dumps(result))}")
    placed, failed = result
    if failed:
        raise NoAnswer(f"the program reports {len(failed)} of {len(names)} instances as failed")
    found: dict[str, int] = {}
    for one in placed:
        if not isinstance(one, list) or len(one) != 2 or not isinstance(one[0], str):
            raise NoAnswer(f"the program's output is not an answer to a bulk request: {_shown(json.dumps(one))}")
        found[one[0]] = host_of(one[1], nodes)
    if len(placed) != len(names) or found.keys() != set(names):
        raise NoAnswer(f"the program's answer has {len(found)} instances, not exactly the {len(names)} requested")
    return Counter(found.values())


def host_of(result: object, nodes: Mapping[str, int]) -> int:
    """Return the host id of an answer that must be a list with one node name.

    Raises:
        NoAnswer: the answer is not a list with the name of one existing node.
    """
    if not isinstance(result, list) or len(result) != 1 or not isinstance(result[0], str):
        raise NoAnswer(f"the program's answer must name one node, not {_shown(json.dumps(result))}")
    if result[0] not in nodes:
        raise NoAnswer(f"the program's answer has {_shown(result[0])}, which is not a host of the zone")
    return nodes[result[0]]


def evacuated(result: object, names: Sequence[str], nodes: Mapping[str, int]) -> dict[str, int]:
    """Return the new host id of each instance that the answer to an evacuation moves.

    Each instance has one node.

    Raises:
        NoAnswer: the answer has another format, or its instances are not exactly ``names``.
    """
    if not isinstance(result, list) or len(result) != 3 or not all(isinstance(part, list) for part in result):
        raise NoAnswer(f"the program's output is not an answer to an evacuation: {_shown(json.dumps(result))}")
    try:
        moved = {str(name): host_of(to, nodes) for name, _, to in result[0]}
        stay = {str(name) for name, _ in result[1]}
    except (ValueError, TypeError) as error:
        raise NoAnswer(
            f"the program's output is not an answer to an evacuation: {_shown(json.dumps(result))}"
        ) from error
    if moved.keys() | stay != set(names):
        raise NoAnswer(
            f"the program's answer has {len(moved.keys() | stay)} instances, not the {len(names)} of the host"
        )
    return moved


def _shown(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN_CHARACTERS else f"{words[:SHOWN_CHARACTERS]}..."
