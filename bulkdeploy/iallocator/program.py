"""``bulkdeploy-iallocator``: the planner as an allocator program for Ganeti (docs/how-to/ganeti-allocator.md).

The argument is a file with the request (``-`` is standard input). The answer is written to standard output. The
exit status is 0, also if ``success`` is false in the answer, and 1 if the request is malformed. Ganeti starts the
program for every allocation, so modules for placement are only imported when they are needed.
"""

import argparse
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FLAGS = {
    "pairs": "list failed instances of a bulk request as [name, reason], not as names",
    "ignore-soft-errors": "ignore CPU and spindle ratios, exclusion tags, and memory for mirrored instances",
    "no-capacity-checks": "do not reserve memory to restart the unmirrored instances of a failed node",
}
OBJECTIVES = ("hbal", "leastused")
"""The objectives of ``placing``, which is imported only after a request was read."""

FLAG_VALUES = {"yes": True, "true": True, "no": False, "false": False}


def run() -> int:
    """Run ``main`` with a faster start, and return the exit status.

    numpy's linear algebra library would start a thread for each core, which takes longer than importing numpy, and
    this program does not use linear algebra. A value that operators have set is not changed.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Read one request, print the answer, and return the exit status."""
    options = _options(arguments)
    try:
        document = json.loads(sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return _malformed(f"cannot read {options.file}: {error}")
    from bulkdeploy.iallocator.document import MalformedDocument

    try:
        answer = _answered(document, options)
    except MalformedDocument as error:
        return _malformed(str(error))
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def answer_to(document: object, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Return the answer to a parsed request, with the program's command-line arguments.

    Raises:
        MalformedDocument: the request is malformed.
    """
    return _answered(document, _options(arguments))


def _answered(document: object, options: argparse.Namespace) -> Mapping[str, Any]:
    from bulkdeploy.iallocator import answers, evacuation
    from bulkdeploy.iallocator.cluster import GanetiCluster
    from bulkdeploy.iallocator.document import MalformedDocument, get, read_document
    from bulkdeploy.iallocator.placing import Checks, Placing

    by_type: dict[str, answers.Answers] = {
        "allocate": answers.allocate,
        "multi-allocate": answers.multi_allocate,
        "relocate": answers.relocate,
        "node-evacuate": evacuation.node_evacuate,
        "change-group": evacuation.change_group,
        "allocate-secondary": answers.allocate_secondary,
        "multi-evacuate": answers.multi_evacuate,
    }
    read = read_document(document)
    wanted = get(read.request, "type", str, "the request")
    if wanted not in by_type:
        raise MalformedDocument(f"request type must be one of {', '.join(by_type)}, not {wanted!r}")
    cluster = GanetiCluster(read)
    checks = Checks(
        soft=not options.ignore_soft_errors, capacity=not options.no_capacity_checks, objective=options.objective
    )
    try:
        answer = by_type[wanted](answers.Work(cluster, Placing(cluster, checks), options.pairs), read.request)
    except answers.Refused as error:
        return {"success": False, "info": f"Request failed: {error}", "result": []}
    return {"success": True, "info": f"Request successful: {answer.info}", "result": answer.result}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("bulkdeploy-iallocator", description="Answers an allocator request of Ganeti.")
    parser.add_argument("file", metavar="FILE", help="the request as JSON; -: standard input")
    for name, meaning in FLAGS.items():
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
        help="how to choose among nodes: by Ganeti's cluster score, or the least used (default: %(default)s)",
    )
    given = sys.argv[1:] if arguments is None else arguments
    return parser.parse_args([one for argument in given for one in _plain(parser, argument)])


def _plain(parser: argparse.ArgumentParser, argument: str) -> list[str]:
    """Return an argument in the form that argparse needs.

    Ganeti passes a flag as ``--NAME=yes`` or ``--NAME=no``, which become ``--NAME`` and nothing.
    """
    name, is_given, value = argument.partition("=")
    if not is_given or name.removeprefix("--") not in FLAGS or not name.startswith("--"):
        return [argument]
    if value.lower() not in FLAG_VALUES:
        parser.error(f"argument {name}: must be one of {', '.join(FLAG_VALUES)}, not {value!r}")
    return [name] if FLAG_VALUES[value.lower()] else []


def _malformed(reason: str) -> int:
    sys.stderr.write(f"Error: {reason}\n")
    return 1
