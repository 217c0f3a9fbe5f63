"""Results of CloudStack's integration tests, those that are expected, and tables of both.

``python -m tests.marvin.results`` prints how many tests need nothing that bulkdeploy leaves out, and how many of
these pass. ``--reports FOLDER`` first stores the results in a folder of reports as the expected ones. ``--check``
fails if docs/reference/cloudstack-integration-tests.md is out of date.
"""

import argparse
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

EXPECTED_FILE = Path(__file__).with_name("expected.toml")
UNEXPLAINED = "not examined yet"
SET_UP = re.compile(r".*context=(\w+)>:setup")
"""A line about the set-up of a class of tests, which is there only if the set-up failed or skipped itself."""

GOAL = (260, 293)
"""The goal: so many of the tests that need nothing that is left out, in the tests of the first run."""


class Outcome(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """Why a test fails. Tests with the causes that stand before OUT_OF_SCOPE are listed without a sentence."""

    ROUTER = "router"
    SYSTEM_VM = "system_vm"
    GUEST_LOGIN = "guest_login"
    HARDWARE = "hardware"
    OUT_OF_SCOPE = "out_of_scope"
    OURS = "ours"


CAUSES = {
    Cause.ROUTER: "needs a virtual router, public IP addresses, a VPC or their services",
    Cause.SYSTEM_VM: "needs system VMs",
    Cause.GUEST_LOGIN: "logs in to a guest",
    Cause.HARDWARE: "needs hardware, another hypervisor or a program that simulates hardware",
    Cause.OUT_OF_SCOPE: "out of scope",
    Cause.OURS: "not correct yet",
}
"""The words that the tables show for each cause."""

WITH_SENTENCE = (Cause.OUT_OF_SCOPE, Cause.OURS)


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected outcome of a test.

    Attributes:
        outcome: how the test ends.
        cause: why the test fails; None for tests that do not fail.
        sentence: an explanation of the causes OUT_OF_SCOPE and OURS; otherwise empty.
    """

    outcome: Outcome
    cause: Cause | None = None
    sentence: str = ""

    @property
    def reason(self) -> str:
        """Return the text that the tables show for a test that fails."""
        if self.cause is None:
            return ""
        return f"{CAUSES[self.cause]}: {self.sentence}" if self.sentence else CAUSES[self.cause]


def read_outcomes(name: str, collected: Path, report: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield the identifier and the outcome of each test of a file.

    Args:
        name: the file's name without its suffix.
        collected: the report of a run that only collected the tests.
        report: the report of the run. A test that is not in the report has failed, such as all tests of a class
            whose set-up failed. If the set-up skipped itself, they were skipped.
    """
    ran = dict(_cases(report)) if report.exists() else {}
    set_up = {found[1]: outcome for case, outcome in ran.items() if (found := SET_UP.fullmatch(case))}
    for test, _ in _cases(collected):
        yield f"{name}:{test}", ran.get(test, set_up.get(test.split(".")[0], Outcome.FAILED))


def _cases(report: Path) -> Iterator[tuple[str, Outcome]]:
    for line in report.read_text().splitlines():
        test, outcome = line.rsplit(" ", 1)
        yield test, Outcome(outcome)


def read_expected() -> Mapping[str, Expected]:
    """Return the expected outcome of each test by the test's identifier."""
    content = tomllib.loads(EXPECTED_FILE.read_text()) if EXPECTED_FILE.exists() else {}
    expected: dict[str, Expected] = {}
    for name, groups in content.items():
        for group, tests in groups.items():
            expected |= {f"{name}:{test}": entry for test, entry in _entries(group, tests)}
    return expected


def _entries(group: str, tests: Collection[str] | Mapping[str, str]) -> Iterator[tuple[str, Expected]]:
    if group in (Outcome.PASSED, Outcome.SKIPPED):
        yield from ((test, Expected(Outcome(group))) for test in tests)
    elif isinstance(tests, Mapping):
        yield from ((test, Expected(Outcome.FAILED, Cause(group), text)) for test, text in tests.items())
    else:
        yield from ((test, Expected(Outcome.FAILED, Cause(group))) for test in tests)


def compare(outcomes: Mapping[str, Outcome], files: Collection[str]) -> list[str]:
    """Return a line for each test of ``files`` whose outcome is not the expected one."""
    expected = {test: entry.outcome for test, entry in read_expected().items() if test.split(":")[0] in files}
    return [
        f"{test}: {outcomes.get(test, 'missing')}, expected: {expected.get(test, 'not listed')}"
        for test in sorted({*expected, *outcomes})
        if expected.get(test) is not outcomes.get(test)
    ]


def save(outcomes: Mapping[str, Outcome]) -> None:
    """Write outcomes as the expected ones; files of tests that did not run and causes of failures are kept."""
    expected = dict(read_expected())
    ran = {test.split(":")[0] for test in outcomes}
    kept = {test: entry for test, entry in expected.items() if test.split(":")[0] not in ran}
    write_expected(kept | {test: _entry(expected.get(test), outcome) for test, outcome in outcomes.items()})


def write_expected(expected: Mapping[str, Expected]) -> None:
    """Write the file of expected outcomes."""
    by_file: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for test, entry in sorted(expected.items()):
        name, case = test.split(":", 1)
        by_file[name][entry.cause or entry.outcome][case] = entry.sentence
    EXPECTED_FILE.write_text(HEADER + "".join(_section(name, groups) for name, groups in by_file.items()))


HEADER = """\
# Expected results of CloudStack's integration tests: `python -m tests.marvin ... --save` writes this file.
# Tests that fail are listed by cause (class Cause in results.py).
"""


def _entry(known: Expected | None, outcome: Outcome) -> Expected:
    if known is not None and known.outcome is outcome:
        return known
    return Expected(outcome, Cause.OURS, UNEXPLAINED) if outcome is Outcome.FAILED else Expected(outcome)


def _section(name: str, groups: Mapping[str, Mapping[str, str]]) -> str:
    plain = (Outcome.PASSED, Outcome.SKIPPED, *(cause for cause in Cause if cause not in WITH_SENTENCE))
    lines = [f"\n[{name}]\n"]
    lines += [
        f"{group} = [\n" + "".join(f'    "{case}",\n' for case in groups[group]) + "]\n"
        for group in plain
        if groups.get(group)
    ]
    for cause in WITH_SENTENCE:
        if groups.get(cause):
            lines.append(f"\n[{name}.{cause}]\n")
            lines += [f'"{case}" = "{sentence}"\n' for case, sentence in groups[cause].items()]
    return "".join(lines)


def count_needs(expected: Mapping[str, Expected]) -> list[tuple[str, int]]:
    """Return the numbers of tests by what they need and how they end, with the goal in the last line."""
    causes = Counter(entry.cause for entry in expected.values())
    outcomes = Counter(entry.outcome for entry in expected.values())
    in_scope = outcomes[Outcome.PASSED] + causes[Cause.OURS]
    return [
        ("all tests", len(expected)),
        ("skip themselves on this hypervisor", outcomes[Outcome.SKIPPED]),
        *((text, causes[cause]) for cause, text in CAUSES.items() if cause is not Cause.OURS),
        ("**all others**", in_scope),
        ("of these: passed", outcomes[Outcome.PASSED]),
        ("of these: not correct yet", causes[Cause.OURS]),
        (f"passed according to the goal, {GOAL[0]} of {GOAL[1]}", -(-in_scope * GOAL[0] // GOAL[1])),
    ]


def page() -> str:
    """Return the page of the expected results: what tests need, results by file, and causes of failures."""
    expected = read_expected()
    names = sorted({test.split(":")[0] for test in expected})
    needs = "".join(f"| {text} | {count} |\n" for text, count in count_needs(expected))
    rows, reasons = [], []
    for name in names:
        of_file = [entry for test, entry in expected.items() if test.split(":")[0] == name]
        counts = Counter(entry.cause or entry.outcome for entry in of_file)
        rows.append(f"| {name} | " + " | ".join(str(counts[group] or "") for group in COLUMNS) + " |\n")
        for reason, count in Counter(entry.reason for entry in of_file if entry.cause in WITH_SENTENCE).items():
            reasons.append(f"| {name} | {count} | {reason} |\n")
    head = PAGE_HEAD + "| tests | number |\n|---|---|\n" + needs
    by_file = "\n## Results by file of tests\n\n| file | " + " | ".join(COLUMNS.values()) + " |\n"
    by_file += "|---" * (len(COLUMNS) + 1) + "|\n" + "".join(rows)
    return head + by_file + "\n## Failures\n\n| file | tests | reason |\n|---|---|---|\n" + "".join(reasons)


COLUMNS: Mapping[Cause | Outcome, str] = {
    Outcome.PASSED: "passed",
    Outcome.SKIPPED: "skipped",
    Cause.ROUTER: "router, public IP, VPC",
    Cause.SYSTEM_VM: "system VM",
    Cause.GUEST_LOGIN: "guest login",
    Cause.HARDWARE: "hardware",
    Cause.OUT_OF_SCOPE: "out of scope",
    Cause.OURS: "not correct yet",
}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cloudstack-integration-tests.md"
PAGE_HEAD = """# CloudStack's integration tests

`make generate` writes this page from the results that `make test-marvin CLOUDSTACK=path SAVE=1` stored. It runs the
smoke tests of CloudStack 4.23 with the filter of CloudStack's own integration for its simulator. Marvin deploys the
zone from `setup/dev/advanced.cfg`.

"""


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Return a table of the number of tests by file and outcome."""
    counts = Counter((test.split(":")[0], outcome) for test, outcome in outcomes.items())
    names = sorted({test.split(":")[0] for test in outcomes})
    width = max([len("all files"), *map(len, names)])
    rows = [(name, [counts[name, outcome] for outcome in Outcome]) for name in names]
    rows.append(("all files", [sum(column) for column in zip(*(row for _, row in rows), strict=True)]))
    head = f"{'file':<{width}}" + "".join(f"  {outcome}" for outcome in Outcome)
    lines = [
        f"{name:<{width}}"
        + "".join(f"  {number:>{len(outcome)}}" for number, outcome in zip(row, Outcome, strict=True))
        for name, row in rows
    ]
    return "\n".join([head, *lines]) + "\n"


def main() -> None:
    """Print the numbers of tests by what they need."""
    parser = argparse.ArgumentParser(prog="python -m tests.marvin.results")
    parser.add_argument("--reports", type=Path, help="store the results in this folder of reports first")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    given = parser.parse_args()
    if given.reports:
        save(dict(_reported(given.reports)))
    if given.check:
        sys.exit(None if PAGE.read_text() == page() else f"{PAGE.name} is out of date: run `make generate`")
    if given.write or given.reports:
        PAGE.write_text(page())
    sys.stdout.write("".join(f"{count:>5}  {text.strip('*')}\n" for text, count in count_needs(read_expected())))


def _reported(folder: Path) -> Iterator[tuple[str, Outcome]]:
    for collected in sorted(folder.glob("*-collected.txt")):
        name = collected.name.removesuffix("-collected.txt")
        yield from read_outcomes(name, collected, folder / f"{name}.txt")


if __name__ == "__main__":
    main()
