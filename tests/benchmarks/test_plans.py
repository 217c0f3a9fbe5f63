"""Plans that workers keep: made while there is next to nothing, and good when there are millions of rows."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from benchmarks.deploying import deploy_without_sending
from benchmarks.generation import Size, generate_zones, register_with_hypervisors
from benchmarks.ground import GeneratedZone
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.provisioning.running.job_runner import JobRunner, RunnerOptions
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import Plans
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_engine
from tests.support.zones.fleet import OneDriver

GROWING = ("virtual_machines", "volumes", "nics", "async_jobs", "deployments", "events")
SETTING = "SET LOCAL enable_seqscan TO off"
"""What a worker's transactions begin with; all else that they say has a plan."""

LOOKING = ("Seq Scan", "Index Scan", "Index Only Scan")


@pytest.fixture
def worker_engine(settings: Settings) -> Iterator[Engine]:
    """Connections as a worker has them."""
    engine = build_engine(settings, plans=Plans.KEPT_BY_INDEX)
    yield engine
    engine.dispose()


def scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All nodes of a plan that look for rows of a growing table; a bitmap's rows by the nodes below it."""
    kind = plan["Node Type"]
    if (kind in LOOKING and plan.get("Relation Name") in GROWING) or kind == "Bitmap Index Scan":
        yield plan
    for part in plan.get("Plans", ()):
        yield from scans(part)


def kept_plan(engine: Engine, statement: str) -> dict[str, Any]:
    """The plan for any values of the parameters, in a transaction that begins as those of the engine do."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    numbered = re.sub(r"%\((\w+)\)s", number, statement).replace("%%", "%")
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered}".replace("%", "%%"))
        return dict(rows.scalar_one()[0]["Plan"])


def test_workers_find_rows_by_id_whatever_the_tables_were_when_they_planned(
    engine: Engine,
    worker_engine: Engine,
    settings: Settings,
    system: System,
    fleet_simulator_url: str,
) -> None:
    """No statement of a job that deploys a VM reads a table that grows, or an index of it, from end to end."""
    generate_zones(engine, Size(zones=1, pods=1, clusters=2, hosts=20, vms=0), prefix="bench")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    register_with_hypervisors(engine, fleet_simulator_url)
    seen: dict[str, None] = {}

    def note(*arguments: Any) -> None:
        seen[str(arguments[2])] = None

    _, messages = deploy_without_sending(GeneratedZone(settings, engine), 100)
    event.listen(worker_engine, "before_cursor_execute", note)
    driver = SimulatorDriver(fleet_simulator_url, pool_size=4)
    options = RunnerOptions(16, 60, 60)
    runner = JobRunner(
        worker_engine, system.job_queue, OneDriver(driver), options, system.cipher.decrypt, system.power
    )
    try:
        for message in messages:
            runner.accept(message.job_id)
        open_jobs = text("SELECT count(*) FROM async_jobs WHERE status = 0")
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while connection.execute(open_jobs).scalar_one():
                time.sleep(0.02)
    finally:
        runner.close()
        driver.close()
    assert seen.pop(SETTING, "never said") is None
    read_whole = [
        (scan["Node Type"], scan.get("Relation Name"), statement)
        for statement in list(seen)
        for scan in scans(kept_plan(worker_engine, statement))
        if "Index Cond" not in scan
    ]
    assert not read_whole
