"""The program itself: what it reads, its exit status, and that it loads little."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.iallocator.document import MalformedDocument
from bulkdeploy.iallocator.program import FLAGS, answer_to, main
from tests.iallocator import documents
from tests.support.runs.waiting import PATIENCE_S

LOADED = """
import os, sys
from bulkdeploy.iallocator.program import run
status = run()
if os.path.isdir("/proc/self/task"):
    assert len(os.listdir("/proc/self/task")) == 1, "threads were started"
loaded = {name.partition(".")[0] for name in sys.modules if getattr(sys.modules[name], "__file__", None)}
print(*sorted(loaded - set(sys.stdlib_module_names)), file=sys.stderr)
sys.exit(status)
"""


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run it as a process of its own."""
    command = [sys.executable, "-c", LOADED, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S)


def test_it_reads_standard_input_and_loads_only_what_placement_needs() -> None:
    """It starts for every allocation: no web framework, database, schema library or thread comes with it."""
    request = {**documents.cluster(3), "request": {"type": "allocate", **documents.wanted(1, "drbd")[0]}}
    done = run("-", given=json.dumps(request))
    assert done.returncode == 0
    assert json.loads(done.stdout)["success"] is True
    assert {name for name in done.stderr.split() if not name.startswith(("__editable__", "_distutils"))} <= {
        "__main__",
        "bulkdeploy",
        "numpy",
        "_virtualenv",
    }


@pytest.mark.parametrize(
    ("value", "status"), [("", 0), ("=yes", 0), ("=True", 0), ("=no", 0), ("=false", 0), ("=1", 2), ("=maybe", 2)]
)
@pytest.mark.parametrize("flag", FLAGS)
def test_flags_may_have_the_values_that_ganeti_passes(
    flag: str, value: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ganeti passes --NAME or --NAME=VALUE; a value that is neither yes nor no is rejected by name."""
    path = tmp_path / "request.json"
    path.write_text(
        json.dumps({**documents.cluster(3), "request": {"type": "allocate", **documents.wanted(1, "drbd")[0]}})
    )
    try:
        ended = main([str(path), f"--{flag}{value}"])
    except SystemExit as error:
        ended = int(str(error.code))
    captured = capsys.readouterr()
    assert ended == status
    assert status == 0 or (f"--{flag}" in captured.err and value[1:] in captured.err)


def test_what_is_no_request_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a line that says what is wrong; nothing goes to standard output."""
    path = tmp_path / "request.json"
    for written, reason in (
        ("", "cannot read"),
        ("[]", "the document must be a JSON object"),
        ('{"version": 3}', "version must be 2, not 3"),
        (json.dumps({**documents.cluster(2), "request": {"type": "balance"}}), "request type must be one of"),
        (
            json.dumps({**documents.cluster(2), "request": {"type": "relocate", "name": "x"}}),
            "'x' is not in the cluster",
        ),
    ):
        path.write_text(written)
        assert main([str(path)]) == 1
        said = capsys.readouterr()
        assert reason in said.err
        assert said.out == ""
    assert main([str(tmp_path / "missing")]) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where everything in a document stands."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inside for found in paths(one, (*path, key)))]


@given(st.data())
def test_any_damaged_request_is_refused_or_answered(data: st.DataObject) -> None:
    """One member of a good request is replaced by anything: never another exception."""
    document = documents.cluster(3)
    documents.placed(document, "inst0", documents.instance(documents.FLAVOURS[0], "drbd"), ["node0000", "node0001"])
    document["request"] = data.draw(
        st.sampled_from(
            (
                {"type": "allocate", **documents.wanted(1, "drbd")[0]},
                {"type": "multi-allocate", "instances": documents.wanted(2, "plain")},
                {"type": "node-evacuate", "evac_mode": "all", "instances": ["inst0"]},
                {"type": "change-group", "target_groups": [], "instances": ["inst0"]},
                {"type": "relocate", "name": "inst0", "required_nodes": 1, "relocate_from": ["node0001"]},
            )
        )
    )
    *parents, last = data.draw(st.sampled_from(paths(document)[1:]))
    inner = document
    for key in parents:
        inner = inner[key]
    inner[last] = data.draw(JSON)
    try:
        answer = answer_to(document, ["-"])
    except MalformedDocument:
        return
    assert answer.keys() == {"success", "info", "result"}
