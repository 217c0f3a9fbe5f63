"""The project's own files as texts and as syntax trees, read once per process however many rules look at them."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def text_of(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a Python file, outer ones before those inside them."""
    nodes = tuple(ast.walk(tree_of(path)))
    # Millions of nodes stay until the process ends: the collector would look at all of them again and again.
    gc.freeze()
    return nodes
