"""``bulkdeploy-iallocator``: the planner as an allocator program of Ganeti (docs/how-to/ganeti-allocator.md).

One argument, a file with the request (``-``: standard input); the answer goes to standard output. Exit status 0
also for refusals, then ``success`` is false; 1 for what is no request. It is started for every allocation:
placement is loaded only once there is something to place.
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
    "ignore-soft-errors": "pass over CPU and spindle ratios, exclusion tags, and memory for mirrored instances",
    "no-capacity-checks": "do not keep memory to restart the instances of a failed node that are not mirrored",
}
OBJECTIVES = ("hbal", "leastused")
"""As in ``placing``, which is loaded later."""

FLAG_VALUES = {"yes": True, "true": True, "no": False, "false": False}


def run() -> int:
    """Run ``main`` as a process of its own with a faster start, and return its exit status.

    The linear algebra library of numpy starts a thread for each core, which takes more time than all of numpy, and
    nothing here is linear algebra. What operators have set stays.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one request, print the answer, and return the exit status."""
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
    """Return the answer to a parsed request, in the form of the protocol; arguments as the program takes them.

    Raises:
        MalformedDocument: it is not a request.
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
        help="what decides among nodes: Ganeti's cluster score, or the least used node (default: %(default)s)",
    )
    given = sys.argv[1:] if arguments is None else arguments
    return parser.parse_args([one for argument in given for one in _plain(parser, argument)])


def _plain(parser: argparse.ArgumentParser, argument: str) -> list[str]:
    """Return a flag with a value, as Ganeti passes it for NAME=yes, as a flag without one, or as nothing for no."""
    name, is_given, value = argument.partition("=")
    if not is_given or name.removeprefix("--") not in FLAGS or not name.startswith("--"):
        return [argument]
    if value.lower() not in FLAG_VALUES:
        parser.error(f"argument {name}: must be one of {', '.join(FLAG_VALUES)}, not {value!r}")
    return [name] if FLAG_VALUES[value.lower()] else []


def _malformed(reason: str) -> int:
    sys.stderr.write(f"Error: {reason}\n")
    return 1
