"""The guides name files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|sql|md|toml|yaml))")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_files_that_a_guide_names_exist(guide: Path) -> None:
    """A reader who follows a path finds the file: from the root, or from ``bulkdeploy/``."""
    named = set(PATH.findall(guide.read_text()))
    assert [
        name for name in sorted(named) if not any((at / name).exists() for at in (ROOT, ROOT / "bulkdeploy"))
    ] == []


LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_links_between_guides_lead_somewhere(guide: Path) -> None:
    """A link to a file of this repository finds it."""
    linked = LINK.findall(guide.read_text())
    assert [link for link in linked if not (guide.parent / link).exists()] == []


def test_each_decision_has_a_number_of_its_own() -> None:
    """A decision's number is in its file's name and its title and is no other's; what names a number finds it."""
    files = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(path.name.partition("-")[0]) for path in files]
    assert len(set(numbers)) == len(numbers)
    titles = [path.read_text().partition(".")[0] for path in files]
    assert titles == [f"# {number}" for number in numbers]
    texts = [path.read_text() for folder in ("bulkdeploy", "workers") for path in (ROOT / folder).rglob("*.py")]
    texts += [guide.read_text() for guide in GUIDES] + [(ROOT / "pyproject.toml").read_text()]
    named = {int(number) for text in texts for number in re.findall(r"\bADR (\d+)\b", text)}
    assert named - set(numbers) == set()
