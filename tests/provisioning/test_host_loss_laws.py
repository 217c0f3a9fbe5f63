"""The number that calculateCapacity promises with n1 can be deployed, and then any one host can be evacuated."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.drivers import always
from tests.support.runs.properties import examples
from tests.support.zones.fleet import Fleet

pytestmark = pytest.mark.long

MOST_ROUNDS = 100
SIZES_MIB = (256, 384, 512, 640, 1024, 1536, 2048)
LIMITS_MIB = (3072, 4096, 5120, 6144)
HOSTS = 6
ALGORITHMS = ("random", "firstfit", "userdispersing", "leastused")


@pytest.fixture
def system(settings: Settings, fleet_simulator_url: str, engine: Any, cipher: FernetCipher) -> Iterator[System]:
    """One whose API asks the simulator whether hosts answer."""
    driver = SimulatorDriver(fleet_simulator_url)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    driver.close()


@pytest.fixture
def one_cluster(fleet: Fleet) -> list[str]:
    """HOSTS hosts of cluster a-1, by name; the zone has no other host."""
    names = [f"{cluster}-{number}" for cluster in ("a-1", "a-2", "b-1", "b-2") for number in (1, 2, 3)][:HOSTS]
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name <> ALL(:names)", names=names)
    fleet.zone.change(
        "UPDATE hosts h SET cluster_id = c.id, pod_id = c.pod_id, url = 'http://rack/' || h.name FROM clusters c"
        " WHERE c.name = 'a-1' AND h.name = ANY(:names)",
        names=names,
    )
    fleet.set_value("cluster.threshold.enabled", "false")
    fleet.set_value("job.lost.worker.max", 1000)
    return names


def test_any_one_host_can_be_evacuated_after_the_promised_number(
    fleet: Fleet, client: ApiClient, one_cluster: list[str]
) -> None:
    """Whatever the sizes of hosts and VMs: every dry run finds hosts for all VMs, and the real call uses them."""
    promised = []

    @examples(20)
    @given(
        limits=st.lists(st.sampled_from(LIMITS_MIB), min_size=HOSTS, max_size=HOSTS),
        there=st.lists(st.sampled_from(SIZES_MIB), min_size=6, max_size=14),
        wanted=st.sampled_from(SIZES_MIB),
        lost=st.sampled_from(one_cluster),
        algorithm=st.sampled_from(ALGORITHMS),
    )
    def holds(limits: list[int], there: list[int], wanted: int, lost: str, algorithm: str) -> None:
        fleet.set_value("vm.allocation.algorithm", algorithm)
        for name, limit in zip(one_cluster, limits, strict=True):
            fleet.zone.change(
                "UPDATE host_capacity SET memory_mib_limit = :limit"
                " WHERE host_id = (SELECT id FROM hosts WHERE name = :name)",
                limit=limit,
                name=name,
            )
        try:
            for size in there:
                _deploy(fleet, client, 1, size)
            found = client.call("calculateCapacity", n1=True, **_parameters(fleet, wanted))["remainingcapacity"]
            promised.append(found["count"])
            if found["count"]:
                _deploy(fleet, client, found["count"], wanted)
                _check_evacuations(fleet, client, one_cluster, lost)
        finally:
            _clear(fleet, client, one_cluster)

    holds()
    assert any(promised)


def _check_evacuations(fleet: Fleet, client: ApiClient, hosts: list[str], lost: str) -> None:
    shown = {}
    for name in hosts:
        plan = client.call("evacuateHost", id=fleet.zone.id_of("hosts", name), force=True, dryrun=True)["plan"]
        assert plan["fits"] == plan["count"], (name, plan)
        shown[name] = {row["virtualmachineid"]: row["hostname"] for row in plan.get("move", ())}
    cut_off(fleet.control, lost)
    job = client.call("evacuateHost", id=fleet.zone.id_of("hosts", lost), force=True)["jobid"]
    _end_jobs(fleet)
    result = client.call("queryAsyncJobResult", jobid=job)["jobresult"]["hostmigration"]
    assert result.get("failed", []) == []
    assert {row["virtualmachineid"]: row["hostname"] for row in result.get("moved", ())} == shown[lost]
    assert {vm.state for vm in fleet.vms() if vm.removed is None} == {"Running"}
    fleet.assert_intact()


def _parameters(fleet: Fleet, memory_mib: int) -> dict[str, Any]:
    custom = {
        "serviceofferingid": fleet.zone.id_of("service_offerings", "Custom"),
        "details[0].cpuNumber": 1,
        "details[0].memory": memory_mib,
    }
    parameters = fleet.zone.bulk_parameters(1, **custom)
    del parameters["virtualmachinecount"]
    return parameters


def _deploy(fleet: Fleet, client: ApiClient, count: int, memory_mib: int) -> None:
    client.call("bulkDeployVirtualMachine", **_parameters(fleet, memory_mib), virtualmachinecount=count)
    _end_jobs(fleet)


def _end_jobs(fleet: Fleet) -> None:
    for _ in range(MOST_ROUNDS):
        left = fleet.zone.rows("SELECT id FROM async_jobs WHERE status = 0 ORDER BY id")
        if not left:
            return
        fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE status = 0 AND phase = 'waiting'")
        fleet.run(*[row.id for row in left])
    raise AssertionError("jobs do not end")


def _clear(fleet: Fleet, client: ApiClient, hosts: list[str]) -> None:
    for name in hosts:
        join_again(fleet.control, name)
        if fleet.zone.scalar("SELECT fenced IS NOT NULL OR state <> 'Up' FROM hosts WHERE name = :h", h=name):
            client.call("reconnectHost", id=fleet.zone.id_of("hosts", name))
    for vm in fleet.vms():
        if vm.removed is None:
            fleet.make_job(DESTROY, vm.id, expunge=True)
    _end_jobs(fleet)
