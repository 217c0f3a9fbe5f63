"""The small zone on simulated hypervisors, VMs to work on, and questions about both sides."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import orjson
import psycopg
import pytest
from sqlalchemy import Engine, text

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.deployments.deployment import DeployCall, DeployRequest
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.registry import FindsDrivers
from bulkdeploy.drivers.simulator.control import FaultKind, FaultRule, Step, add_fault, clear_faults
from bulkdeploy.drivers.simulator.database import clear_state, connect, drop_database, ensure_database
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import SimulatedHost
from bulkdeploy.power.registry import PowerDrivers
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.running.job_runner import JobRunner, RunnerOptions
from bulkdeploy.provisioning.running.sweeping import Sweeper
from bulkdeploy.queue.job_queue import INTERACTIVE
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.deployments.deploy import deploy
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.callers import caller_by_api_key
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.deployments.deployments import DeployedVms
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import insert_jobs
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.services import unique_name, with_database
from tests.support.zones.zone_queries import Zone

T = TypeVar("T")

HOSTS = 12
OPTIONS = RunnerOptions(threads=8, lease_seconds=60, driver_timeout_s=30, commit_pace_s=0)


class OneDriver:
    """Finds the same driver for every hypervisor type."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def driver_for(self, hypervisor: str) -> Any:
        """The driver."""
        del hypervisor
        return self.driver


class Deaf:
    """A driver that says yes and does nothing."""

    def ensure_absent(self, *arguments: Any, **named: Any) -> None:
        """Do nothing."""
        del arguments, named


@dataclass
class Fleet:
    """What tests of the worker half work with."""

    engine: Engine
    settings: Settings
    system: System
    zone: Zone
    driver: SimulatorDriver
    control: psycopg.Connection
    caller: Caller
    power: PowerDrivers = field(default_factory=PowerDrivers)

    def deploy(
        self, count: int = 3, *, bulk: bool = True, template: str = "Debian 12", **request: Any
    ) -> DeployedVms:
        """Deploy as the API does; nothing runs the jobs yet. Names of entities stand for their ids."""
        kinds = {"cluster": "clusters", "pod": "pods", "host": "hosts"}
        pins: dict[str, Any] = {
            f"{name}_id": self.id_of(kinds[name], request.pop(name)) for name in kinds if name in request
        }
        wanted = DeployRequest(
            bulk=bulk,
            count=count,
            zone_id=self.id_of("zones", "small"),
            service_offering_id=self.id_of("service_offerings", "Small"),
            template_id=self.id_of("templates", template),
            method="POST",
            **pins,
            **request,
        )
        (deployed,) = self.change(deploy, self.system, [DeployCall(self.caller, (wanted,))])
        assert isinstance(deployed, DeployedVms)
        return deployed

    def change(self, service: Callable[..., T], *arguments: Any, **more: Any) -> T:
        """What a service does in a transaction, as the API's dispatcher runs it."""
        return run_transaction(self.engine, lambda connection: service(connection, *arguments, **more))

    def make_job(self, kind: JobKind, vm_id: int, **params: Any) -> int:
        """A job for an existing VM, by its internal id."""
        with self.engine.begin() as connection:
            instance = Instance(kind.instance_type, vm_id, lock_vm(connection, vm_id).uuid)
            account, user = self.caller.owner.account_id, self.caller.user_id
            job = kind.new_job(instance, "asked for by a test", account_id=account, user_id=user, params=params)
            ((job_id, _),) = insert_jobs(connection, [job], INTERACTIVE)
            return job_id

    @contextmanager
    def runner(
        self, *, drivers: FindsDrivers | None = None, options: RunnerOptions = OPTIONS
    ) -> Iterator[JobRunner]:
        """A runner; on leaving, everything it accepted is finished."""
        found, decrypt = drivers or OneDriver(self.driver), self.system.cipher.decrypt
        runner = JobRunner(self.engine, self.system.job_queue, found, options, decrypt, self.power)
        try:
            yield runner
        finally:
            runner.close()

    def run(self, *job_ids: int, drivers: FindsDrivers | None = None, options: RunnerOptions = OPTIONS) -> None:
        """Run these jobs, or all there are, as far as they go now."""
        with self.runner(drivers=drivers, options=options) as runner:
            for job_id in job_ids or [row.id for row in self.zone.rows("SELECT id FROM async_jobs ORDER BY id")]:
                runner.accept(job_id)

    def forget(self, vm: Any) -> None:
        """Expunge a VM while its guest and its volumes stay where they are."""
        self.run(self.make_job(DESTROY, vm.id, expunge=True), drivers=OneDriver(Deaf()))

    def sweeper(self) -> Sweeper:
        """A sweeper."""
        return Sweeper(self.engine, self.system.job_queue)

    def fault(self, step: Step, kind: FaultKind = FaultKind.TRANSIENT, **rule: Any) -> int:
        """Let calls fail from now on."""
        return add_fault(self.control, FaultRule(step, kind, **rule))

    def clear_faults(self) -> None:
        """Let nothing fail from now on."""
        clear_faults(self.control)

    def id_of(self, table: str, name: str) -> int:
        """The internal id of a live row by its name."""
        return int(self.zone.scalar(f"SELECT id FROM {table} WHERE name = :name AND removed IS NULL", name=name))

    def jobs(self) -> list[Any]:
        """All jobs, as rows, by id."""
        return self.zone.rows("SELECT * FROM async_jobs ORDER BY id")

    def job(self, job_id: int) -> Any:
        """One job's row."""
        (row,) = self.zone.rows("SELECT * FROM async_jobs WHERE id = :id", id=job_id)
        return row

    def vms(self) -> list[Any]:
        """All VMs, as rows, by id."""
        return self.zone.rows("SELECT * FROM virtual_machines ORDER BY id")

    def results(self) -> list[Any]:
        """All jobs' results, parsed."""
        return [None if job.result is None else orjson.loads(job.result) for job in self.jobs()]

    def guests(self) -> dict[UUID, Any]:
        """What the hypervisors run."""
        return {guest.uuid: guest for guest in self.driver.list_guests()}

    def addresses(self) -> dict[UUID, HostAddress]:
        """The hosts as drivers are told of them, by uuid."""
        rows = self.zone.rows("SELECT uuid, name, ip_address, hypervisor FROM hosts")
        return {row.uuid: HostAddress(row.uuid, row.name, row.ip_address, row.hypervisor) for row in rows}

    def volumes(self) -> set[UUID]:
        """What the pools hold."""
        return {uuid for uuid, _, _ in self.driver.list_volumes()}

    def set_value(self, name: str, value: object) -> None:
        """Give a configuration setting another value than its default."""
        statement = (
            "INSERT INTO configuration_values VALUES ('Global', 0, :name, :value)"
            " ON CONFLICT (scope, scope_id, name) DO UPDATE SET value = excluded.value"
        )
        self.zone.change(statement, name=name, value=str(value))

    def assert_intact(self) -> None:
        """Nothing is lost, twice or leaked: rows against rows, and rows against the hypervisors."""
        findings = audit(self.engine, [self.driver])
        breaches = {finding.name: finding.breaches for finding in findings if finding.breaches}
        assert not breaches, breaches
        rows = self.zone.rows("SELECT uuid FROM volumes WHERE removed IS NULL OR state = 'Destroy'")
        assert self.volumes() <= {row.uuid for row in rows}

    def assert_nothing_held(self) -> None:
        """No claim, address, volume or count of any VM is left."""
        for table in ("host_claims", "storage_claims"):
            assert self.zone.scalar(f"SELECT count(*) FROM {table}") == 0
        for table in ("nics", "volumes"):
            assert self.zone.scalar(f"SELECT count(*) FROM {table} WHERE removed IS NULL") == 0
        assert (
            self.zone.scalar("SELECT coalesce(sum(amount), 0) FROM resource_counts WHERE resource_type <> 5") == 0
        )
        assert (self.guests(), self.volumes()) == ({}, set())
        self.assert_intact()


def simulated_hosts(engine: Engine) -> Sequence[SimulatedHost]:
    """The zone's hosts as the simulator is told of them."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT h.uuid, h.name, h.cpu_cores, h.cpu_mhz, h.memory_mib, c.cpu_mhz_limit, c.memory_mib_limit,"
                " c.vms_limit FROM hosts h JOIN host_capacity c ON c.host_id = h.id"
            )
        )
        return [SimulatedHost(*row) for row in rows]


@pytest.fixture(scope="session")
def fleet_simulator_url(postgres_url: str) -> Iterator[str]:
    """A simulator's database for the run."""
    url = with_database(postgres_url, unique_name("fleet"))
    ensure_database(url)
    yield url
    drop_database(url)


@pytest.fixture(scope="session")
def template_database(small_zone_database: str) -> str:
    """Tests begin with the small zone."""
    return small_zone_database


@pytest.fixture
def fleet(engine: Engine, settings: Settings, system: System, fleet_simulator_url: str) -> Iterator[Fleet]:
    """The small zone, its hosts known to an otherwise empty simulator."""
    with open_fleet(engine, settings, system, fleet_simulator_url) as made:
        yield made


@contextmanager
def open_fleet(engine: Engine, settings: Settings, system: System, simulator_url: str) -> Iterator[Fleet]:
    """The hosts of a database's small zone, known to an otherwise empty simulator."""
    with engine.connect() as connection:
        admin = admin_row(connection)
        assert admin is not None
        holder = caller_by_api_key(connection, admin.api_key)
    assert holder is not None
    with connect(simulator_url) as control:
        clear_state(control)
        driver = SimulatorDriver(simulator_url, seed=1)
        driver.sync_hosts(simulated_hosts(engine))
        power = PowerDrivers({"simulator": {"url": simulator_url}, "redfish": {"https": False, "tries": 1}})
        try:
            yield Fleet(
                engine,
                settings.model_copy(
                    update={
                        "drivers": {"default": "simulator"},
                        "driver": {"simulator": {"url": simulator_url}},
                    }
                ),
                system,
                Zone(engine),
                driver,
                control,
                holder.caller,
                power,
            )
        finally:
            power.close()
            driver.close()
            clear_state(control)  # others share the simulator, and would find guests of no VM of theirs
