"""Loading while others work: loads wait for each other, and deployments go on beside them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulkdeploy.services.system import Cipher
from bulkdeploy.store.auditing.audit import check_invariants
from tests.inventory.support import SMALL, TINY, rows, value, write
from tests.support.api.api_client import ApiClient
from tests.support.zones.zone_files import load_zone

pytestmark = pytest.mark.long


def test_many_loads_at_once_are_like_one(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Six loads of one file at the same time write everything once."""
    file = write(tmp_path, TINY)
    with ThreadPoolExecutor(6) as pool:
        reports = list(pool.map(lambda _: load_zone(engine, cipher, file), range(6)))
    assert sorted(bool(report.created) for report in reports) == [False] * 5 + [True]
    assert value(engine, "SELECT count(*) FROM service_offerings") == 1
    assert value(engine, "SELECT count(*) FROM hosts") == 2


def test_loads_and_deployments_at_once_keep_every_invariant(
    engine: Engine, cipher: Cipher, client: ApiClient, tmp_path: Path
) -> None:
    """Bulk calls, single deployments and files that bring hosts end in rows that agree with each other."""
    load_zone(engine, cipher, SMALL)
    query = """
        SELECT 'zoneid', uuid::text FROM zones
        UNION ALL SELECT 'domainid', uuid::text FROM domains WHERE name = 'acme'
        UNION ALL SELECT 'serviceofferingid', uuid::text FROM service_offerings WHERE name = 'Small'
        UNION ALL SELECT 'templateid', uuid::text FROM templates WHERE name = 'Debian 12'
    """
    ids = dict(rows(engine, query))

    def load(turn: int) -> None:
        file = SMALL.read_text().replace("{1..3}", f"{{1..{4 + turn}}}")
        for first, last in ((11, 13), (21, 23)):
            file = file.replace(f"{{{first}..{last}}}", f"{{{first}..{last + 1 + turn}}}")
        load_zone(engine, cipher, write(tmp_path, file, f"turn-{turn}.yaml"))

    def bulk(_: int) -> None:
        client.call("bulkDeployVirtualMachine", **ids, account="acme", virtualmachinecount=7)

    def single(_: int) -> None:
        client.call("deployVirtualMachine", **ids, account="acme")

    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(work, turn) for turn in range(4) for work in (load, bulk, single, bulk, single)]
        for one in done:
            one.result()
    assert [breach for finding in check_invariants(engine) for breach in finding.breaches] == []
    assert value(engine, "SELECT count(*) FROM hosts") == 4 * 7
    assert value(engine, "SELECT count(*) FROM virtual_machines") == 4 * (2 * 7 + 2)
