"""Migrations stand in one row: two that were written side by side do not both follow the same one."""

import re
from pathlib import Path

VERSIONS = Path(__file__).parents[2] / "bulkdeploy" / "store" / "migrations" / "versions"


def test_each_migration_follows_the_one_before() -> None:
    """Each migration names the file that stands before it."""
    files = sorted(VERSIONS.glob("[0-9]*.py"))
    texts = [file.read_text() for file in files]
    revisions = [re.search(r'^revision(?:: str)? = "(.+)"', text, re.MULTILINE) for text in texts]
    before = [re.search(r'^down_revision.* = "(.+)"', text, re.MULTILINE) for text in texts]
    assert [found and found[1] for found in revisions] == [file.stem for file in files]
    assert [found and found[1] for found in before] == [None, *(file.stem for file in files[:-1])]
