"""Tests wait by one limit, which no machine under load reaches: tests/support/runs/waiting.py has it."""

import re
from pathlib import Path

import pytest

from tests.architecture.source_files import text_of

TESTS = Path(__file__).parents[1]
REAL_MACHINES = {"kvm", "ceph", "ganeti", "incus", "compose", "systemd", "cloud_init", "marvin", "cloudstack_ui"}
"""Suites with limits of their own: what they wait for takes as long as real hypervisors and engines need."""
OTHERS = {
    "chaos": "a limit is part of what chaos asserts",
    "failover": "measures how long calls wait",
    "cloudstack/stacks.py": "two whole services one after the other",
    "support/runs/waiting.py": "the limit itself",
    "support/hypervisors/ceph_cluster.py": "real machines",
    "support/hypervisors/libvirt_hosts.py": "real machines",
    "architecture/test_kubernetes.py": "a program that reads files",
    "security/test_fetching.py": "the time after which the product closes a connection",
    "support/power/redfish_servers.py": "how long a controller hangs",
}
OWN_LIMIT = re.compile(
    r"^PATIENCE\w* = \d|[(, ]timeout=\d\d+(\.0)?\b|\.(wait|join|result|acquire)\((timeout=)?\d\d+(\.0)?\)",
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("PATIENCE_S = 60.0\n", True),
        ("subprocess.run(command, timeout=120)", True),
        ("process.wait(60)", True),
        ("process.wait(PATIENCE_S)", False),
        ("urlopen(url, timeout=5)", False),
        ('run("inspect", "--timeout=10")', False),
    ],
)
def test_a_limit_of_its_own_is_recognised(text: str, own: bool) -> None:
    """Polls may be short: what counts is when a test gives up."""
    assert bool(OWN_LIMIT.search(text)) is own


def test_no_test_gives_up_earlier_than_others() -> None:
    """A limit chosen on an idle machine fails on one with ten times the load."""
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if path.relative_to(TESTS).parts[0] in REAL_MACHINES or any(name.startswith(other) for other in OTHERS):
            continue
        if path == Path(__file__):
            continue
        if limits := [match.group() for match in OWN_LIMIT.finditer(text_of(path))]:
            found[name] = limits
    assert found == {}
