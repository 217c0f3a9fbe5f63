"""Words: names and texts use the field's terms, as docs/reference/glossary.md has them."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.architecture.source_files import nodes_of, text_of
from tests.architecture.test_imports import ROOT

FOLDERS = ("bulkdeploy", "workers", "benchmarks", "tests", "docs")
FROZEN = ("bulkdeploy/store/migrations/versions/", "docs/adr/", "docs/chaos/", "tests/architecture/test_words.py")
"""What says how things were: it is not written anew."""

BANNED_IN_NAMES = {
    "ask": "request",
    "asks": "request",
    "asked": "requested",
    "rack": "candidate hosts",
    "room": "capacity",
    "rooms": "capacity",
    "sieve": "host filter",
    "liking": "preference, score",
    "lessee": "lease holder",
    "settler": "completion",
    "taker": "lease acquisition, new owner",
    "suspect": "candidate",
    "suspects": "candidates",
    "believed": "expected",
    "belief": "expectation",
    "lane": "queue",
    "lanes": "queues",
    "courier": "message broker",
    "meters": "metrics",
    "books": "audit, accounting",
    "farewell": "timeouts",
    "told": "reported, recorded",
}
BANNED_PAIRS_IN_NAMES = {
    "kept_columns": "column cache",
    "shared_reading": "request coalescing",
    "handed_back": "requeued",
    "held_back": "throttled",
    "left_behind": "crash state",
    "crash_point": "failpoint",
    "crash_points": "failpoints",
    "wire_values": "parameter values",
    "absent_resources": "unsupported resources",
}
BANNED_IN_TEXTS = (
    *("couriers?", "lanes?", "lessees?", "sieves?", "kept columns", "shared readings?", "held back", "handed back"),
    *("crash points?", "the books are (?:true|right)", "should be(?! a positive number)", "liking"),
)
"""In comments, docstrings, messages and documents, whatever their case. CloudStack's tests match its own text."""

BANNED_IN_GUIDES = ("nobody", "whoever", "is told", "was told")
"""In documents beside those: say who does what, or what cannot be done."""

MOST_TERMS = 60


@cache
def files(*suffixes: str) -> list[Path]:
    """What is written by hand, and not frozen."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return [path for path in found if not str(path.relative_to(ROOT)).startswith(FROZEN)]


def uses(words: Iterable[str], *suffixes: str) -> dict[str, list[str]]:
    """Return the words that each file uses, by its path. A word within a path or a name does not count."""
    pattern = re.compile(rf"(?<![\w./`-])(?:{'|'.join(words)})(?![\w/=`-])", re.IGNORECASE)
    found = {str(path.relative_to(ROOT)): pattern.findall(text_of(path)) for path in files(*suffixes)}
    return {path: said for path, said in found.items() if said}


def names_in(path: Path) -> Iterator[str]:
    """Classes, functions, parameters, variables, and attributes that are set; names of tests are sentences."""
    for node in nodes_of(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("test_"):
                yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name: str) -> list[str]:
    """The words of a name in either style, in small letters."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


@cache
def banned(name: str) -> bool:
    """Whether a name has a banned word or pair of words."""
    words = words_of(name)
    pairs = {f"{first}_{second}" for first, second in pairwise(words)}
    return bool(BANNED_IN_NAMES.keys() & set(words) or BANNED_PAIRS_IN_NAMES.keys() & pairs)


def test_names_are_of_the_field() -> None:
    """No module, class, function, parameter or variable has a word that a stranger would have to learn."""
    wrong = {str(path.relative_to(ROOT)): path.stem for path in files(".py", ".sql") if banned(path.stem)}
    for path in files(".py"):
        found = sorted({name for name in names_in(path) if banned(name)})
        if found:
            wrong[f"{path.relative_to(ROOT)}: names"] = ", ".join(found)
    assert wrong == {}


def test_texts_are_plain() -> None:
    """No comment, message or document uses such a word."""
    assert uses(BANNED_IN_TEXTS, ".py", ".md", ".sql") == {}


def test_guides_are_plain() -> None:
    """No document uses such a word either."""
    assert uses(BANNED_IN_GUIDES, ".md") == {}


STARTS_WITHOUT_SUBJECT = frozenset(
    {"How", "It", "Its", "Of", "That", "These", "They", "This", "Those"}
    | {"What", "Which", "Who", "Whom", "Whose", "Why", "Where"}
)
"""A docstring that begins so does not name the thing that it is about."""


def test_docstrings_of_the_product_name_their_subject() -> None:
    """No docstring begins with a relative clause or a pronoun; the linter requires a verb of functions."""
    wrong = []
    for path in (ROOT / "bulkdeploy").rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node) or ""
                if re.split(r"\W", docstring, maxsplit=1)[0] in STARTS_WITHOUT_SUBJECT:
                    wrong.append(f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}")
    assert wrong == []


def test_the_glossary_is_short() -> None:
    """It has at most MOST_TERMS terms, each once, and none that is banned."""
    terms = re.findall(r"^\| ([^|]+) \| ", (ROOT / "docs" / "reference" / "glossary.md").read_text(), re.MULTILINE)
    terms.remove("term")
    assert len(terms) == len(set(terms)) <= MOST_TERMS
    assert [term for term in terms if banned(term.replace(" ", "_"))] == []
