"""The table of attacks in the documentation names tests that exist."""

import re

from tests.architecture.test_imports import ROOT

PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_every_attack_names_a_test_that_exists() -> None:
    """Each row of the table of attacks names at least one test, and each named test is there."""
    table = PAGE.read_text().split("\n## Attacks\n")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests[/.][\w/.]+)", row.rsplit("|", 2)[1])
        assert named, row
        for name in named:
            place = ROOT / (name if name.endswith(".py") else f"{name.replace('.', '/')}/__main__.py")
            assert place.exists(), name
