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
