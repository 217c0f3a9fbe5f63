"""Words for many host names: writing them and reading them are each other's inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.services.inventory.inventory_patterns import compress, expand

NAMES = st.lists(st.from_regex(r"[a-c]{0,2}-?[0-9]{1,3}(?:-[xy])?|[a-z]{1,3}", fullmatch=True), max_size=30)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("kvm-a-{08..10}", ("kvm-a-08", "kvm-a-09", "kvm-a-10")),
        ("h{9..11}", ("h9", "h10", "h11")),
        ("h{1..1}.rack", ("h1.rack",)),
        ("host.example.com", ("host.example.com",)),
    ],
)
def test_a_word_stands_for_these_names(word: str, names: tuple[str, ...]) -> None:
    """Numbers count up and are as wide as the first one."""
    assert expand(word) == names


@pytest.mark.parametrize(
    "word", ["", "-a", "a-", "h{2..1}", "h{1..2}{1..2}", "h{a..b}", "h{1,2}", "h{1..20000}", "h{1..2} x", "ü{1..2}"]
)
def test_other_words_stand_for_nothing(word: str) -> None:
    """What is neither a host name nor a pattern of some is no word."""
    assert expand(word) is None


@given(NAMES)
def test_compressed_names_expand_to_themselves(names: list[str]) -> None:
    """Whatever names there are, in whatever order, their words stand for exactly them."""
    usable = [name for name in names if expand(name) == (name,)]
    assert [name for word in compress(usable) for name in expand(word) or ()] == usable


@given(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 7))
def test_a_run_is_one_word(first: int, count: int, width: int) -> None:
    """Names that count up are one word, however long the run and wide the numbers."""
    names = [f"h-{number:0{width}}-r" for number in range(first, first + count)]
    assert len(compress(names)) == 1
