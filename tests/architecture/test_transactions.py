"""Transactions are opened at the edges: what services and commands do is in the one that their caller opened."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_files import nodes_of
from tests.architecture.test_imports import ROOT, module_of

INSIDE = sorted(
    path for capacity in ("services", "commands") for path in (ROOT / "bulkdeploy" / capacity).rglob("*.py")
)
OPENERS = {"run_transaction", "read_only", "Engine"}
"""What nobody opens a transaction without."""

ENGINES = {"engine", "reading"}
"""Attributes of a ``System`` that are for edges."""

EDGES = {
    "bulkdeploy.commands.call": "gives its connection back while hypervisors are asked",
    "bulkdeploy.services.system": "declares the engines that edges open transactions on",
    "bulkdeploy.services.accounts.login_attempts": "counts attempts whatever comes of them",
    "bulkdeploy.services.sending": "what follows a commit is a transaction of its own",
    "bulkdeploy.services.auditing.audit": "looks at the rows before and after it asks hypervisors, outside of any",
}
"""Modules that open transactions themselves, and why."""


def openers(path: Path) -> Iterator[str]:
    """What a module opens transactions with."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom):
            yield from sorted({alias.name for alias in node.names} & OPENERS)
        elif isinstance(node, ast.Attribute) and node.attr in ENGINES:
            yield f".{node.attr}"


def test_services_and_commands_open_no_transaction() -> None:
    """Those that do are the few of EDGES, each of which still does."""
    found = {module_of(path): names for path in INSIDE if (names := list(openers(path)))}
    assert {module: names for module, names in found.items() if module not in EDGES} == {}
    assert found.keys() == EDGES.keys()
