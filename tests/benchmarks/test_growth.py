"""Cost per VM grows neither with the VMs asked for nor with those already there. Ratios of CPU, never times.

The factors are generous: they are there to find a loop over rows or a scan that grows, which cost tens of times
more at these sizes, and not to find a busy machine.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import ClauseElement, Engine, text

from benchmarks.cpu import own_cpu_seconds
from benchmarks.deploying import deploy_without_sending
from benchmarks.generation import Size, generate_zones, register_with_hypervisors
from benchmarks.ground import GeneratedZone
from bulkdeploy.declare.responses import Field, FieldType
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.provisioning.running.job_runner import JobRunner, RunnerOptions
from bulkdeploy.services.system import System
from bulkdeploy.store.database.column_cache import column_cache
from bulkdeploy.store.jobs.jobs import FIRST
from bulkdeploy.store.virtual_machines.virtual_machine_details import VM_IDS
from bulkdeploy.store.virtual_machines.virtual_machine_lists import running_jobs_part
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.support.runs.statements import statements_of
from tests.support.zones.fleet import OneDriver
from tests.support.zones.zone_files import load_zone

pytestmark = pytest.mark.long

FEW, MANY = 200, 2000
TRIES = 3
CHANCES = 5


@pytest.fixture
def bench(engine: Engine, settings: Settings) -> GeneratedZone:
    """A generated zone without VMs."""
    generate_zones(engine, Size(zones=1, pods=4, clusters=20, hosts=300, vms=0), prefix="bench")
    return GeneratedZone(settings, engine)


def cpu(engine: Engine, work: Callable[[], object]) -> float:
    """Seconds of CPU that ``work`` takes in this process and in this database's sessions."""
    query = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        before = own_cpu_seconds(connection.execute(query).scalars()) + time.process_time()
        work()
        return own_cpu_seconds(connection.execute(query).scalars()) + time.process_time() - before


def least_cpu_per_vm(bench: GeneratedZone, count: int) -> float:
    """The best of some bulk calls."""
    return min(cpu(bench.engine, lambda: deploy_without_sending(bench, count)) for _ in range(TRIES)) / count


def ever(measure: Callable[[], float], at_most: float) -> bool:
    """Whether it is so in one of a few measurements: a busy machine spoils some, what grows spoils all."""
    return any(measure() <= at_most for _ in range(CHANCES))


@pytest.fixture
def statements(engine: Engine) -> Iterator[list[str]]:
    """The statements that SQLAlchemy sends from now on."""
    with statements_of(engine) as seen:
        yield seen


def test_a_bulk_call_sends_as_many_statements_for_many_vms_as_for_few(
    bench: GeneratedZone, statements: list[str]
) -> None:
    """Statements of a bulk call do not depend on how many VMs it asks for."""
    deploy_without_sending(bench, FEW)
    statements.clear()
    deploy_without_sending(bench, FEW)
    few = list(statements)
    statements.clear()
    deploy_without_sending(bench, MANY)
    assert statements == few


def test_a_bulk_call_leaves_what_it_read_of_the_zone_to_the_next_one(bench: GeneratedZone) -> None:
    """Hosts, their capacity and pools are read whole once per process: afterwards only what changed."""
    deploy_without_sending(bench, 1)
    left = {table for table, _ in column_cache(bench.engine)._readings}
    assert left == {"hosts", "host_capacity", "storage_pools"}


def test_cpu_per_vm_does_not_grow_with_the_size_of_the_call(bench: GeneratedZone) -> None:
    """Ten times as many VMs in one call cost no more each."""
    deploy_without_sending(bench, FEW)
    few = least_cpu_per_vm(bench, FEW)
    assert ever(lambda: least_cpu_per_vm(bench, MANY), at_most=1.5 * few)


def test_cpu_does_not_grow_with_the_vms_that_are_there(bench: GeneratedZone) -> None:
    """With thousands of VMs there, all of one owner, a call costs what it did with none."""
    deploy_without_sending(bench, FEW)
    empty = least_cpu_per_vm(bench, FEW)
    for _ in range(4):
        deploy_without_sending(bench, MANY)
    assert ever(lambda: least_cpu_per_vm(bench, FEW), at_most=1.4 * empty)


def _jobs_of_shown_vms() -> ClauseElement:
    shown = [Field("jobid", FieldType.STRING, ""), Field("jobstatus", FieldType.INTEGER, "")]
    return running_jobs_part(shown).params({VM_IDS: "{1,2,3}"})


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(
            text(f"SELECT FROM async_jobs j WHERE j.id = ANY('{{1,2,3}}') AND {FIRST}"), id="first-of-its-vm"
        ),
        pytest.param(_jobs_of_shown_vms(), id="shown-with-its-vm"),
    ],
)
def test_a_plan_made_while_no_job_is_unfinished_is_good_when_many_are(engine: Engine, query: ClauseElement) -> None:
    """What is asked by VM is looked up by VM: a plan that is kept must not look at all unfinished jobs."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(
            text(
                "INSERT INTO async_jobs (kind, cmd, account_id, user_id, instance_id, status, phase)"
                " SELECT 'deploy_virtual_machine', '', 1, 1, n, 1, 'done' FROM generate_series(1, 500) n"
            )
        )
        connection.execute(text("ANALYZE async_jobs"))
        statement = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}")
        assert "ix_async_jobs_unfinished" not in "".join(plan.scalars())


def test_cpu_of_running_a_job_does_not_grow_with_the_jobs_that_wait(
    bench: GeneratedZone, system: System, fleet_simulator_url: str
) -> None:
    """Ten times as many jobs in hand cost no more each."""
    register_with_hypervisors(bench.engine, fleet_simulator_url)
    driver = SimulatorDriver(fleet_simulator_url, pool_size=4)
    runner = JobRunner(
        bench.engine,
        system.job_queue,
        OneDriver(driver),
        RunnerOptions(16, 60, 60),
        system.cipher.decrypt,
        system.power,
    )

    def per_job(count: int) -> float:
        _, messages = deploy_without_sending(bench, count)
        return cpu(bench.engine, lambda: run_all([message.job_id for message in messages])) / count

    def run_all(job_ids: list[int]) -> None:
        for job_id in job_ids:
            runner.accept(job_id)
        open_jobs = text("SELECT count(*) FROM async_jobs WHERE status = 0")
        with bench.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while connection.execute(open_jobs).scalar_one():
                time.sleep(0.02)

    try:
        per_job(50)
        few = min(per_job(MANY // 20) for _ in range(TRIES))
        assert ever(lambda: per_job(MANY // 2), at_most=2 * few)
    finally:
        runner.close()
        driver.close()


ZONE = """\
zones:
  - name: grows
    networktype: Advanced
    dns1: 10.0.0.2
    internaldns1: 10.0.0.3
    pods: [{name: pod, clusters: [{clustername: c, clustertype: CloudManaged, hypervisor: KVM}]}]
"""
FEW_HOSTS, MANY_HOSTS = 500, 3000


def test_cpu_per_host_does_not_grow_with_the_hosts_of_a_zone_file(
    engine: Engine, cipher: FernetCipher, tmp_path: Path
) -> None:
    """Six times as many new hosts in one file cost no more each."""
    files = iter(range(1000))

    def load_hosts(count: int) -> float:
        """Seconds of CPU per host."""
        where = next(files)
        path = tmp_path / f"{where}.yaml"
        hosts = f'url: "http://10.{where}.0.1/h-{where}-{{1..{count}}}", zoneid: grows, podid: pod, clusterid: c'
        path.write_text(f"hosts: [{{hypervisor: KVM, {hosts}}}]")
        return cpu(engine, lambda: load_zone(engine, cipher, path)) / count

    (tmp_path / "zone.yaml").write_text(ZONE)
    load_zone(engine, cipher, tmp_path / "zone.yaml")
    few = min(load_hosts(FEW_HOSTS) for _ in range(TRIES))
    assert ever(lambda: load_hosts(MANY_HOSTS), at_most=1.5 * few)
