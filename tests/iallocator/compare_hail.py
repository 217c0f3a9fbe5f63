"""The requests of Ganeti's own tests of hail, answered by ``bulkdeploy-iallocator``.

    python -m tests.iallocator.compare_hail CHECKOUT

``CHECKOUT`` is a source tree of Ganeti 3. The script reads the commands and expectations of
test/hs/shelltests/htools-hail.test, prepares the files as test/hs/offline-test.sh does, and prints one line per
request: whether success, result and selected group are those that Ganeti expects. Texts of refusals are not
compared. The exit status is 1 if a request differs and OTHER_ANSWERS does not explain it. Requests that read the
cluster from a file of another format (``-t``, ``--simu``) or that only print the state are not part of the
allocator protocol. The script leaves them out.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

OURS = Path(sys.executable).parent / "bulkdeploy-iallocator"
OUTSIDE_THE_PROTOCOL = (" -t ", " --simu ", " -v ")
EVACUATION_MODES = ("primary-only", "secondary-only", "all")
WITH_EXCLUSIVE_STORAGE = (
    *("alloc-drbd", "alloc-invalid-twodisks", "alloc-twodisks", "alloc-spindles"),
    *("change-group", "node-evac", "reloc-drbd"),
)
OTHER_ANSWERS = {
    "hail-alloc-restricted-network.json": (
        "the instance to be created exists already, which Ganeti refuses before it calls an allocator"
    ),
}
"""Files whose requests are answered otherwise, and why."""


@dataclass(frozen=True, slots=True)
class Case:
    """A command of the test file, and what it must print and return."""

    command: str
    output: str
    succeeds: bool


def read_cases(checkout: Path) -> Iterator[Case]:
    """Return the commands of the test file that are requests of the allocator protocol."""
    text = (checkout / "test/hs/shelltests/htools-hail.test").read_text()
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        command = " ".join(line for line in lines if not line.startswith(">>>"))
        expected = [line for line in lines if line.startswith(">>>") and not line.startswith(">>>=")]
        if command and not any(option in command for option in OUTSIDE_THE_PROTOCOL):
            output = expected[0].partition("/")[2].rpartition("/")[0]
            yield Case(command, output, succeeds=not any(line.startswith(">>>= !0") for line in lines))


def prepare_files(data: Path, target: Path) -> None:
    """Write the variants of requests that Ganeti's test script derives from its files."""
    no_spindles = (r'"spindles": [0-9]+,', "")
    request = (data / "hail-node-evac.json").read_text()
    for mode in EVACUATION_MODES:
        changed = re.sub(*no_spindles, request).replace('"evac_mode": "all"', f'"evac_mode": "{mode}"')
        (target / f"hail-node-evac.json.{mode}").write_text(changed)
    for name in WITH_EXCLUSIVE_STORAGE:
        request = (data / f"hail-{name}.json").read_text()
        exclusive = request.replace('"exclusive_storage": false', '"exclusive_storage": true')
        (target / f"hail-{name}.json.excl-stor").write_text(exclusive)
        (target / f"hail-{name}.json.fail-excl-stor").write_text(re.sub(*no_spindles, exclusive))


def find_difference(case: Case, environment: dict[str, str]) -> str | None:
    """Run the case with the allocator of this project and return the first difference, or None."""
    command = case.command.replace("./test/hs/hail", shlex.quote(str(OURS)))
    ended = subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    if not case.succeeds:
        return None if ended.returncode else f"exit status 0, output {ended.stdout.strip()}"
    if ended.returncode:
        return f"exit status {ended.returncode}: {ended.stderr.strip()}"
    answer = json.loads(ended.stdout)
    compact = json.dumps(answer, separators=(",", ":"))
    patterns = re.findall(r'"success":\w+|"result":.*|\d+ instances failed to move and \d+', case.output)
    group = re.search(r"Selected group: ([\w ]+)", case.output)
    if group:
        patterns.append(f"group {group[1]}")
    missing = [pattern for pattern in patterns if not re.search(pattern, compact)]
    return f"no {missing[0]} in {compact[:300]}" if missing else None


def main() -> int:
    """Compare all cases and print a line for each; the exit status."""
    checkout = Path(sys.argv[1]).resolve()
    data = checkout / "test/data/htools"
    unexplained = agreeing = explained = 0
    with TemporaryDirectory() as directory:
        prepare_files(data, Path(directory))
        environment = {**os.environ, "TESTDATA_DIR": str(data), "T": directory}
        for case in read_cases(checkout):
            difference = find_difference(case, environment)
            reason = next((why for name, why in OTHER_ANSWERS.items() if name in case.command), None)
            if difference is None:
                agreeing += 1
                sys.stdout.write(f"agrees   {case.command}\n")
            elif reason:
                explained += 1
                sys.stdout.write(f"differs  {case.command}: {reason}\n")
            else:
                unexplained += 1
                sys.stdout.write(f"DIFFERS  {case.command}: {difference}\n")
    sys.stdout.write(f"{agreeing} agree, {explained} differ for a known reason, {unexplained} differ\n")
    return 1 if unexplained or not agreeing else 0


if __name__ == "__main__":
    sys.exit(main())
