"""Zone files: limits of domains and accounts."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulkdeploy.manage.zone_files.loading import LoadReport
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.test_zone_files import load, refusals
from tests.inventory.test_zone_files_accounts import stays, table

LIMITS = """\
domains:
  - name: customers
    domains: [{name: acme, limits: {cpu: 800, user_vm: 200}}]
    limits: {user_vm: 5000, cpu: 20000, memory: 1.5 TiB, primary_storage: 500 TiB, volume: unlimited}
    accounts: [{account: ann, roleid: User, limits: {user_vm: 100, memory: 64 GiB}}]
zones: [{name: small, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}]
"""


def limits(engine: Engine) -> list[tuple[object, ...]]:
    """The limits that are set: kind and name of whose, resource type and amount."""
    return table(
        engine,
        "SELECT coalesce(a.name, d.name), resource_type, max FROM resource_limits"
        " LEFT JOIN accounts a ON owner_kind = 'account' AND a.id = owner_id"
        " LEFT JOIN domains d ON owner_kind = 'domain' AND d.id = owner_id ORDER BY 1, 2",
    )


def test_limits_are_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Limits of domains and accounts; those of a domain may stand before those of the domain above it."""
    assert load(engine, cipher, tmp_path, LIMITS).created["limits"] == 9
    assert limits(engine) == [
        ("acme", 0, 200),
        ("acme", 8, 800),
        ("ann", 0, 100),
        ("ann", 9, 64 * 1024),
        ("customers", 0, 5000),
        ("customers", 2, -1),
        ("customers", 8, 20000),
        ("customers", 9, 3 * 512 * 1024),
        ("customers", 10, 500 * 1024**4),
    ]
    stays(engine, cipher, tmp_path, LIMITS)


def test_limits_follow_the_file(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Other amounts are taken over; the same written otherwise are the same."""
    load(engine, cipher, tmp_path, LIMITS)
    assert load(engine, cipher, tmp_path, LIMITS.replace("1.5 TiB", "1536 GiB")) == LoadReport()
    changed = LIMITS.replace("64 GiB", "unlimited").replace("cpu: 800", "cpu: 19000")
    assert load(engine, cipher, tmp_path, changed).changed == {"limits": 2}
    assert ("ann", 9, -1) in limits(engine)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("memory: 64 GiB", "memory: 64", "domains[0].accounts[0].limits.memory.max: must be a size such as 20 TiB"),
        ("user_vm: 100", "user_vm: 100 GiB", "domains[0].accounts[0].limits.user_vm.max: must be a whole number"),
        ("user_vm: 100", "user_vms: 100", "domains[0].accounts[0].limits.user_vms.resourcetype: it must be one"),
        ("user_vm: 100", "user_vm: -5", "domains[0].accounts[0].limits.user_vm.max: must be unlimited"),
        ("cpu: 800", "cpu: 30000", "domains[0].domains[0].limits.cpu.max: the parent domain's cpu limit is"),
    ],
)
def test_limits_that_cannot_be(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Each is told with its line and key, and nothing is written."""
    found = refusals(engine, cipher, tmp_path, LIMITS.replace(old, new, 1))
    assert [one for one in found if one.partition(": ")[2].startswith(problem)], found
