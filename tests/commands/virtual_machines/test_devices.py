"""Volumes and nics of running VMs: a job that succeeded means that the guest has the device, or has it no more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bulkdeploy.domain.errors import OutcomeUnknown
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.device_changes import PLUG_COMMIT, UNPLUG_COMMIT
from bulkdeploy.services.auditing.audit import audit
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.hypervisors.blocking_drivers import GatedDevices, UnheardDevices
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import OPTIONS, Fleet, OneDriver

PLACES = [
    f"{point}.{when}"
    for point in (PLUG_COMMIT, Failpoint.DRIVER_DEVICES, UNPLUG_COMMIT)
    for when in ("before", "after")
]


@dataclass
class Owned:
    """A fleet with two running VMs of account acme; the first one's devices are changed."""

    fleet: Fleet
    client: ApiClient
    patience_s: float = OPTIONS.driver_timeout_s
    """How long the runner waits for a hypervisor: less where a test lets one be silent."""

    @property
    def vm(self) -> str:
        """The first VM."""
        return str(self.fleet.vms()[0].uuid)

    def call(self, command: str, **parameters: object) -> str:
        """Make a call that a job does; the job."""
        return str(self.client.call(command, **parameters)["jobid"])

    def poll(self, job: str) -> dict[str, Any]:
        """A job as its caller sees it."""
        return self.client.call("queryAsyncJobResult", jobid=job)

    def done(self, command: str, drivers: Any = None, **parameters: object) -> dict[str, Any]:
        """Call, run the job, and what it polls then."""
        job = self.call(command, **parameters)
        self.run(drivers)
        return self.poll(job)

    def again(self) -> None:
        """Run what waits."""
        self.fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
        self.run()

    def run(self, drivers: Any = None) -> None:
        """Run all jobs as far as they go now."""
        options = replace(OPTIONS, driver_timeout_s=self.patience_s)
        self.fleet.run(drivers=None if drivers is None else OneDriver(drivers), options=options)

    def volume(self, name: str = "data") -> str:
        """A volume that no VM has, and that is nowhere."""
        zone = self.fleet.zone
        where = {"zoneid": zone.id_of("zones", "small"), "diskofferingid": zone.id_of("disk_offerings", "20 GiB")}
        return str(self.client.call("createVolume", name=name, **where)["id"])

    def network(self) -> str:
        """A network of one address beside the gateway's."""
        zone = self.fleet.zone
        offering = "DefaultIsolatedNetworkOfferingWithSourceNatService"
        made = self.client.call(
            "createNetwork",
            name="second",
            zoneid=zone.id_of("zones", "small"),
            networkofferingid=zone.id_of("network_offerings", offering),
            gateway="10.77.0.1",
            netmask="255.255.255.252",
        )
        return str(made["network"]["id"])

    def row(self, volume: str) -> dict[str, Any]:
        """The volume as its owner sees it."""
        (row,) = self.client.call("listVolumes", id=volume)["volume"]
        return dict(row)

    def nics(self) -> list[str]:
        """The VM's nics by its rows."""
        return [nic["id"] for nic in self.client.call("listNics", virtualmachineid=self.vm)["nic"]]

    def guest(self) -> tuple[set[str], set[str]]:
        """Volumes and nics of the VM's guest."""
        guest = self.fleet.guests()[self.fleet.vms()[0].uuid]
        return {str(uuid) for uuid in guest.volume_uuids}, {str(uuid) for uuid in guest.nic_uuids}

    def assert_as_first(self) -> None:
        """The VM and its guest have a root disk and a nic; no other volume is on a pool or claims room."""
        volumes, nics = self.guest()
        assert (len(volumes), nics) == (1, set(self.nics()))
        assert len(nics) == 1
        assert len(self.fleet.volumes()) == self.fleet.zone.scalar("SELECT count(*) FROM storage_claims") == 2
        self.fleet.assert_intact()


@pytest.fixture
def owned(api_url: str, fleet: Fleet) -> Iterator[Owned]:
    """See Owned; what a test armed is disarmed."""
    fleet.deploy(2, account="acme", domain_id=fleet.id_of("domains", "acme"))
    fleet.run()
    yield Owned(fleet, ApiClient(api_url, *ACME))
    failpoints.arm(None)


def test_a_running_guest_gets_a_volume_and_loses_it(owned: Owned) -> None:
    """The job's result is the volume, Ready; it is made on a pool that the host reaches, and stays there."""
    volume = owned.volume()
    job = owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)
    shown = job["jobresult"]["volume"]
    assert (job["jobstatus"], job["cmd"].rpartition(".")[2]) == (1, "AttachVolumeCmd")
    assert (shown["id"], shown["virtualmachineid"], shown["deviceid"], shown["state"]) == (
        volume,
        owned.vm,
        1,
        "Ready",
    )
    assert volume in owned.guest()[0]
    assert shown == owned.row(volume)
    events = owned.client.call("listEvents", resourceid=volume)["event"]
    assert {(event["type"], event["state"]) for event in events if event["type"] == "VOLUME.ATTACH"} == {
        ("VOLUME.ATTACH", state) for state in ("Scheduled", "Started", "Completed")
    }
    owned.fleet.assert_intact()
    job = owned.done("detachVolume", virtualmachineid=owned.vm, deviceid=1)
    shown = job["jobresult"]["volume"]
    assert (shown["id"], shown["state"], "virtualmachineid" in shown) == (volume, "Ready", False)
    assert volume not in owned.guest()[0]
    assert volume in map(str, owned.fleet.volumes())
    owned.fleet.assert_intact()


def test_a_running_guest_gets_a_nic_and_loses_it(owned: Owned) -> None:
    """The job's result is the VM; the address is in use while the guest has it, and free afterwards."""
    network = owned.network()
    for _ in range(2):
        job = owned.done("addNicToVirtualMachine", virtualmachineid=owned.vm, networkid=network)
        first, second = job["jobresult"]["virtualmachine"]["nic"]
        assert second["ipaddress"] == "10.77.0.2"
        assert owned.guest()[1] == {first["id"], second["id"]} == set(owned.nics())
        owned.fleet.assert_intact()
        job = owned.done("removeNicFromVirtualMachine", virtualmachineid=owned.vm, nicid=second["id"])
        assert [nic["id"] for nic in job["jobresult"]["virtualmachine"]["nic"]] == [first["id"]]
        owned.assert_as_first()


def test_a_device_in_transition_cannot_be_taken_by_others(owned: Owned) -> None:
    """While the hypervisor works a volume is Attaching and nobody's to take, or it is still attached."""
    volume, other = owned.volume(), str(owned.fleet.vms()[1].uuid)
    calls: list[tuple[str, dict[str, object], str]] = [
        ("attachVolume", {"virtualmachineid": owned.vm}, "Attaching"),
        ("detachVolume", {}, "Ready"),
    ]
    for command, parameters, state in calls:
        job = owned.call(command, id=volume, **parameters)
        gated = GatedDevices(owned.fleet.driver)
        with owned.fleet.runner(drivers=OneDriver(gated)) as runner:
            runner.accept(owned.fleet.jobs()[-1].id)
            assert gated.entered.wait(PATIENCE_S)
            seen = owned.row(volume)
            assert (seen["state"], seen["virtualmachineid"], owned.poll(job)["jobstatus"]) == (state, owned.vm, 0)
            assert refused(owned.client, "attachVolume", id=volume, virtualmachineid=other).status == 431
            assert refused(owned.client, "deleteVolume", id=volume).status == 431
            owned.fleet.assert_intact()
            gated.gate.set()
        assert owned.poll(job)["jobstatus"] == 1
    assert owned.done("attachVolume", id=volume, virtualmachineid=other)["jobstatus"] == 1
    owned.fleet.assert_intact()


JobRequest = tuple[str, dict[str, object]]
"""A command and its parameters."""


@pytest.fixture
def give(request: pytest.FixtureRequest, owned: Owned) -> JobRequest:
    """The call that gives the VM a device."""
    if request.param == "volume":
        return "attachVolume", {"id": owned.volume(), "virtualmachineid": owned.vm}
    return "addNicToVirtualMachine", {"networkid": owned.network(), "virtualmachineid": owned.vm}


def take(owned: Owned, give: JobRequest) -> JobRequest:
    """The call that takes what was given."""
    if give[0] == "attachVolume":
        return "detachVolume", {"id": give[1]["id"]}
    return "removeNicFromVirtualMachine", {"virtualmachineid": owned.vm, "nicid": owned.nics()[1]}


@pytest.mark.parametrize(
    ("give", "kind"), [("volume", FaultKind.PERMANENT), ("nic", FaultKind.TRANSIENT)], indirect=["give"]
)
def test_what_fails_is_as_before(owned: Owned, give: JobRequest, kind: FaultKind) -> None:
    """Where the hypervisor fails nothing of the device is left, or all of it is still there; later it works."""
    owned.fleet.fault(Step.DEVICES, kind, remaining=1)
    job = owned.done(give[0], **give[1])
    assert (job["jobstatus"], job["jobresult"]["errorcode"]) == (2, 534)
    assert "devices failed on host" in job["jobresult"]["errortext"]
    owned.assert_as_first()
    assert owned.done(give[0], **give[1])["jobstatus"] == 1
    owned.fleet.assert_intact()
    command, parameters = take(owned, give)
    before = owned.guest()
    owned.fleet.fault(Step.DEVICES, kind, remaining=1)
    assert owned.done(command, **parameters)["jobstatus"] == 2
    assert owned.guest() == before
    owned.fleet.assert_intact()
    assert owned.done(command, **parameters)["jobstatus"] == 1
    owned.fleet.assert_intact()


@pytest.mark.parametrize(("give", "unheard"), [("volume", 2), ("nic", 1)], indirect=["give"])
def test_a_change_without_an_answer_is_undone(owned: Owned, give: JobRequest, unheard: int) -> None:
    """The guest got it and no answer came: it is taken away again, at once or when the hypervisor answers."""
    for has_it in (False, True):
        if has_it:
            assert owned.done(give[0], **give[1])["jobstatus"] == 1
        command, parameters = take(owned, give) if has_it else give
        before = owned.guest()
        job = owned.done(command, UnheardDevices(owned.fleet.driver, unheard), **parameters)
        assert job["jobstatus"] == (2 if unheard == 1 else 0)
        owned.fleet.assert_intact()
        owned.again()
        assert owned.poll(job["jobid"])["jobstatus"] == 2
        assert owned.guest() == before
        if not has_it:
            owned.assert_as_first()
    owned.fleet.assert_intact()


def interrupt_at(place: str) -> None:
    """Let whoever passes there next go no further, as if the database were gone."""

    def fault(passed: str) -> None:
        if passed == place:
            failpoints.arm(None)
            raise OutcomeUnknown(place)

    failpoints.arm(fault)


@pytest.mark.long
@pytest.mark.parametrize(("give", "fails"), [("volume", False), ("volume", True), ("nic", True)], indirect=["give"])
def test_an_interrupted_job_is_finished_or_undone(owned: Owned, give: JobRequest, fails: bool) -> None:
    """Wherever a worker stops, before and after every commit and driver call, the next one leaves no halves."""
    for place in PLACES:
        for taken in (False, True):
            command, parameters = take(owned, give) if taken else give
            before = owned.guest()
            if fails:
                owned.fleet.fault(Step.DEVICES, remaining=1)
            interrupt_at(place)
            job = owned.done(command, **parameters)
            owned.again()
            job = owned.poll(job["jobid"])
            owned.fleet.assert_intact()
            owned.fleet.clear_faults()
            failpoints.arm(None)
            assert job["jobstatus"] != 0, place
            assert (owned.guest() == before) == (job["jobstatus"] == 2), place
            if job["jobstatus"] == 2:
                assert owned.done(command, **parameters)["jobstatus"] == 1
    owned.fleet.assert_intact()


def test_what_cannot_be_done_is_refused_at_once(owned: Owned) -> None:
    """What the job would find, such as a device number in use or a full network or pool; no job is made."""
    volume, network = owned.volume(), owned.network()
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm, deviceid=3)["jobstatus"] == 1
    assert owned.done("addNicToVirtualMachine", networkid=network, virtualmachineid=owned.vm)["jobstatus"] == 1
    first, second = owned.client.call("listNics", virtualmachineid=owned.vm)["nic"]
    other, free = str(owned.fleet.vms()[1].uuid), owned.volume("free")
    jobs = len(owned.fleet.jobs())
    cases: list[tuple[str, dict[str, object], int, str]] = [
        ("attachVolume", {"id": free, "virtualmachineid": owned.vm, "deviceid": 3}, 431, "deviceid"),
        ("attachVolume", {"id": volume, "virtualmachineid": other}, 431, "not attached to a VM"),
        (
            "addNicToVirtualMachine",
            {"networkid": first["networkid"], "virtualmachineid": owned.vm},
            431,
            "networkid",
        ),
        ("addNicToVirtualMachine", {"networkid": network, "virtualmachineid": other}, 533, ""),
        ("removeNicFromVirtualMachine", {"nicid": first["id"], "virtualmachineid": owned.vm}, 431, "default nic"),
        ("removeNicFromVirtualMachine", {"nicid": second["id"], "virtualmachineid": other}, 431, "no such nic"),
    ]
    for command, parameters, status, text in cases:
        failure = refused(owned.client, command, **parameters)
        assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    owned.fleet.zone.change("UPDATE storage_pools SET capacity_bytes = allocated_bytes")
    assert refused(owned.client, "attachVolume", id=free, virtualmachineid=owned.vm).status == 534
    assert len(owned.fleet.jobs()) == jobs
    owned.fleet.zone.change("UPDATE storage_pools SET capacity_bytes = capacity_bytes * 1000")
    owned.fleet.assert_intact()


def test_jobs_of_a_vm_find_what_those_before_them_left(owned: Owned) -> None:
    """Two volumes and a stop asked for at once: one is attached, the other waits for the start, which brings it."""
    first, second = owned.volume("first"), owned.volume("second")
    jobs = [
        owned.call("attachVolume", id=first, virtualmachineid=owned.vm),
        owned.call("stopVirtualMachine", id=owned.vm),
        owned.call("attachVolume", id=second, virtualmachineid=owned.vm),
    ]
    for _ in jobs:
        owned.again()
    assert [owned.poll(job)["jobstatus"] for job in jobs] == [1, 1, 1]
    assert [owned.row(volume)["state"] for volume in (first, second)] == ["Ready", "Allocated"]
    assert owned.done("startVirtualMachine", id=owned.vm)["jobstatus"] == 1
    assert {first, second} <= owned.guest()[0]
    assert {owned.row(volume)["state"] for volume in (first, second)} == {"Ready"}
    owned.fleet.assert_intact()


def test_what_is_given_up_stays_the_vms(owned: Owned) -> None:
    """A volume under which each worker ended is nobody else's, and the audit names it; detaching heals."""
    volume = owned.volume()
    interrupt_at(f"{Failpoint.DRIVER_DEVICES}.after")
    job = owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)
    owned.fleet.zone.change(
        "UPDATE async_jobs SET phase = 'running', lost_leases = 6, lease_until = now() - interval '1 s'"
        " WHERE status = 0"
    )
    owned.again()
    assert owned.poll(job["jobid"])["jobstatus"] == 2
    row = owned.row(volume)
    assert (row["state"], row["virtualmachineid"]) == ("Attaching", owned.vm)
    found = {finding.name: finding.breaches for finding in audit(owned.fleet.engine, [owned.fleet.driver])}
    assert "is Attaching" in found["running_vms_have_their_volumes"][0]
    assert owned.done("detachVolume", id=volume)["jobstatus"] == 1
    assert (owned.row(volume)["state"], volume in owned.guest()[0]) == ("Ready", False)
    owned.fleet.assert_intact()


def test_a_job_for_a_guest_that_is_gone_fails_at_once(owned: Owned) -> None:
    """Neither the change nor its opposite can be made: the job fails at once; a stop and a start heal the VM."""
    volume = owned.volume()
    owned.fleet.control.execute("DELETE FROM simulator.guests WHERE uuid = %s", [owned.vm])
    job = owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)
    assert (job["jobstatus"], "does not run" in job["jobresult"]["errortext"]) == (2, True)
    assert owned.row(volume)["state"] == "Attaching"
    assert owned.done("stopVirtualMachine", id=owned.vm)["jobstatus"] == 1
    assert owned.done("startVirtualMachine", id=owned.vm)["jobstatus"] == 1
    assert (owned.row(volume)["state"], volume in owned.guest()[0]) == ("Ready", True)
    owned.fleet.assert_intact()
