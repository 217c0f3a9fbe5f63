"""Results of CloudStack's integration tests, those that are expected, and the table of both."""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

EXPECTED_FILE = Path(__file__).with_name("expected.toml")
UNEXPLAINED = "not examined yet"
SET_UP = re.compile(r".*context=(\w+)>:setup")
"""A line about the set-up of a class of tests, which is there only if the set-up failed or skipped itself."""


class Outcome(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


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


def read_expected() -> Mapping[str, tuple[Outcome, str]]:
    """Return the expected outcome of each test with the reason for it, which is empty for tests that pass."""
    content = tomllib.loads(EXPECTED_FILE.read_text()) if EXPECTED_FILE.exists() else {}
    expected: dict[str, tuple[Outcome, str]] = {}
    for name, groups in content.items():
        expected |= {f"{name}:{test}": (Outcome.PASSED, "") for test in groups.get("passed", ())}
        expected |= {f"{name}:{test}": (Outcome.SKIPPED, "") for test in groups.get("skipped", ())}
        expected |= {
            f"{name}:{test}": (Outcome.FAILED, reason) for test, reason in groups.get("failed", {}).items()
        }
    return expected


def compare(outcomes: Mapping[str, Outcome], files: Collection[str]) -> list[str]:
    """Return a line for each test of ``files`` whose outcome is not the expected one."""
    expected = {test: outcome for test, (outcome, _) in read_expected().items() if test.split(":")[0] in files}
    return [
        f"{test}: {outcomes.get(test, 'missing')}, expected: {expected.get(test, 'not listed')}"
        for test in sorted({*expected, *outcomes})
        if expected.get(test) is not outcomes.get(test)
    ]


def save(outcomes: Mapping[str, Outcome]) -> None:
    """Write outcomes as the expected ones; files of tests that did not run and reasons for failures are kept."""
    expected = dict(read_expected())
    ran = {test.split(":")[0] for test in outcomes}
    kept = {test: entry for test, entry in expected.items() if test.split(":")[0] not in ran}
    new = {test: (outcome, _reason(expected.get(test), outcome)) for test, outcome in outcomes.items()}
    by_file: dict[str, dict[Outcome, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for test, (outcome, reason) in sorted((kept | new).items()):
        name, case = test.split(":", 1)
        by_file[name][outcome][case] = reason
    EXPECTED_FILE.write_text(HEADER + "".join(_section(name, groups) for name, groups in by_file.items()))


HEADER = (
    "# Expected results of CloudStack's integration tests: `python -m tests.marvin ... --save` writes this file.\n"
)


def _reason(known: tuple[Outcome, str] | None, outcome: Outcome) -> str:
    if outcome is not Outcome.FAILED:
        return ""
    return known[1] if known is not None and known[0] is Outcome.FAILED else UNEXPLAINED


def _section(name: str, groups: Mapping[Outcome, Mapping[str, str]]) -> str:
    lines = [f"\n[{name}]\n"]
    lines += [
        f"{outcome} = [\n" + "".join(f'    "{case}",\n' for case in groups[outcome]) + "]\n"
        for outcome in (Outcome.PASSED, Outcome.SKIPPED)
        if groups.get(outcome)
    ]
    if groups.get(Outcome.FAILED):
        lines.append(f"\n[{name}.failed]\n")
        lines += [f'"{case}" = "{reason}"\n' for case, reason in groups[Outcome.FAILED].items()]
    return "".join(lines)


def write_page() -> None:
    """Write the expected results by file of tests, with the reasons for failures, into the reference pages."""
    expected = read_expected()
    names = sorted({test.split(":")[0] for test in expected})
    rows, reasons = [], []
    for name in names:
        of_file = [entry for test, entry in expected.items() if test.split(":")[0] == name]
        counts = Counter(outcome for outcome, _ in of_file)
        rows.append(f"| {name} | " + " | ".join(str(counts[outcome]) for outcome in Outcome) + " |\n")
        for reason, count in Counter(reason for outcome, reason in of_file if outcome is Outcome.FAILED).items():
            reasons.append(f"| {name} | {count} | {reason} |\n")
    PAGE.write_text(
        PAGE_HEAD + "".join(rows) + "\n## Failures\n\n| file | tests | reason |\n|---|---|---|\n" + "".join(reasons)
    )


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cloudstack-integration-tests.md"
PAGE_HEAD = """# CloudStack's integration tests

`make test-marvin CLOUDSTACK=path SAVE=1` generated this page. It runs the smoke tests of CloudStack 4.23 with the
filter of CloudStack's own integration for its simulator. Marvin deploys the zone from `setup/dev/advanced.cfg`.

## Results by file of tests

| file | passed | failed | skipped |
|---|---|---|---|
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
