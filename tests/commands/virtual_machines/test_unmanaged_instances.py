"""Guests that run on our hosts without a row: listed, imported, and let go by unmanageVirtualMachine."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.guests import Guest, GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.provisioning.watches.unmanaged_guests import UnmanagedGuests
from bulkdeploy.services.auditing.audit import audit
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


def addresses(fleet: Fleet) -> set[str]:
    """Of all VMs."""
    return {row.ip for row in fleet.zone.rows("SELECT host(ip_address) AS ip FROM nics WHERE removed IS NULL")}


def test_no_vm_gets_an_address_of_a_guest_without_a_row(fleet: Fleet, client: ApiClient) -> None:
    """Neither one that was never handed out, nor one that was given back, nor by name, until the guest is gone."""
    sweeper = UnmanagedGuests(fleet.engine, always(fleet.driver))
    fleet.deploy(3)
    fleet.run()
    network = fleet.zone.id_of("networks", "guests")
    used, cursor = sorted(addresses(fleet)), fleet.zone.scalar("SELECT host(max(next_ip)) FROM ip_ranges")
    below, above = used[0], cursor
    fleet.run(*(fleet.make_job(DESTROY, vm.id, expunge=True) for vm in fleet.vms()))
    guests = [started(fleet, f"i-7-{number}-VM", ip) for number, ip in enumerate((below, above))]
    sweeper.note_unmanaged()
    fleet.deploy(5)
    fleet.run()
    assert not {below, above} & addresses(fleet)
    offering, template = fleet.zone.id_of("service_offerings", "Small"), fleet.zone.id_of("templates", "Debian 12")
    wanted = {"zoneid": fleet.zone.id_of("zones", "small"), "serviceofferingid": offering, "templateid": template}
    taken = refused(client, "deployVirtualMachine", networkids=network, ipaddress=above, **wanted)
    assert above in taken.errortext
    for guest in guests:
        volumes = [volume.uuid for volume in guest.volumes]
        fleet.driver.ensure_absent(None, guest.uuid, volumes, fence=2, timeout_s=30)
    sweeper.note_unmanaged()
    fleet.deploy(2)
    fleet.run()
    assert {below, above} <= addresses(fleet)
    fleet.assert_intact()


def test_what_is_noted_stays_while_a_hypervisor_cannot_be_asked(fleet: Fleet) -> None:
    """A guest that was not seen may run on: its address is still given to no VM."""
    sweeper = UnmanagedGuests(fleet.engine, always(fleet.driver))
    started(fleet, "i-7-1-VM", "10.1.0.200")
    sweeper.note_unmanaged()
    fleet.control.execute("ALTER TABLE simulator.guests RENAME COLUMN power TO away")
    try:
        sweeper.note_unmanaged()
    finally:
        fleet.control.execute("ALTER TABLE simulator.guests RENAME COLUMN away TO power")
    assert fleet.zone.scalar("SELECT host(ip_address) FROM unmanaged_addresses") == "10.1.0.200"


def test_a_virtual_machine_is_let_go_and_imported_again(fleet: Fleet, client: ApiClient) -> None:
    """Its guest runs on, no row holds anything, the audit is clean; it comes back under its id with all it had."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    guest, held = fleet.guests()[vm.uuid], addresses(fleet)
    client.call("unmanageVirtualMachine", id=str(vm.uuid))
    assert client.call("listVirtualMachines", listall=True) == {}
    assert (fleet.guests(), addresses(fleet)) == ({vm.uuid: guest}, set())
    assert not fleet.zone.rows("SELECT FROM host_claims UNION ALL SELECT FROM storage_claims")
    assert not [found for found in audit(fleet.engine, [fleet.driver]) if found.breaches]
    UnmanagedGuests(fleet.engine, always(fleet.driver)).note_unmanaged()
    fleet.deploy(2)
    fleet.run()
    assert not held & addresses(fleet)
    cluster = client.call("listUnmanagedInstances", clusterid=cluster_of(fleet, guest))["unmanagedinstance"]
    assert [row["id"] for row in cluster] == [str(vm.uuid)]
    offering = fleet.zone.id_of("service_offerings", "Small")
    client.call(
        "importUnmanagedInstance", clusterid=cluster_of(fleet, guest), name=str(vm.uuid), serviceofferingid=offering
    )
    assert held <= addresses(fleet)
    back = client.call("listVirtualMachines", id=str(vm.uuid))["virtualmachine"][0]
    assert (back["state"], {nic["ipaddress"] for nic in back["nic"]}) == ("Running", held)
    fleet.assert_intact()
    fleet.run(*(fleet.make_job(DESTROY, one.id, expunge=True) for one in fleet.vms()))
    fleet.assert_nothing_held()


def cluster_of(fleet: Fleet, guest: Guest) -> str:
    """The cluster of its host."""
    query = "SELECT c.uuid FROM hosts h JOIN clusters c ON c.id = h.cluster_id WHERE h.uuid = :host"
    return str(fleet.zone.scalar(query, host=guest.host_uuid))


def test_what_cannot_be_let_go_is_refused(fleet: Fleet, client: ApiClient) -> None:
    """A VM that is stopped, that a job works on, or that has snapshots; and for callers who are no root admins."""
    fleet.deploy(2)
    fleet.run()
    first, second = fleet.vms()
    fleet.run(fleet.make_job(STOP, first.id))
    named = {"id": str(first.uuid), "hostid": str(first.uuid)}
    assert "parameter hostid: it is not supported" in refused(client, "unmanageVirtualMachine", **named).errortext
    answer = refused(client, "unmanageVirtualMachine", id=str(first.uuid), forced=True)
    assert (answer.errorcode, "its state must be Running" in answer.errortext) == (431, True)
    volume = fleet.zone.scalar("SELECT uuid FROM volumes WHERE vm_id = :vm AND removed IS NULL", vm=second.id)
    for command, of in (
        ("createSnapshot", {"volumeid": volume}),
        ("createVMSnapshot", {"virtualmachineid": second.uuid}),
    ):
        client.call(command, **of)
        assert "an unfinished job" in refused(client, "unmanageVirtualMachine", id=str(second.uuid)).errortext
        fleet.run()
        answer = refused(client, "unmanageVirtualMachine", id=str(second.uuid))
        assert (answer.errorcode, "snapshots (" in answer.errortext) == (431, True)
        for snapshot in client.call("listSnapshots", listall=True).get("snapshot", ()):
            client.call("deleteSnapshot", id=snapshot["id"])
            fleet.run()
    assert refused(ApiClient(client.url, *ACME), "unmanageVirtualMachine", id=str(second.uuid)).status == 432
    assert len(fleet.vms()) == 2
    fleet.assert_intact()
