"""The expected results of CloudStack's integration tests are stored with a cause for each failure."""

from pathlib import Path

import pytest

from tests.marvin import results
from tests.marvin.results import Cause, Expected, Outcome


def test_results_are_stored_with_their_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known cause is kept, a new failure is "not correct yet", and files that did not run keep their results."""
    monkeypatch.setattr(results, "EXPECTED_FILE", tmp_path / "expected.toml")
    needs_router = Expected(Outcome.FAILED, Cause.ROUTER)
    out_of_scope = Expected(Outcome.FAILED, Cause.OUT_OF_SCOPE, "needs a fax")
    passed = Expected(Outcome.PASSED)
    results.write_expected({"a:T.x": needs_router, "a:T.y": passed, "b:T.z": out_of_scope})

    results.save({"a:T.x": Outcome.FAILED, "a:T.y": Outcome.FAILED, "a:T.new": Outcome.SKIPPED})

    assert results.read_expected() == {
        "a:T.new": Expected(Outcome.SKIPPED),
        "a:T.x": needs_router,
        "a:T.y": Expected(Outcome.FAILED, Cause.OURS, results.UNEXPLAINED),
        "b:T.z": out_of_scope,
    }


def test_tests_are_counted_by_what_they_need() -> None:
    """Only tests that pass or could pass count against the goal."""
    counted = dict(
        results.count_needs(
            {
                "a:T.x": Expected(Outcome.FAILED, Cause.ROUTER),
                "a:T.y": Expected(Outcome.PASSED),
                "a:T.z": Expected(Outcome.FAILED, Cause.OURS, "wrong"),
                "a:T.s": Expected(Outcome.SKIPPED),
            }
        )
    )
    assert counted["**all others**"] == 2
    assert counted["passed according to the goal, 260 of 293"] == 2
