"""Every document that the code cites is in the repository, with the section that the code names."""

import re
from pathlib import Path

from tests.architecture.test_imports import SOURCES

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = ROOT / "docs/reference/cloudstack-protocol.md"
CITED_SECTIONS = re.compile(r"cloudstack-protocol\.md ((?:\d(?:\.\d+)?(?:-| and |, )?)+)")
PRIVATE = re.compile(r"reference sections? \d|DESIGN section|reference openstack|openstack\.md|engine-limits\.md")


def test_cited_sections_of_the_protocol_exist() -> None:
    """Each number after the page's name is the number of one of its headings."""
    headings = set(re.findall(r"^#+ (\d(?:\.\d+)?) ", PROTOCOL.read_text(), re.M))
    for path in SOURCES:
        for numbers in CITED_SECTIONS.findall(path.read_text()):
            missing = set(re.findall(r"\d(?:\.\d+)?", numbers)) - headings
            assert not missing, f"{path}: {missing}"


def test_no_document_outside_the_repository_is_cited() -> None:
    """Readers of the code have this repository only."""
    citing = [str(path) for path in SOURCES if PRIVATE.search(path.read_text())]
    assert citing == []
