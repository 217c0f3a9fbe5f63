"""Storage units: listed through API and program, kept from new data, repaired where no VM loses data by it."""

import json
from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, QueuePool

from bulkdeploy.drivers.abilities.storage_units import StorageUnit
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import Guest
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.control import cut_off, join_again
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.manage.hypervisors.storage import FOUND
from bulkdeploy.manage.main import main
from bulkdeploy.provisioning.volume_removal import VolumeRemoval
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.driver_records import records_in
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.hypervisors.drivers import always
from tests.support.zones.fleet import Fleet

SHARED = ("nfs", "/export/a-1")
GIB = 1 << 30


class Watching(SimulatorDriver):
    """Notes how many connections of ``engine`` are in use at the moment that it is asked."""

    def __init__(self, url: str, engine: Engine) -> None:
        super().__init__(url)
        self.engine, self.in_use = engine, list[int]()

    def _note(self) -> None:
        assert isinstance(self.engine.pool, QueuePool)
        self.in_use.append(self.engine.pool.checkedout())

    def look_at_storage(
        self, hosts: Sequence[HostAddress], *, timeout_s: float
    ) -> list[Sequence[StorageUnit] | DriverError]:
        """See SimulatorDriver."""
        self._note()
        return super().look_at_storage(hosts, timeout_s=timeout_s)

    def list_guests(self) -> Iterator[Guest]:
        """See SimulatorDriver."""
        self._note()
        return super().list_guests()


@pytest.fixture
def driver(fleet_simulator_url: str, engine: Engine) -> Iterator[Watching]:
    """The API's."""
    driver = Watching(fleet_simulator_url, engine)
    driver.use_records(records_in(engine, lambda _: True))
    yield driver
    driver.close()


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, driver: Watching) -> System:
    """One that asks hypervisors what they have."""
    return System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))


def run(fleet: Fleet, *arguments: str) -> Result:
    """The program with these arguments, on the fleet's database and hypervisors."""
    environment = {
        "BULKDEPLOY_DATABASE_URL": fleet.settings.require_database_url(),
        "BULKDEPLOY_DATA_DIR": str(fleet.settings.data_dir),
        "BULKDEPLOY_DRIVERS": json.dumps(fleet.settings.drivers),
        "BULKDEPLOY_DRIVER": json.dumps(fleet.settings.driver),
    }
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


def break_storage(fleet: Fleet, host: str, pool: str) -> None:
    """Let a host not read a pool any more."""
    assert run(fleet, "simulator", "break-storage", host, fleet.zone.id_of("storage_pools", pool)).exit_code == 0


@pytest.fixture
def local_host(fleet: Fleet, client: ApiClient) -> str:
    """The name of a host with disks of its own; the offering for them is Local."""
    zone, pod = fleet.zone.id_of("zones", "small"), fleet.zone.id_of("pods", "pod-a")
    fleet.zone.change("UPDATE zones SET local_storage_enabled = true")
    kind = {"hypervisor": "KVM", "clustertype": "CloudManaged"}
    cluster = client.call("addCluster", zoneid=zone, podid=pod, clustername="own-disks", **kind)["cluster"][0]["id"]
    client.call(
        "addHost",
        zoneid=zone,
        podid=pod,
        clusterid=cluster,
        hypervisor="KVM",
        username="any",
        password="any",
        url="http://10.0.1.99/own-disks?local_disk_gib=100",
    )
    sizes = {"cpunumber": 1, "cpuspeed": 500, "memory": 512}
    client.call("createServiceOffering", name="Local", displaytext="Local", storagetype="local", **sizes)
    return "own-disks"


def deploy_local(fleet: Fleet) -> dict[str, object]:
    """What deploys one VM on a host's own disks."""
    return fleet.zone.bulk_parameters(1, serviceofferingid=fleet.zone.id_of("service_offerings", "Local"))


def test_units_of_hosts_are_listed(fleet: Fleet, client: ApiClient) -> None:
    """By cluster or host, with type, sizes, health and pool; a host that does not answer is said to be silent."""
    cluster, host = fleet.zone.id_of("clusters", "a-1"), fleet.zone.id_of("hosts", "a-1-1")
    fleet.deploy(4)
    fleet.run()
    units = client.call("listStorageUnits", clusterid=cluster)["storageunit"]
    assert [(unit["hostname"], unit["type"], unit["storagename"]) for unit in units] == [
        (f"a-1-{number}", "nfs", pool) for number in (1, 2, 3) for pool in ("a-1-primary", "zone-wide")
    ]
    for unit in units:
        assert (unit["allocatable"], unit["healthy"]) == (True, True)
        assert unit["used"] + unit["free"] == unit["size"]
    assert units[0]["used"] >= 2 * GIB
    named = client.call("listStorageUnits", hostid=host, type="nfs", name="/export/a-1", healthy=True)
    assert [unit["hostid"] for unit in named["storageunit"]] == [host]
    assert client.call("listStorageUnits", hostid=host, healthy=False) == {}
    page = client.call("listStorageUnits", clusterid=cluster, page=2, pagesize=4)
    assert (page["count"], len(page["storageunit"])) == (6, 2)
    assert cut_off(fleet.control, "a-1-1")
    (silent,) = client.call("listStorageUnits", hostid=host)["storageunit"]
    assert (silent["healthy"], "no route to the host" in silent["problem"]) == (False, True)
    listed = run(fleet, "storage", "list")
    assert (listed.exit_code, "BROKEN   a-1-1: " in listed.output) == (FOUND, True)
    assert join_again(fleet.control, "a-1-1")
    assert run(fleet, "storage", "list", "--host", "a-1-1").exit_code == 0


def test_no_connection_is_held_while_hypervisors_are_asked(
    fleet: Fleet, client: ApiClient, driver: Watching
) -> None:
    """They may take minutes, and other calls need connections; the same holds for guests without rows."""
    cluster = fleet.zone.id_of("clusters", "a-1")
    assert client.call("listStorageUnits", clusterid=cluster)["count"] == 6
    assert client.call("listUnmanagedInstances", clusterid=cluster) == {}
    assert len(driver.in_use) >= 2
    assert set(driver.in_use) == {0}


def test_who_may_ask_and_what(fleet: Fleet, client: ApiClient) -> None:
    """Root admins, about a host or a cluster."""
    cluster, host = fleet.zone.id_of("clusters", "a-1"), fleet.zone.id_of("hosts", "a-1-1")
    assert refused(ApiClient(client.url, *ACME), "listStorageUnits", clusterid=cluster).status == 432
    assert refused(client, "listStorageUnits").status == 431
    assert refused(client, "listStorageUnits", clusterid=cluster, hostid=host).status == 431


def test_allocation_is_stopped_per_unit(fleet: Fleet, client: ApiClient, local_host: str) -> None:
    """A host whose own disks take no new data gets no VM for them, until they do again."""
    unit = (local_host, "dir", f"{local_host}-local")
    stopped = run(fleet, "storage", "modify", *unit, "--allocatable", "no")
    assert (stopped.exit_code, "no new data" in stopped.output) == (0, True), stopped.output
    host = fleet.zone.id_of("hosts", local_host)
    (row,) = client.call("listStorageUnits", hostid=host, type="dir")["storageunit"]
    assert (row["allocatable"], row["healthy"], row["size"]) == (False, True, 100 * GIB)
    assert refused(client, "bulkDeployVirtualMachine", **deploy_local(fleet)).status == 533
    assert run(fleet, "storage", "modify", *unit, "--allocatable", "yes").exit_code == 0
    assert client.call("bulkDeployVirtualMachine", **deploy_local(fleet))["count"] == 1


def test_a_pool_of_many_hosts_is_not_stopped_at_one(fleet: Fleet) -> None:
    """The answer says what to do instead; a unit that there is not is refused with those that there are."""
    shared = run(fleet, "storage", "modify", "a-1-1", *SHARED, "--allocatable", "no")
    assert (shared.exit_code, "updateStoragePool enabled=false" in shared.output) == (1, True)
    unknown = run(fleet, "storage", "modify", "a-1-1", "nfs", "/export/b-1", "--allocatable", "no")
    assert (unknown.exit_code, "nfs /export/a-1" in unknown.output) == (1, True)
    assert run(fleet, "storage", "repair", "nowhere", *SHARED).exit_code == 2


def test_repair_waits_for_every_other_holder(fleet: Fleet) -> None:
    """Data of VMs must be healthy at every other host that reaches the pool; then the unit is made whole."""
    fleet.deploy(4)
    fleet.run()
    for host in ("a-1-1", "a-1-2"):
        break_storage(fleet, host, "a-1-primary")
    assert run(fleet, "storage", "list", "--host", "a-1-1").exit_code == FOUND
    early = run(fleet, "storage", "repair", "a-1-1", *SHARED)
    assert (early.exit_code, "pool a-1-primary must be Disabled" in early.output) == (1, True), early.output
    fleet.zone.change("UPDATE storage_pools SET state = 'Disabled' WHERE name = 'a-1-primary'")
    tried = run(fleet, "storage", "repair", "a-1-1", *SHARED)
    assert tried.exit_code == 1
    assert "is not healthy elsewhere: host a-1-2" in tried.output
    assert any(vm.name in tried.output for vm in fleet.vms())
    fleet.control.execute(
        "DELETE FROM simulator.broken_units b USING simulator.hosts h"
        " WHERE b.host_uuid = h.uuid AND h.name = 'a-1-2'"
    )
    assert run(fleet, "storage", "repair", "a-1-1", *SHARED, "--dry-run").exit_code == 0
    assert run(fleet, "storage", "list", "--host", "a-1-1").exit_code == FOUND
    assert run(fleet, "storage", "repair", "a-1-1", *SHARED).exit_code == 0
    assert run(fleet, "storage", "list").exit_code == 0


def test_own_disks_are_not_repaired_under_a_volume(fleet: Fleet, client: ApiClient, local_host: str) -> None:
    """Its data is nowhere else, be it a VM's or detached; once both are gone, and no new one comes, they are."""
    unit = (local_host, "dir", f"{local_host}-local")
    kind = {"name": "Data", "displaytext": "Data", "disksize": 1, "storagetype": "local"}
    data = client.call("createDiskOffering", **kind)["diskoffering"]["id"]
    (job,) = client.call("bulkDeployVirtualMachine", **deploy_local(fleet), diskofferingid=data)["asyncjobs"]
    fleet.run()
    vm = UUID(job["jobinstanceid"])
    (volume,) = client.call("listVolumes", virtualmachineid=vm, type="DATADISK", listall=True)["volume"]
    break_storage(fleet, local_host, f"{local_host}-local")
    assert run(fleet, "storage", "modify", *unit, "--allocatable", "no").exit_code == 0
    tried = run(fleet, "storage", "repair", *unit)
    assert (tried.exit_code, "exists nowhere else" in tried.output) == (1, True), tried.output
    client.call("detachVolume", id=volume["id"])
    fleet.run()
    client.call("destroyVirtualMachine", id=vm, expunge=True)
    fleet.run()
    detached = run(fleet, "storage", "repair", *unit)
    assert (detached.exit_code, volume["name"] in detached.output) == (1, True), detached.output
    client.call("deleteVolume", id=volume["id"])
    fleet.zone.change("UPDATE volumes SET removal_due = now() WHERE removal_due IS NOT NULL")
    VolumeRemoval(fleet.engine, always(fleet.driver), 30).remove_volumes()
    assert run(fleet, "storage", "repair", *unit).exit_code == 0
