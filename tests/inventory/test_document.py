"""The notation: what may be written at all, before anything is said about zones."""

import pytest

from bulkdeploy.commands.registry import find_nouns
from bulkdeploy.manage.zone_files.entries import Entry
from bulkdeploy.manage.zone_files.loading import read_entries
from tests.inventory.support import TINY, changed, refusals


def read(section: str, file: str) -> list[Entry]:
    """The entries of one section of a file."""
    return list(read_entries(find_nouns(), "f.yaml", file.encode())[section])


def test_the_smallest_zone_is_read() -> None:
    """A file that breaks no rule is read, with patterns expanded and places noted."""
    hosts = read("hosts", TINY)
    assert [host.values["url"].partition("?")[0] for host in hosts] == [
        "http://10.0.0.11/host-1",
        "http://10.0.0.12/host-2",
    ]
    assert {(host.where.line, host.where.path) for host in hosts} == {(24, "zones[0].pods[0].clusters[0].hosts[0]")}


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("h{08..10}", ["h08", "h09", "h10"]),
        ("h{9..11}x{1..3}", ["h9x1", "h10x2", "h11x3"]),
        ("h{1..1}", ["h1"]),
        ("100%-{1..2}", ["100%-1", "100%-2"]),
    ],
)
def test_patterns_stand_for_many(written: str, names: list[str]) -> None:
    """Numbers count up together and are as wide as the first one."""
    found = read("hosts", changed("http://10.0.0.{11..12}/host-{1..2}", f"http://x/{written}"))
    assert [host.values["url"].partition("?")[0].removeprefix("http://x/") for host in found] == names


@pytest.mark.parametrize(
    "written", ["h{2..1}", "h{1..2}{1..3}", "h{1..900000}", "h{1..9999999999}", "h{a..c}", "h{1..}"]
)
def test_patterns_that_stand_for_nothing_are_refused(written: str) -> None:
    """They count up, as far as each other, and not without end."""
    (problem,) = refusals(changed("http://10.0.0.{11..12}/host-{1..2}", f"http://x/{written}"))
    assert problem.startswith("f.yaml:24: zones[0].pods[0].clusters[0].hosts[0].url: must ")


def test_expanding_files_are_refused() -> None:
    """A file that would grow when aliases are followed is refused at the first anchor."""
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    (problem,) = refusals(bomb)
    assert problem == "f.yaml:1: anchors and aliases are not supported (&a): repeat the value instead"


def test_an_alias_without_anchor_is_refused() -> None:
    """An alias is refused even where no anchor was seen."""
    (problem,) = refusals("zone: *somewhere\n")
    assert problem.startswith("f.yaml:1: anchors and aliases are not supported")


def test_deep_nesting_is_refused() -> None:
    """A hundred thousand brackets are refused by a rule, not by a crash."""
    (problem,) = refusals("[" * 100_000)
    assert problem == "f.yaml:1: is nested more than 20 levels deep"


def test_tags_are_refused() -> None:
    """No tag can make the reader build an object."""
    (problem,) = refusals("zone: !!python/object/apply:os.system [ls]\n")
    assert problem.startswith("f.yaml:1: YAML tags are not supported: tag:yaml.org,2002:python")


def test_a_key_given_twice_is_refused() -> None:
    """The second of two equal keys is refused, with the line of the first."""
    assert refusals(changed("domains:\n", "zones: []\ndomains:\n")) == (
        "f.yaml:9: zones: is given twice: the first one is in line 1",
    )


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (b"", "f.yaml:1: the file must contain one document, not 0"),
        (b"a: 1\n---\nb: 2\n", "f.yaml:3: the file must contain one document, not 2"),
        (b"zone: {name: small\nversion: 1\n", "f.yaml:2: this is not YAML: "),
        (b"version: 1\nzone:\n\t- x\n", "f.yaml:3: this is not YAML: "),
        (b"version: 1\nzone: \xff\xfe\n", "f.yaml:2: the file must be UTF-8 text: "),
        (b"version: 1\nzone: {name: a\x07b}\n", "f.yaml:2: this is not YAML: "),
        (b"{names: {01..10}}", "f.yaml:1: "),
        (b"? [a, b]\n: 1\n", "f.yaml:1: a key must be a plain word"),
        (b"just words\n", "f.yaml:1: must be a mapping of sections"),
        (b"- a\n- b\n", "f.yaml:1: must be a mapping of sections"),
    ],
)
def test_what_is_not_a_document_is_refused_with_its_line(file: bytes, problem: str) -> None:
    """Text that is no YAML document, or not a mapping, is refused with the line where it goes wrong."""
    assert refusals(file)[0].startswith(problem)


def test_a_byte_order_mark_is_no_mistake() -> None:
    """Files of editors that begin with a byte order mark are read."""
    assert len(read("zones", "\ufeff" + TINY)) == 1


def test_words_that_yaml_takes_for_something_else_are_names() -> None:
    """``no``, ``1.10`` and ``2026-01-02`` are names where a name is wanted."""
    for word in ("no", "1.10", "2026-01-02", "0x10", "12:30:00", "1_000"):
        (zone,) = read("zones", changed("name: tiny", f"name: {word}"))
        assert zone.values["name"] == word


@pytest.mark.parametrize("written", ["\\0", "\\a", "\\x85", "\\ud800", "\\r", "\\t"])
def test_characters_that_no_database_keeps_are_refused(written: str) -> None:
    """Escapes cannot smuggle NUL, control characters or half a surrogate pair into a name."""
    (problem,) = refusals(changed("name: tiny", f'name: "a{written}b"'))
    assert problem.startswith(("f.yaml:9: contains control characters", "f.yaml:9: this is not YAML: "))


@pytest.mark.parametrize("name", ["Zürich", "東京", "🦆", "نطاق", "n" * 255])
def test_names_may_be_in_any_script(name: str) -> None:
    """A name is any line of text up to 255 characters."""
    (zone,) = read("zones", changed("name: tiny", f"name: {name}"))
    assert zone.values["name"] == name


def test_a_huge_file_is_refused_unread() -> None:
    """A file above 16 MiB is refused before it is looked at."""
    assert refusals(b"#" * (16 * 1024 * 1024 + 1)) == ("f.yaml:1: the file is larger than 16777216 bytes",)


def test_the_list_of_problems_ends() -> None:
    """A file with thousands of mistakes shows the first hundred and how many more there are."""
    file = TINY + "".join(f"unknown{number}: 1\n" for number in range(1000))
    problems = refusals(file)
    assert len(problems) == 101
    assert problems[-1] == "f.yaml: and 900 more problems"
