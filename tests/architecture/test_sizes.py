"""Budgets: a file can be read in one sitting, a function fits a screen, a name says what is inside."""

import ast
from collections import Counter
from pathlib import Path

from tests.architecture.source_files import nodes_of
from tests.architecture.test_imports import ROOT, SOURCES, module_of

LONGEST_FILE = 300
LONGEST_FUNCTION = 40
MOST_ENTRIES = 25
WHY = "(one file: "
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc", "tools"}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file."""
    nodes = nodes_of(path)
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring and its signature."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_a_long_file_says_why() -> None:
    """A file of the product that is longer than LONGEST_FILE lines says in its first line why."""
    texts = {module_of(path): path.read_text().splitlines() for path in SOURCES}
    silent = {
        name: len(lines) for name, lines in texts.items() if len(lines) > LONGEST_FILE and WHY not in lines[0]
    }
    assert silent == {}


def test_functions_keep_their_budget() -> None:
    """No body of a function is longer than LONGEST_FUNCTION lines."""
    lengths = {f"{module_of(path)}.{node.name}": code_lines(node) for path in SOURCES for node in functions(path)}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    """No folder of the product has more than MOST_ENTRIES modules and folders."""
    entries = {path for file in SOURCES for path in (file, *file.parents) if ROOT in path.parents}
    sizes = Counter(path.parent for path in entries)
    large = {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > MOST_ENTRIES}
    assert large == {}


def test_names_say_what_is_inside() -> None:
    """No module is a drawer for everything."""
    assert {path.stem for path in SOURCES} & VAGUE_NAMES == set()
