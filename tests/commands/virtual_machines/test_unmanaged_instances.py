"""listUnmanagedInstances, importUnmanagedInstance: guests that run on our hosts without a row."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.driver import GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.hypervisors.drivers import always
from tests.support.zones.fleet import Fleet


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, fleet_simulator_url: str) -> Iterator[System]:
    """One that asks hypervisors what they have."""
    driver = SimulatorDriver(fleet_simulator_url)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    driver.close()


def started(fleet: Fleet, name: str, address: str, *, on: str = "a-1-1") -> GuestSpec:
    """A guest of the offering Small that runs on a host, and that no row knows."""

    def uuid_of(table: str, name: str) -> UUID:
        return UUID(fleet.zone.id_of(table, name))

    pool, template = uuid_of("storage_pools", "a-1-primary"), uuid_of("templates", "Debian 12")
    volume = VolumeSpec(uuid4(), "ROOT", 2 << 30, pool, template)
    nic = NicSpec(
        uuid4(), f"06:00:00:00:00:{len(fleet.guests()):02x}", address, uuid_of("networks", "guests"), "100"
    )
    guest = GuestSpec(uuid4(), name, 1, 500, 512, (volume,), (nic,))
    host = fleet.addresses()[uuid_of("hosts", on)]
    fleet.driver.ensure_running(host, guest, fence=1, timeout_s=30)
    return guest


def test_a_guest_becomes_a_virtual_machine(fleet: Fleet, client: ApiClient) -> None:
    """It is listed, imported for an account under its own id, with address and volume, and listed no more."""
    cluster, offering = fleet.zone.id_of("clusters", "a-1"), fleet.zone.id_of("service_offerings", "Small")
    one, other = started(fleet, "i-7-1-VM", "10.1.0.200"), started(fleet, "i-7-2-VM", "10.1.0.201")
    listed = client.call("listUnmanagedInstances", clusterid=cluster)
    assert (listed["count"], [row["name"] for row in listed["unmanagedinstance"]]) == (2, ["i-7-1-VM", "i-7-2-VM"])
    (row,) = client.call("listUnmanagedInstances", clusterid=cluster, name="i-7-1-VM")["unmanagedinstance"]
    assert (row["id"], row["hostname"], row["powerstate"]) == (str(one.uuid), "a-1-1", "PowerOn")
    assert [nic["ipaddress"] for nic in row["nic"]] == ["10.1.0.200"]
    page = client.call("listUnmanagedInstances", clusterid=cluster, page=2, pagesize=1)
    assert [row["id"] for row in page["unmanagedinstance"]] == [str(other.uuid)]
    assert client.call("listUnmanagedInstances", clusterid=fleet.zone.id_of("clusters", "a-2")) == {}
    named = {"account": "acme", "domainid": fleet.zone.id_of("domains", "acme")}
    imported = client.call(
        "importUnmanagedInstance", clusterid=cluster, name="i-7-1-VM", serviceofferingid=offering, **named
    )
    job = client.call("queryAsyncJobResult", jobid=imported["jobid"])
    vm = job["jobresult"]["virtualmachine"]
    assert (job["jobstatus"], vm["id"], vm["state"], vm["account"]) == (1, str(one.uuid), "Running", "acme")
    assert (vm["hostname"], vm["nic"][0]["ipaddress"], imported["id"]) == ("a-1-1", "10.1.0.200", vm["id"])
    left = client.call("listUnmanagedInstances", clusterid=cluster)["unmanagedinstance"]
    assert [row["id"] for row in left] == [str(other.uuid)]
    fleet.driver.ensure_absent(None, other.uuid, [volume.uuid for volume in other.volumes], fence=2, timeout_s=30)
    fleet.assert_intact()


def test_what_cannot_be_imported_is_refused(fleet: Fleet, client: ApiClient) -> None:
    """A name that none or two have, other sizes, an address in use; and callers who are no root admins."""
    cluster = fleet.zone.id_of("clusters", "a-1")
    ids = {"clusterid": cluster, "serviceofferingid": fleet.zone.id_of("service_offerings", "Small")}
    twins = [started(fleet, "twin", f"10.1.0.{number}") for number in (200, 200)]
    for name in ("nobody", "twin"):
        assert refused(client, "importUnmanagedInstance", name=name, **ids).errorcode == 431
    client.call("importUnmanagedInstance", name=str(twins[0].uuid), **ids)
    second = refused(client, "importUnmanagedInstance", name=str(twins[1].uuid), **ids)
    assert (second.errorcode, "its address 10.1.0.200 in network guests" in second.errortext) == (431, True)
    fleet.zone.change("UPDATE service_offerings SET memory_mib = 1024 WHERE name = 'Small'")
    second = refused(client, "importUnmanagedInstance", name=str(twins[1].uuid), **ids)
    assert "no service offering has its sizes" in second.errortext
    assert refused(ApiClient(client.url, *ACME), "listUnmanagedInstances", clusterid=cluster).status == 432
    assert [vm.uuid for vm in fleet.vms()] == [UUID(str(twins[0].uuid))]
