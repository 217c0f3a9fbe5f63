"""Migrations stand in one row: two that were written side by side do not both follow the same one."""

import re
from pathlib import Path

VERSIONS = Path(__file__).parents[2] / "bulkdeploy" / "store" / "migrations" / "versions"


def test_each_migration_follows_the_one_before() -> None:
    """The numbers of files have no gap and no pair, and each migration names the one before it."""
    files = sorted(VERSIONS.glob("[0-9]*.py"))
    texts = [file.read_text() for file in files]
    revisions = [re.search(r'^revision(?:: str)? = "(.+)"', text, re.MULTILINE) for text in texts]
    before = [re.search(r'^down_revision.* = "(.+)"', text, re.MULTILINE) for text in texts]
    assert [found and found[1] for found in revisions] == [file.stem for file in files]
    assert [found and found[1] for found in before] == [None, *(file.stem for file in files[:-1])]
    assert [int(file.stem[:4]) for file in files] == list(range(1, len(files) + 1))
