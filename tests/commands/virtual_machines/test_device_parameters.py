"""Parameters of disks and nics, and variants of templates: what a driver knows reaches it, all else is refused."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.batches import Answer, GuestCall, StartCall
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.registry import DEFAULT, ConfiguredDriver, Drivers
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.zones.fleet import Fleet, OneDriver

BULK = "bulkDeployVirtualMachine"


def not_connected() -> HypervisorDriver:
    """The API needs to know what a driver declares, and no more."""
    raise AssertionError("a deploy call connected to a hypervisor")


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher) -> System:
    """One whose hypervisors are a Ganeti cluster."""
    known = GanetiDriver.device_parameters
    driver = ConfiguredDriver("ganeti", GanetiDriver.abilities, not_connected, known)
    return System(engine, build_job_queue(settings), cipher, settings.data_dir, Drivers({DEFAULT: driver}))


class Listening(SimulatorDriver):
    """Simulated hypervisors that remember what they were asked to start."""

    started: list[GuestSpec]

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """See BatchDriver."""
        self.started += [call.guest for call in calls if isinstance(call, StartCall)]
        return super().begin(calls, timeout_s=timeout_s)


@pytest.fixture
def listening(fleet_simulator_url: str) -> Iterator[Listening]:
    """Nothing was started yet."""
    driver = Listening(fleet_simulator_url)
    driver.started = []
    yield driver
    driver.close()


def detail(name: str, value: str, parameter: str = "details") -> dict[str, str]:
    """One detail, as a call gives it."""
    return {f"{parameter}[0].{name}": value}


def set_variants(fleet: Fleet, client: ApiClient) -> None:
    """Let the template declare two variants."""
    client.call(
        "updateTemplate", id=fleet.zone.id_of("templates", "Debian 12"), **detail("variants", "server, dev")
    )


def test_parameters_reach_the_driver(fleet: Fleet, client: ApiClient, listening: Listening) -> None:
    """Those of the service offering, then of the call, then of a disk's own offering: later ones win."""
    offering = client.call(
        "createServiceOffering",
        name="Routed",
        displaytext="Routed",
        cpunumber=1,
        cpuspeed=500,
        memory=512,
        **detail("nic.mode", "routed", "serviceofferingdetails"),
        **{"serviceofferingdetails[0].disk.vg": "slow"},
    )["serviceoffering"]["id"]
    disk = client.call(
        "createDiskOffering", name="Fast", displaytext="Fast", disksize=1, **detail("disk.vg", "fast")
    )
    wanted: dict[str, Any] = {
        "serviceofferingid": offering,
        "diskofferingid": disk["diskoffering"]["id"],
        "details[0].nic.link": "table7",
        "details[0].disk.vg": "mid",
    }
    client.call(BULK, **fleet.zone.bulk_parameters(2, **wanted))
    fleet.run(drivers=OneDriver(listening))
    assert len(listening.started) == 2
    for guest in listening.started:
        assert [volume.parameters for volume in guest.volumes] == [{"vg": "mid"}, {"vg": "fast"}]
        assert [nic.parameters for nic in guest.nics] == [{"mode": "routed", "link": "table7"}]
        assert guest.template_variant is None
    vm = str(listening.started[0].uuid)
    changed = refused(client, "updateVirtualMachine", id=vm, **detail("nic.link", "other"))
    assert (changed.status, "cannot be changed" in str(changed)) == (431, True)
    kept = client.call("updateVirtualMachine", id=vm, **detail("colour", "red"))["virtualmachine"]["details"]
    assert (kept["colour"], kept["nic.link"]) == ("red", "table7")


def test_what_the_driver_does_not_know_is_refused(fleet: Fleet, client: ApiClient) -> None:
    """In the call and in offerings, with the names that it knows; nothing is written."""
    unknown = refused(client, BULK, **fleet.zone.bulk_parameters(1, **detail("disk.cache", "none")))
    assert unknown.status == 431
    assert "does not support disk.cache: the driver supports disk.access, disk.metavg" in str(unknown)
    disk = client.call("createDiskOffering", name="Odd", displaytext="Odd", disksize=1, **detail("disk.odd", "1"))
    more = {"diskofferingid": disk["diskoffering"]["id"]}
    assert "does not support disk.odd" in str(refused(client, BULK, **fleet.zone.bulk_parameters(1, **more)))
    user = ApiClient(client.url, *ACME)
    one = {"virtualmachinecount": None, "account": None, "domainid": None}
    own = fleet.zone.bulk_parameters(1, **one, **detail("nic.link", "management"))
    assert "Only root admins" in str(refused(user, "deployVirtualMachine", **own))
    assert fleet.vms() == []


def test_a_variant_is_one_that_the_template_declares(fleet: Fleet, client: ApiClient, listening: Listening) -> None:
    """Or another where it is forced; a template with variants needs one, and the driver is told which."""
    named = fleet.zone.bulk_parameters
    assert "declares these variants: none" in str(refused(client, BULK, **named(1, templatevariant="dev")))
    set_variants(fleet, client)
    assert "choose one: server, dev" in str(refused(client, BULK, **named(1)))
    assert refused(client, BULK, **named(1, templatevariant="edge")).status == 431
    assert refused(client, BULK, **named(1, templatevariant="-x", forcetemplatevariant=True)).status == 431
    assert refused(client, BULK, **named(1, **detail("templatevariant", "edge"))).status == 431
    client.call(BULK, **named(1, templatevariant="dev"))
    client.call(BULK, **named(1, templatevariant="edge", forcetemplatevariant=True))
    fleet.run(drivers=OneDriver(listening))
    assert sorted(str(guest.template_variant) for guest in listening.started) == ["dev", "edge"]


def test_domain_admins_give_offerings_no_parameters(fleet: Fleet, client: ApiClient) -> None:
    """Their offerings reach no bridge and no volume group that their deploy calls do not reach."""
    admin = ApiClient(client.url, *CUSTOMERS_ADMIN)
    text = {"name": "Theirs", "displaytext": "Theirs", "domainid": fleet.zone.id_of("domains", "customers")}
    compute = {**text, "cpunumber": 1, "cpuspeed": 500, "memory": 512}
    bridge = detail("nic.link", "management", "serviceofferingdetails")
    for command, given, theirs, parameter in (
        ("createServiceOffering", compute, bridge, "serviceofferingdetails[0].nic.link"),
        ("createDiskOffering", {**text, "disksize": 1}, detail("disk.vg", "system"), "details[0].disk.vg"),
    ):
        failure = refused(admin, command, **given, **theirs)
        assert (failure.status, f"Only root admins may give {parameter}" in str(failure)) == (531, True)
        admin.call(command, **given)


def test_only_a_vm_itself_says_its_firmware_and_variant(
    fleet: Fleet, client: ApiClient, listening: Listening
) -> None:
    """Offerings with such details are refused; those of earlier releases, and any text in VMs, end no job."""
    size = {"name": "Odd", "displaytext": "Odd", "cpunumber": 1, "cpuspeed": 500, "memory": 512}
    for name in ("UEFI", "templatevariant"):
        failure = refused(client, "createServiceOffering", **size, **detail(name, "x", "serviceofferingdetails"))
        assert (failure.status, f"serviceofferingdetails[0].{name}" in str(failure)) == (431, True)
    client.call(BULK, **fleet.zone.bulk_parameters(2))
    of_before = """'{"UEFI": "true", "templatevariant": "x"}'"""
    fleet.zone.change(f"UPDATE service_offerings SET details = {of_before} WHERE name = 'Small'")
    free_text = """'{"UEFI": "anything"}'"""
    one = fleet.vms()[0]
    fleet.zone.change(f"UPDATE virtual_machines SET details = {free_text} WHERE id = :id", id=one.id)
    fleet.run(drivers=OneDriver(listening))
    assert [(guest.uefi, guest.template_variant) for guest in listening.started] == [(None, None)] * 2
    client.call("destroyVirtualMachine", id=str(one.uuid), expunge=True)
    fleet.run(drivers=OneDriver(listening))
    assert {vm.uuid: vm.state for vm in fleet.vms()}[one.uuid] == "Expunging"
    assert one.uuid not in fleet.guests()
