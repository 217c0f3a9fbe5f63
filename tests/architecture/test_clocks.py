"""Time is the database's, or only ever grows: nothing depends on what a machine's clock says."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_files import nodes_of
from tests.architecture.test_imports import SOURCES, module_of

WALL_CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "localtime"),
    ("time", "gmtime"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
}
ALLOWED = {
    "bulkdeploy.api.authenticate": "`expires` of a signed request is compared with ours, by contract",
    "bulkdeploy.commands.accounts.sessions": "the offset of a user's time zone today",
    "bulkdeploy.services.infrastructure.hosts": "the time that stands beside an operator's remark on a host",
    "bulkdeploy.cli.connection.authentication": "the client stamps `expires`",
    "bulkdeploy.cloudstack.client": "signed requests carry `expires`",
    "bulkdeploy.cloudstack.exchanges": "clients compare their clock with the server's",
    "bulkdeploy.confd.server": "queries carry their client's time, by contract",
    "bulkdeploy.cli.confd": "the client stamps queries",
    "bulkdeploy.cli.deployments.followed": "the age of the client's own files",
}


def wall_clock_readings(path: Path) -> Iterator[str]:
    """Every ``time.time()`` and the like in a file."""
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if (owner, node.attr) in WALL_CLOCKS:
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (alias.name for alias in node.names if ("time", alias.name) in WALL_CLOCKS)


def test_no_module_reads_the_wall_clock() -> None:
    """No module but those with a reason reads the machine's clock; the reasons are still needed."""
    readers = {module_of(path) for path in SOURCES if any(wall_clock_readings(path))}
    assert readers == set(ALLOWED)
