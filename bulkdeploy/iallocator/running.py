"""The execution of foreign allocator programs, whose answers are checked completely."""

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
    """Raised when an allocator program did not place the instances. The text is the reason."""


def run_allocator(program: Path, document: Mapping[str, Any], *, timeout_s: float) -> Any:
    """Run an allocator program with a request, and return its ``result`` unchanged.

    Raises:
        NoAnswer: it refused, failed, took too long, or answered something else than the protocol says.
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
        raise NoAnswer(f"its output is not an answer: {_shown(ended.printed)}") from error
    if success is not True:
        raise NoAnswer(_shown(info))
    return result


def allocated(result: object, names: Sequence[str], nodes: Mapping[str, int]) -> Counter[int]:
    """Return how many of the instances of a bulk request each host gets, by the ids that ``nodes`` has.

    Raises:
        NoAnswer: the answer is not one place for each of these instances.
    """
    if not isinstance(result, list) or len(result) != 2 or not all(isinstance(part, list) for part in result):
        raise NoAnswer(
            f"its answer does not have the format of an answer to a bulk request: {_shown(json.dumps(result))}"
        )
    placed, failed = result
    if failed:
        raise NoAnswer(f"it places {len(placed)} of {len(names)}")
    found: dict[str, int] = {}
    for one in placed:
        if not isinstance(one, list) or len(one) != 2 or not isinstance(one[0], str):
            raise NoAnswer(
                f"its answer does not have the format of an answer to a bulk request: {_shown(json.dumps(one))}"
            )
        found[one[0]] = host_of(one[1], nodes)
    if len(placed) != len(names) or found.keys() != set(names):
        raise NoAnswer(f"its answer names {len(found)} instances, not just the {len(names)} that were asked for")
    return Counter(found.values())


def host_of(result: object, nodes: Mapping[str, int]) -> int:
    """Return the host of an answer that is one node.

    Raises:
        NoAnswer: it is not one node that there is.
    """
    if not isinstance(result, list) or len(result) != 1 or not isinstance(result[0], str):
        raise NoAnswer(f"its answer must name one node, not {_shown(json.dumps(result))}")
    if result[0] not in nodes:
        raise NoAnswer(f"its answer names {_shown(result[0])}, which is no host of the zone")
    return nodes[result[0]]


def evacuated(result: object, names: Sequence[str], nodes: Mapping[str, int]) -> dict[str, int]:
    """Return the host of each instance that an evacuation moves; the instances have one node each.

    Raises:
        NoAnswer: the answer has another form, or leaves instances out.
    """
    if not isinstance(result, list) or len(result) != 3 or not all(isinstance(part, list) for part in result):
        raise NoAnswer(
            f"its answer does not have the format of an answer to an evacuation: {_shown(json.dumps(result))}"
        )
    try:
        moved = {str(name): host_of(to, nodes) for name, _, to in result[0]}
        stay = {str(name) for name, _ in result[1]}
    except (ValueError, TypeError) as error:
        raise NoAnswer(
            f"its answer does not have the format of an answer to an evacuation: {_shown(json.dumps(result))}"
        ) from error
    if moved.keys() | stay != set(names):
        raise NoAnswer(
            f"its answer names {len(moved.keys() | stay)} instances, not just the {len(names)} of the host"
        )
    return moved


def _shown(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN_CHARACTERS else f"{words[:SHOWN_CHARACTERS]}..."
