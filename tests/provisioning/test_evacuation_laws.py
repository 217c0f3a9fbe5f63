"""Hosts die, are evacuated and come back while VMs have jobs, and workers die: no VM is lost, none runs twice."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from bulkdeploy.domain.errors import InsufficientCapacity
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.infrastructure.evacuate_host import EVACUATE_HOST_COMMIT
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import MIGRATE_COMMIT
from bulkdeploy.provisioning.kinds.virtual_machines.scale_virtual_machine import SCALE_COMMIT
from bulkdeploy.provisioning.outcome import LeaseLost
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.hypervisors.drivers import always
from tests.support.processes.deaths import dies_at
from tests.support.runs.properties import examples
from tests.support.zones.fleet import Fleet

pytestmark = pytest.mark.long

HOSTS = ("a-1-1", "a-1-2", "a-1-3")
"""The hosts of one cluster, to which the pools of the small zone bind VMs."""

MOST_ROUNDS = 60
EXPECTED_REFUSALS = {431, 533, 534}
"""The VM is in no state for the call, or the host is; or no host has room."""

POINTS = (
    Failpoint.DRIVER_BOOT,
    Failpoint.DRIVER_STOP,
    Failpoint.DRIVER_MIGRATE,
    Failpoint.DRIVER_SCALE,
    Failpoint.DRIVER_DELETE,
    Failpoint.DRIVER_LOOK,
    Failpoint.DRIVER_FENCE,
    EVACUATE_HOST_COMMIT,
    MIGRATE_COMMIT,
    SCALE_COMMIT,
)
PLACES = [f"{point}.{when}" for point in POINTS for when in ("before", "after")]

HOLDERS = (
    "SELECT DISTINCT v.uuid FROM virtual_machines v LEFT JOIN async_jobs j ON j.instance_id = v.id"
    "   AND j.instance_type = 'VirtualMachine' AND j.status = 0"
    " WHERE v.removed IS NULL AND (v.host_id = :host"
    "   OR EXISTS (SELECT FROM host_claims c WHERE c.host_id = :host AND c.consumer IN (v.uuid, j.uuid)))"
)
"""VMs that are on a host, start there, or migrate from or to the host."""


@pytest.fixture
def system(settings: Settings, fleet_simulator_url: str, engine: Any, cipher: FernetCipher) -> Iterator[System]:
    """One whose API asks the simulator whether hosts answer."""
    driver = SimulatorDriver(fleet_simulator_url)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    driver.close()


class Evacuations(RuleBasedStateMachine):
    """Random calls, failures and deaths in one cluster; in the end everything answers again and settles."""

    fleet: ClassVar[Fleet]
    client: ClassVar[ApiClient]

    def __init__(self) -> None:
        super().__init__()
        self.evacuations: dict[str, dict[str, set[str]]] = {}

    @initialize(vms=st.integers(2, 4))
    def begin(self, vms: int) -> None:
        """A few VMs run."""
        self.fleet.deploy(vms, cluster="a-1")
        self.fleet.run()

    @rule()
    def deploy(self) -> None:
        """One more VM is asked for."""
        with suppress(InsufficientCapacity):  # the cluster may have no host left
            self.fleet.deploy(1, cluster="a-1")

    @rule(
        command=st.sampled_from(
            ["stopVirtualMachine", "startVirtualMachine", "rebootVirtualMachine", "restoreVirtualMachine"]
        ),
        turn=st.integers(0, 5),
    )
    def change(self, command: str, turn: int) -> None:
        """A VM is to be stopped, started, rebooted or restored."""
        vm = self._vm(turn)
        name = "virtualmachineid" if command == "restoreVirtualMachine" else "id"
        self._call(command, **{name: vm})

    @rule(turn=st.integers(0, 5))
    def migrate(self, turn: int) -> None:
        """A VM is to move."""
        self._call("migrateVirtualMachine", virtualmachineid=self._vm(turn), autoselect=True)

    @rule(turn=st.integers(0, 5))
    def destroy(self, turn: int) -> None:
        """A VM is to go."""
        self._call("destroyVirtualMachine", id=self._vm(turn))

    @rule(turn=st.integers(0, 5))
    def scale(self, turn: int) -> None:
        """A VM is to grow, and to move for it: its host has no room for more."""
        vm = self._vm(turn)
        full = (
            "UPDATE host_capacity SET memory_mib_limit = memory_mib_used WHERE host_id ="
            " (SELECT host_id FROM virtual_machines WHERE uuid = CAST(:vm AS uuid))"
        )
        self.fleet.zone.change(full, vm=vm)
        custom = self.fleet.zone.id_of("service_offerings", "Custom")
        larger: dict[str, Any] = {"details[0].cpuNumber": 2, "details[0].memory": 1024}
        self._call("scaleVirtualMachine", id=vm, serviceofferingid=custom, automigrate=True, **larger)

    @rule(place=st.none() | st.sampled_from(PLACES), passes=st.integers(0, 2))
    def run(self, place: str | None, passes: int) -> None:
        """Workers run what there is; one may die at a place, after so many have passed there."""
        with dies_at(place, passes=passes, times=None, end=LeaseLost):
            self._go_on()
        self._restore_capacity()

    @rule(host=st.sampled_from(HOSTS))
    def fail(self, host: str) -> None:
        """A host falls silent; its guests run on."""
        cut_off(self.fleet.control, host)

    @rule(host=st.sampled_from(HOSTS))
    def recover(self, host: str) -> None:
        """A host answers again, and is taken back if it may be."""
        self._take_back(host)

    @rule(host=st.sampled_from(HOSTS))
    def evacuate(self, host: str) -> None:
        """A host is evacuated: all that have anything there now are to be in the result."""
        holders = {str(row.uuid) for row in self.fleet.zone.rows(HOLDERS, host=self.fleet.id_of("hosts", host))}
        uuid = self.fleet.zone.id_of("hosts", host)
        job = self._call("evacuateHost", id=uuid, force=True)
        if job is not None:
            self.evacuations.setdefault(host, {})[job["jobid"]] = holders
            self.fleet.run(
                int(self.fleet.zone.scalar("SELECT id FROM async_jobs WHERE uuid = :job", job=job["jobid"]))
            )

    def teardown(self) -> None:
        """Every job ends, rows and guests agree, and each evacuation names its VMs. Then all is as before."""
        try:
            self._settle()
        finally:
            self._clear()

    def _settle(self) -> None:
        self._restore_capacity()
        for host in HOSTS:
            join_again(self.fleet.control, host)
        self._end_jobs()
        for host in HOSTS:
            self._take_back(host)
        self._end_jobs()
        states = {vm.state for vm in self.fleet.vms() if vm.removed is None}
        assert states <= {"Running", "Stopped", "Error", "Destroyed"}, states
        self.fleet.assert_intact()
        for evacuations in self.evacuations.values():
            # An evacuation of a host that is being evacuated leaves what the first one has in hand to it.
            named = set[str]().union(*map(self._named, evacuations))
            holders = set[str]().union(*evacuations.values())
            assert holders <= named, holders - named

    def _named(self, job: str) -> set[str]:
        """Return the VMs that the result of an evacuation names."""
        answer = self.client.call("queryAsyncJobResult", jobid=job)
        assert answer["jobstatus"] == JobStatus.SUCCEEDED, answer
        result = answer["jobresult"]["hostmigration"]
        assert all(row["errortext"] for row in result.get("failed", ()))
        return {row["virtualmachineid"] for part in ("moved", "failed") for row in result.get(part, ())}

    def _end_jobs(self) -> None:
        for _ in range(MOST_ROUNDS):
            self._go_on()
            if not self._unfinished():
                return
        raise AssertionError([(job.kind, job.phase, job.progress) for job in self._unfinished()])

    def _unfinished(self) -> Sequence[Any]:
        return self.fleet.zone.rows("SELECT * FROM async_jobs WHERE status = 0 ORDER BY id")

    def _go_on(self) -> None:
        """Leases of dead workers run out, what waits is due, and workers run."""
        self.fleet.zone.change(
            "UPDATE async_jobs SET lease_until = now() - interval '1 s' WHERE status = 0 AND phase = 'running'"
        )
        self.fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE status = 0 AND phase = 'waiting'")
        self.fleet.run(*[job.id for job in self._unfinished()] or [0])

    def _vm(self, turn: int) -> str:
        vms = [vm for vm in self.fleet.vms() if vm.removed is None]
        return str(vms[turn % len(vms)].uuid)

    def _call(self, command: str, **parameters: Any) -> dict[str, Any] | None:
        try:
            return self.client.call(command, **parameters)
        except ApiFailure as failure:
            if failure.status not in EXPECTED_REFUSALS:
                raise
            return None

    def _take_back(self, host: str) -> None:
        join_again(self.fleet.control, host)
        if self.fleet.zone.scalar("SELECT fenced IS NOT NULL OR state <> 'Up' FROM hosts WHERE name = :h", h=host):
            self._call("reconnectHost", id=self.fleet.zone.id_of("hosts", host))

    def _restore_capacity(self) -> None:
        self.fleet.zone.change("UPDATE host_capacity SET memory_mib_limit = GREATEST(65536, memory_mib_used)")

    def _clear(self) -> None:
        self._restore_capacity()
        for host in HOSTS:
            self._take_back(host)
        for vm in self.fleet.vms():
            if vm.removed is None:
                self.fleet.make_job(DESTROY, vm.id, expunge=True)
        self._end_jobs()


def test_no_vm_of_an_evacuated_host_is_lost(fleet: Fleet, client: ApiClient) -> None:
    """Whatever its VMs do, and whoever dies meanwhile: results name all, and rows and guests agree in the end."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name <> ALL(:hosts)", hosts=list(HOSTS))
    fleet.zone.change("UPDATE hosts SET url = 'http://rack/' || name WHERE name = ANY(:hosts)", hosts=list(HOSTS))
    fleet.set_value("enable.dynamic.scale.vm", "true")
    fleet.set_value("job.lost.worker.max", 1000)
    Evacuations.fleet, Evacuations.client = fleet, client
    run_state_machine_as_test(Evacuations, settings=examples(15))
