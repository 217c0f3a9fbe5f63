"""Rebooting, recovering, expunging and changing VMs as clients call them."""

import base64
import re
from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.store.virtual_machines.dynamic_scaling import SETTING
from bulkdeploy.store.virtual_machines.guests import read_guests
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.zones.fleet import Fleet, OneDriver

HELLO = base64.b64encode(b"#cloud-config").decode()


@pytest.fixture
def acme(api_url: str, fleet: Fleet) -> ApiClient:
    """A plain user's client."""
    del fleet
    return ApiClient(api_url, *ACME)


@pytest.fixture
def owned(fleet: Fleet) -> Fleet:
    """A fleet with one running VM of account acme, in a zone that lets running VMs be scaled."""
    fleet.set_value(SETTING, "true")
    fleet.deploy(1, account="acme", domain_id=fleet.id_of("domains", "acme"), user_data=HELLO)
    fleet.run()
    return fleet


@pytest.fixture
def stopped(owned: Fleet, acme: ApiClient) -> Fleet:
    """The same, stopped."""
    _done(owned, acme, "stopVirtualMachine")
    return owned


def _vm(fleet: Fleet) -> str:
    return str(fleet.vms()[0].uuid)


def _done(fleet: Fleet, client: ApiClient, command: str, **parameters: object) -> dict[str, Any]:
    """Call, run the job, and what it polls then."""
    job_id = client.call(command, id=_vm(fleet), **parameters)["jobid"]
    fleet.run()
    return client.call("queryAsyncJobResult", jobid=job_id)


def _count(fleet: Fleet, resource: int) -> int:
    sql = (
        "SELECT amount FROM resource_counts WHERE owner_kind = 'account' AND resource_type = :kind"
        " AND owner_id = (SELECT id FROM accounts WHERE name = 'acme')"
    )
    return int(fleet.zone.scalar(sql, kind=resource))


def _limit(fleet: Fleet, resource: int, most: int) -> None:
    fleet.zone.change(
        "UPDATE resource_limits SET max = :most WHERE owner_kind = 'account' AND resource_type = :kind"
        " AND owner_id = (SELECT id FROM accounts WHERE name = 'acme')",
        most=most,
        kind=resource,
    )


def test_a_reboot_starts_it_where_it_was(owned: Fleet, acme: ApiClient) -> None:
    """The guest goes down and comes up on its host, with its claim."""
    host = owned.vms()[0].host_id
    job = _done(owned, acme, "rebootVirtualMachine")
    assert (job["jobstatus"], job["jobresult"]["virtualmachine"]["state"]) == (1, "Running")
    assert owned.vms()[0].host_id == host
    assert refused(acme, "rebootVirtualMachine", id=_vm(owned), bootintosetup=True).status == 431
    owned.assert_intact()


@pytest.mark.parametrize(
    ("step", "remaining", "status", "state"),
    [(Step.STOP, 1, 2, "Running"), (Step.BOOT, 1, 1, "Running"), (Step.BOOT, None, 2, "Stopped")],
)
def test_a_reboot_that_fails(
    owned: Fleet, acme: ApiClient, step: Step, remaining: int | None, status: int, state: str
) -> None:
    """Not stopped: it runs on. Not started: elsewhere, or it is Stopped without a host."""
    owned.fault(step, FaultKind.PERMANENT, remaining=remaining)
    job = _done(owned, acme, "rebootVirtualMachine")
    assert (job["jobstatus"], owned.vms()[0].state) == (status, state)
    owned.assert_intact()


def test_a_destroyed_vm_is_recovered_and_counts_again(owned: Fleet, acme: ApiClient, client: ApiClient) -> None:
    """Recovering makes it Stopped, within the limits; users only where they are let."""
    _done(owned, acme, "destroyVirtualMachine")
    assert _count(owned, 0) == 0
    assert refused(acme, "recoverVirtualMachine", id=_vm(owned)).status == 531
    _limit(owned, 0, 0)
    assert refused(client, "recoverVirtualMachine", id=_vm(owned)).status == 535
    assert owned.vms()[0].state == "Destroyed"
    _limit(owned, 0, 10)
    answer = client.call("recoverVirtualMachine", id=_vm(owned))
    assert answer["virtualmachine"]["state"] == "Stopped"
    assert (_count(owned, 0), _count(owned, 8)) == (1, 1)
    failure = refused(client, "recoverVirtualMachine", id=_vm(owned))
    assert (failure.status, "Stopped" in failure.errortext) == (431, True)
    assert _done(owned, acme, "startVirtualMachine")["jobstatus"] == 1
    owned.assert_intact()


def test_a_destroyed_vm_is_expunged(owned: Fleet, acme: ApiClient, client: ApiClient) -> None:
    """Only what was destroyed goes, by whom is let; the job's result is success and nothing is left."""
    assert refused(client, "expungeVirtualMachine", id=_vm(owned)).status == 431
    _done(owned, acme, "destroyVirtualMachine")
    assert refused(acme, "expungeVirtualMachine", id=_vm(owned)).status == 531
    job = _done(owned, client, "expungeVirtualMachine")
    assert (job["jobstatus"], job["jobresult"]) == (1, {"success": True})
    owned.assert_nothing_held()


def test_what_was_recovered_is_not_expunged(owned: Fleet, client: ApiClient) -> None:
    """An expunge that finds its VM recovered fails and leaves it alone."""
    _done(owned, client, "destroyVirtualMachine")
    job_id = client.call("expungeVirtualMachine", id=_vm(owned))["jobid"]
    owned.zone.change("UPDATE virtual_machines SET state = 'Stopped'")
    owned.run()
    assert client.call("queryAsyncJobResult", jobid=job_id)["jobstatus"] == 2
    assert (owned.vms()[0].state, len(owned.volumes())) == ("Stopped", 1)


def test_every_parameter_of_an_update_is_seen(stopped: Fleet, acme: ApiClient) -> None:
    """Names, flags, details, group, user data and security groups are what they were set to."""
    other = base64.b64encode(b"other").decode()
    stopped.zone.change("UPDATE network_offerings SET services = services || '[\"SecurityGroup\"]'")
    vm = acme.call(
        "updateVirtualMachine",
        id=_vm(stopped),
        name="renamed",
        displayname="A new name",
        group="friends",
        haenable=True,
        isdynamicallyscalable=False,
        deleteprotection=True,
        userdata=other,
        securitygroupnames="web",
        **{"details[0].keyboard": "de"},
    )["virtualmachine"]
    assert (vm["name"], vm["displayname"], vm["group"]) == ("renamed", "A new name", "friends")
    assert (vm["haenable"], vm["isdynamicallyscalable"], vm["deleteprotection"]) == (True, False, True)
    assert vm["details"] == {"keyboard": "de"}
    assert {group["name"] for group in vm["securitygroup"]} == {"web"}
    assert acme.call("getVirtualMachineUserData", virtualmachineid=_vm(stopped)) == {
        "virtualmachineuserdata": {"virtualmachineid": _vm(stopped), "userdata": other}
    }
    broken = f"{other[:4]}\r\n {other[4:]}\n"
    acme.call("updateVirtualMachine", id=_vm(stopped), userdata=broken)
    shown = acme.call("getVirtualMachineUserData", virtualmachineid=_vm(stopped))["virtualmachineuserdata"]
    assert shown["userdata"] == other
    acme.call("updateVirtualMachine", id=_vm(stopped), userdata="")
    shown = acme.call("getVirtualMachineUserData", virtualmachineid=_vm(stopped))["virtualmachineuserdata"]
    assert "userdata" not in shown
    assert acme.call("listVirtualMachines", haenable=True)["count"] == 1
    cleaned = acme.call("updateVirtualMachine", id=_vm(stopped), cleanupdetails=True)["virtualmachine"]
    assert cleaned["details"] == {}
    assert refused(acme, "destroyVirtualMachine", id=_vm(stopped)).status == 431
    stopped.assert_intact()


@pytest.mark.parametrize(
    "parameters",
    [
        {"name": "-bad-"},
        {"userdata": "%%%"},
        {"details[0].memory": "99"},
        {"details[0].a": "b", "cleanupdetails": True},
        {"extraconfig": "x"},
        {"ostypeid": "00000000-0000-4000-8000-000000000000"},
        {"securitygroupnames": "nobody"},
    ],
)
def test_a_refused_update_changes_nothing(stopped: Fleet, acme: ApiClient, parameters: dict[str, object]) -> None:
    """One bad parameter is 431 by its name, and what was good beside it is not written."""
    before = stopped.vms()[0]
    failure = refused(acme, "updateVirtualMachine", id=_vm(stopped), displayname="changed", **parameters)
    assert failure.status == 431
    assert next(iter(parameters)).partition("[")[0] in failure.errortext
    assert stopped.vms()[0] == before


def test_another_offering_changes_sizes_and_counts(stopped: Fleet, acme: ApiClient) -> None:
    """A stopped VM gets the sizes of the offering, within the limits, and starts with them."""
    custom = stopped.zone.id_of("service_offerings", "Custom")
    sizes = {"details[0].cpuNumber": 4, "details[0].memory": 1024}
    _limit(stopped, 8, 3)
    failure = refused(acme, "changeServiceForVirtualMachine", id=_vm(stopped), serviceofferingid=custom, **sizes)
    assert (failure.status, _count(stopped, 8)) == (535, 1)
    _limit(stopped, 8, 100)
    answer = acme.call("changeServiceForVirtualMachine", id=_vm(stopped), serviceofferingid=custom, **sizes)
    vm = answer["virtualmachine"]
    assert (vm["cpunumber"], vm["memory"], vm["serviceofferingid"]) == (4, 1024, custom)
    assert (_count(stopped, 8), _count(stopped, 9)) == (4, 1024)
    assert _done(stopped, acme, "startVirtualMachine")["jobstatus"] == 1
    (guest,) = stopped.guests().values()
    assert (guest.cpu_number, guest.memory_mib) == (4, 1024)
    stopped.assert_intact()
    small = stopped.zone.id_of("service_offerings", "Small")
    failure = refused(acme, "changeServiceForVirtualMachine", id=_vm(stopped), serviceofferingid=small)
    assert (failure.status, "Stopped" in failure.errortext) == (431, True)
    _done(stopped, acme, "stopVirtualMachine")
    acme.call("changeServiceForVirtualMachine", id=_vm(stopped), serviceofferingid=small)
    assert (_count(stopped, 8), _count(stopped, 9)) == (1, 512)
    stopped.assert_intact()


LARGER = {"details[0].cpuNumber": 4, "details[0].memory": 1024}


def _scale(fleet: Fleet, client: ApiClient, **more: object) -> dict[str, Any]:
    custom = fleet.zone.id_of("service_offerings", "Custom")
    return _done(fleet, client, "scaleVirtualMachine", serviceofferingid=custom, **{**LARGER, **more})


def test_a_running_vm_grows_where_it_is(owned: Fleet, acme: ApiClient) -> None:
    """Guest, row, claim and counts have the new sizes; asked twice it is the same; it does not shrink."""
    host = owned.vms()[0].host_id
    for _ in range(2):
        job = _scale(owned, acme)
        assert (job["jobstatus"], job["jobresult"]["virtualmachine"]["cpunumber"]) == (1, 4)
    (guest,) = owned.guests().values()
    vm = owned.vms()[0]
    assert (guest.cpu_number, guest.memory_mib) == (vm.cpu_number, vm.memory_mib) == (4, 1024)
    assert (vm.host_id, vm.state, _count(owned, 8)) == (host, "Running", 4)
    small = owned.zone.id_of("service_offerings", "Small")
    failure = refused(acme, "scaleVirtualMachine", id=_vm(owned), serviceofferingid=small)
    assert (failure.status, "scaled up" in failure.errortext) == (431, True)
    owned.assert_intact()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE hosts SET cpu_cores = 3", "cpu_cores"),
        ("UPDATE hosts SET cpu_mhz = 499", "cpu_speed"),
        ("UPDATE service_offerings SET host_tags = '{gpu}' WHERE name = 'Custom'", "host_tags"),
        ("UPDATE host_capacity SET cpu_mhz_limit = cpu_mhz_used + 1", "cpu"),
        ("UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 511", "memory"),
    ],
)
def test_a_vm_grows_only_to_what_could_be_deployed_there(
    owned: Fleet, acme: ApiClient, change: str, reason: str
) -> None:
    """Cores, speed, tags and room of its host bound it as they bind a new VM, and the job says which did."""
    owned.zone.change(change)
    job = _scale(owned, acme)
    assert (job["jobstatus"], job["jobresult"]["errorcode"]) == (2, 533)
    assert f"cannot run it in this size; {reason}: " in job["jobresult"]["errortext"]
    assert (owned.vms()[0].cpu_number, _count(owned, 8)) == (1, 1)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE hosts SET resource_state = 'Disabled'",
        "UPDATE clusters SET allocation_state = 'Disabled'",
        (
            "INSERT INTO configuration_values VALUES"
            " ('Global', 0, 'cluster.cpu.allocated.capacity.disablethreshold', '0')"
        ),
        "UPDATE host_capacity SET vms_limit = 0",
    ],
)
def test_what_keeps_new_vms_out_keeps_none_from_growing(owned: Fleet, acme: ApiClient, change: str) -> None:
    """States, thresholds and guest limits say where VMs begin, not how large those are that run there."""
    owned.zone.change(change)
    assert _scale(owned, acme)["jobstatus"] == 1
    assert owned.vms()[0].cpu_number == 4


@pytest.mark.parametrize("why", ["no room", "limit", "hypervisor"])
def test_a_vm_that_cannot_grow_is_as_before(owned: Fleet, acme: ApiClient, why: str) -> None:
    """Its host is full, a limit is in the way, or the hypervisor fails: nothing of it is left."""
    if why == "no room":
        owned.zone.change("UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 1")
    elif why == "limit":
        _limit(owned, 8, 3)
    else:
        owned.fault(Step.SCALE, remaining=1)
    before = owned.vms()[0]
    job = _scale(owned, acme)
    assert (job["jobstatus"], job["jobresult"]["errorcode"]) == (
        2,
        {"no room": 533, "limit": 535, "hypervisor": 534}[why],
    )
    after = owned.vms()[0]
    assert (after.cpu_number, after.memory_mib, after.service_offering_id, after.state) == (
        before.cpu_number,
        before.memory_mib,
        before.service_offering_id,
        "Running",
    )
    assert _count(owned, 8) == 1
    owned.assert_intact()


def test_growth_of_unknown_end_waits(owned: Fleet, acme: ApiClient) -> None:
    """While neither growing nor going back is answered, all of it stays claimed; then it goes back."""
    owned.fault(Step.SCALE)
    owned.fault(Step.ANY)
    assert _scale(owned, acme)["jobstatus"] == 0
    assert (owned.vms()[0].cpu_number, _count(owned, 8)) == (4, 4)
    owned.clear_faults()
    owned.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    owned.run()
    assert (owned.jobs()[-1].status, owned.vms()[0].cpu_number, _count(owned, 8)) == (2, 1, 1)
    owned.assert_intact()


def test_a_guest_that_is_gone_keeps_no_growth_waiting(owned: Fleet, acme: ApiClient) -> None:
    """It can neither grow nor go back: the job ends with all as before, and the VM can be stopped and started."""
    before = owned.vms()[0]
    owned.control.execute("DELETE FROM simulator.guests WHERE uuid = %s", [_vm(owned)])
    job = _scale(owned, acme)
    assert (job["jobstatus"], "does not run" in job["jobresult"]["errortext"]) == (2, True)
    assert (owned.vms()[0], _count(owned, 8)) == (before, 1)
    assert _done(owned, acme, "stopVirtualMachine")["jobstatus"] == 1
    assert _done(owned, acme, "startVirtualMachine")["jobstatus"] == 1
    owned.assert_intact()


def _grow_in_part(fleet: Fleet) -> None:
    """Let the guest have more memory than its row says, as after a scale that failed half-way."""
    fleet.control.execute(
        "SELECT simulator_code.change_sizes(g, g.cpu_number, g.cpu_mhz, 1024) FROM simulator.guests g"
    )


@pytest.mark.parametrize("moves", [False, True])
def test_a_guest_that_grew_in_part_and_does_not_shrink_grows(owned: Fleet, acme: ApiClient, moves: bool) -> None:
    """Its hypervisor refuses the old sizes for good, and the new ones once: it has these, where they have room."""
    before = owned.vms()[0]
    if moves:
        owned.zone.change(FULL)
    _grow_in_part(owned)
    owned.fault(Step.SCALE, FaultKind.PERMANENT, remaining=2)
    assert _scale(owned, acme, automigrate=moves)["jobstatus"] == 1
    after = owned.vms()[0]
    (guest,) = owned.guests().values()
    assert (guest.cpu_number, guest.memory_mib) == (after.cpu_number, after.memory_mib) == (4, 1024)
    assert (after.host_id != before.host_id, after.state, _count(owned, 8)) == (moves, "Running", 4)
    owned.assert_intact()


@pytest.mark.parametrize("moves", [False, True])
def test_a_guest_that_neither_grows_nor_shrinks_ends_its_job(owned: Fleet, acme: ApiClient, moves: bool) -> None:
    """The VM keeps the room of its larger sizes, and has these, as the error says, once stopped and started."""
    before = owned.vms()[0]
    if moves:
        owned.zone.change(FULL)
    _grow_in_part(owned)
    owned.fault(Step.SCALE, FaultKind.PERMANENT)
    job = _scale(owned, acme, automigrate=moves)
    assert (job["jobstatus"], "stop and start the VM" in job["jobresult"]["errortext"]) == (2, True)
    after = owned.vms()[0]
    assert (after.cpu_number, after.memory_mib, _count(owned, 8)) == (4, 1024, 4)
    assert (after.host_id != before.host_id, after.state) == (moves, "Running")
    owned.clear_faults()
    assert _done(owned, acme, "stopVirtualMachine")["jobstatus"] == 1
    assert _done(owned, acme, "startVirtualMachine")["jobstatus"] == 1
    (guest,) = owned.guests().values()
    assert (guest.cpu_number, guest.memory_mib) == (4, 1024)
    owned.assert_intact()


@pytest.mark.parametrize(
    ("setting", "most", "named"),
    [("max.guest.cpu.cores", 3, "cpuNumber"), ("max.guest.memory", 1023, "memory")],
)
def test_no_vm_becomes_larger_than_any_may_be(
    owned: Fleet, client: ApiClient, acme: ApiClient, setting: str, most: int, named: str
) -> None:
    """By a scale or by a deploy: refused before there is a job. What is larger by now stays as it is."""
    client.call("updateConfiguration", name=setting, value=most)
    custom = owned.zone.id_of("service_offerings", "Custom")
    calls: dict[str, dict[str, object]] = {
        "scaleVirtualMachine": {"id": _vm(owned)},
        "deployVirtualMachine": {
            "zoneid": owned.zone.id_of("zones", "small"),
            "templateid": owned.zone.id_of("templates", "Debian 12"),
        },
    }
    for command, call in calls.items():
        failure = refused(acme, command, **call, serviceofferingid=custom, **LARGER)
        assert (failure.status, f"details[0].{named}" in failure.errortext) == (431, True), failure.errortext
        assert f"at most {most} " in failure.errortext
    client.call("updateConfiguration", name="max.guest.cpu.speed", value=1)
    failure = refused(
        acme,
        "deployVirtualMachine",
        serviceofferingid=owned.zone.id_of("service_offerings", "Small"),
        **calls["deployVirtualMachine"],
    )
    assert "serviceofferingid" in failure.errortext
    assert _done(owned, acme, "rebootVirtualMachine")["jobstatus"] == 1


FULL = (
    "UPDATE host_capacity SET memory_mib_limit = memory_mib_used"
    " WHERE host_id = (SELECT host_id FROM virtual_machines)"
)
"""The VM's host has no room."""


def test_a_vm_whose_host_is_full_moves_and_grows(owned: Fleet, acme: ApiClient) -> None:
    """With ``automigrate``: live, to a host that takes the new size; where its own host does it stays there."""
    before = owned.vms()[0]
    owned.zone.change(FULL)
    job = _scale(owned, acme, automigrate=True)
    assert (job["jobstatus"], job["jobresult"]["virtualmachine"]["cpunumber"]) == (1, 4)
    moved = owned.vms()[0]
    (guest,) = owned.guests().values()
    assert (guest.cpu_number, guest.memory_mib) == (moved.cpu_number, moved.memory_mib) == (4, 1024)
    assert (moved.host_id != before.host_id, moved.last_host_id, moved.state) == (True, before.host_id, "Running")
    assert _count(owned, 8) == 4
    larger = {"details[0].cpuNumber": 5, "details[0].memory": 1024}
    assert _scale(owned, acme, automigrate=True, **larger)["jobstatus"] == 1
    assert owned.vms()[0].host_id == moved.host_id
    owned.assert_intact()


def test_a_vm_that_no_host_takes_larger_is_as_before(owned: Fleet, acme: ApiClient) -> None:
    """The job says why none does, and nothing is claimed, counted or changed."""
    before = owned.vms()[0]
    owned.zone.change("UPDATE host_capacity SET memory_mib_limit = memory_mib_used + 511")
    job = _scale(owned, acme, automigrate=True)
    assert (job["jobstatus"], job["jobresult"]["errorcode"]) == (2, 533)
    assert "neither its host nor another" in job["jobresult"]["errortext"]
    after = owned.vms()[0]
    assert (after.cpu_number, after.host_id, after.details) == (before.cpu_number, before.host_id, before.details)
    assert (after.state, _count(owned, 8)) == ("Running", 1)
    owned.assert_intact()


@pytest.mark.parametrize("step", [Step.MIGRATE, Step.SCALE])
def test_a_vm_that_moves_to_grow_and_does_not_is_where_it_was(owned: Fleet, acme: ApiClient, step: Step) -> None:
    """Until it is known where the guest is, VM and migration hold both hosts, each with its sizes."""
    before = owned.vms()[0]
    owned.zone.change(FULL)
    owned.fault(step)
    owned.fault(Step.ANY)
    assert _scale(owned, acme, automigrate=True)["jobstatus"] == 0
    held = owned.zone.rows("SELECT consumer_kind, host_id, memory_mib FROM host_claims ORDER BY consumer_kind")
    (vm, migration) = held
    assert (vm.memory_mib, migration.memory_mib, migration.host_id) == (1024, before.memory_mib, before.host_id)
    assert (vm.host_id != before.host_id, owned.vms()[0].state) == (True, "Migrating")
    owned.clear_faults()
    owned.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    owned.run()
    after = owned.vms()[0]
    assert (owned.jobs()[-1].status, after.host_id, after.cpu_number) == (2, before.host_id, before.cpu_number)
    assert (after.state, _count(owned, 8)) == ("Running", 1)
    owned.assert_intact()


@pytest.mark.parametrize("scope", ["Global", "Zone"])
def test_a_zone_may_forbid_that_running_vms_are_scaled(
    owned: Fleet, acme: ApiClient, client: ApiClient, scope: str
) -> None:
    """The setting of the zone goes before the global one; the guest is then started without room to grow."""

    def may_grow() -> tuple[bool, bool]:
        vm_id = owned.vms()[0].id
        with owned.engine.begin() as connection:
            guest = read_guests(connection, [vm_id])[vm_id].vm
        (shown,) = acme.call("listVirtualMachines")["virtualmachine"]
        return guest.is_dynamically_scalable, shown["isdynamicallyscalable"]

    assert may_grow() == (True, True)
    if scope == "Global":
        owned.set_value(SETTING, "false")
    else:
        zone = owned.zone.id_of("zones", "small")
        client.call("updateConfiguration", name=SETTING, value="false", zoneid=zone)
    custom = owned.zone.id_of("service_offerings", "Custom")
    failure = refused(acme, "scaleVirtualMachine", id=_vm(owned), serviceofferingid=custom, **LARGER)
    assert (failure.status, SETTING in failure.errortext, may_grow()) == (531, True, (False, False))


def test_a_stopped_vm_is_scaled_at_once(stopped: Fleet, acme: ApiClient) -> None:
    """Its job is done with the call; flags may forbid scaling while it runs."""
    vm = _scale(stopped, acme)["jobresult"]["virtualmachine"]
    assert (vm["id"], vm["cpunumber"], vm["memory"]) == (_vm(stopped), 4, 1024)
    assert (stopped.vms()[0].cpu_number, _count(stopped, 8)) == (4, 4)
    acme.call("updateVirtualMachine", id=_vm(stopped), isdynamicallyscalable=False)
    _done(stopped, acme, "startVirtualMachine")
    custom = stopped.zone.id_of("service_offerings", "Custom")
    failure = refused(acme, "scaleVirtualMachine", id=_vm(stopped), serviceofferingid=custom, **LARGER)
    assert (failure.status, "dynamically scalable" in failure.errortext) == (431, True)
    stopped.assert_intact()


def test_the_guest_os_type_of_one_vm(stopped: Fleet, acme: ApiClient) -> None:
    """It is the template's until another is given, and again once the VM is made anew from another template."""

    def os_type() -> str | None:
        (vm,) = acme.call("listVirtualMachines")["virtualmachine"]
        name: str | None = vm.get("osdisplayname")
        return name

    before = os_type()
    (windows, *_) = acme.call("listOsTypes", keyword="Windows 11")["ostype"]
    vm = acme.call("updateVirtualMachine", id=_vm(stopped), ostypeid=windows["id"])["virtualmachine"]
    assert (vm["ostypeid"], vm["guestosid"], os_type()) == (windows["id"], windows["id"], windows["description"])
    _restore(stopped, acme, templateid=stopped.zone.id_of("templates", "Any hypervisor"))
    assert (before, os_type()) == ("Debian GNU/Linux 12 (64-bit)", None)


def _restore(fleet: Fleet, client: ApiClient, **more: object) -> dict[str, Any]:
    job_id = client.call("restoreVirtualMachine", virtualmachineid=_vm(fleet), **more)["jobid"]
    fleet.run()
    return client.call("queryAsyncJobResult", jobid=job_id)


@pytest.mark.parametrize("runs", [True, False])
def test_a_restored_vm_has_a_new_disk(owned: Fleet, acme: ApiClient, runs: bool) -> None:
    """The old disk is removed and a new volume takes its place, made at once or at the next start; counts stay."""
    (old,) = owned.zone.rows("SELECT * FROM volumes WHERE removed IS NULL")
    if not runs:
        _done(owned, acme, "stopVirtualMachine")
    watched: list[object] = []
    driver = Watched(owned.driver, watched)
    job_id = acme.call("restoreVirtualMachine", virtualmachineid=_vm(owned))["jobid"]
    owned.run(drivers=OneDriver(driver))
    assert acme.call("queryAsyncJobResult", jobid=job_id)["jobstatus"] == 1
    (volume,) = owned.zone.rows("SELECT * FROM volumes WHERE removed IS NULL")
    assert watched == [[old.uuid]]
    assert (volume.uuid != old.uuid, volume.pool_id) == (True, old.pool_id)
    assert (owned.vms()[0].state, volume.state) == (("Running", "Ready") if runs else ("Stopped", "Allocated"))
    assert owned.volumes() == ({volume.uuid} if runs else set())
    owned.assert_intact()
    if not runs:
        assert _done(owned, acme, "startVirtualMachine")["jobstatus"] == 1
        assert owned.volumes() == {volume.uuid}
    owned.assert_intact()


def test_a_reboot_of_a_volatile_vm_gives_a_new_disk(owned: Fleet, acme: ApiClient) -> None:
    """A disk with snapshots is kept and the job fails; the VM then runs on."""
    owned.zone.change("UPDATE service_offerings SET is_volatile = true")
    (old,) = owned.zone.rows("SELECT * FROM volumes WHERE removed IS NULL")
    snapshot = acme.call("createVMSnapshot", virtualmachineid=_vm(owned))["id"]
    owned.run()
    job = _done(owned, acme, "rebootVirtualMachine")
    assert (job["jobstatus"], "snapshots" in job["jobresult"]["errortext"]) == (2, True)
    assert (owned.vms()[0].state, owned.volumes()) == ("Running", {old.uuid})
    acme.call("deleteVMSnapshot", vmsnapshotid=snapshot)
    owned.run()
    job = _done(owned, acme, "rebootVirtualMachine")
    assert (job["jobstatus"], job["cmd"].rpartition(".")[2]) == (1, "RebootVMCmd")
    (volume,) = owned.zone.rows("SELECT * FROM volumes WHERE removed IS NULL")
    assert (volume.uuid != old.uuid, volume.pool_id, volume.size_bytes) == (True, old.pool_id, old.size_bytes)
    assert (owned.vms()[0].state, owned.volumes()) == ("Running", {volume.uuid})
    owned.assert_intact()


def test_a_lost_disk_is_made_anew_by_a_restore_alone(owned: Fleet, acme: ApiClient) -> None:
    """A VM that ran once does not start without its disk: the job names restoreVirtualMachine, which helps."""
    _done(owned, acme, "stopVirtualMachine")
    owned.control.execute(b"DELETE FROM simulator.volumes", [])
    job = _done(owned, acme, "startVirtualMachine")
    assert (job["jobstatus"], owned.vms()[0].state, owned.volumes()) == (2, "Stopped", set())
    assert "restoreVirtualMachine" in job["jobresult"]["errortext"]
    assert _restore(owned, acme)["jobstatus"] == 1
    assert _done(owned, acme, "startVirtualMachine")["jobstatus"] == 1
    assert len(owned.volumes()) == 1
    owned.assert_intact()


def test_a_restore_takes_another_template(owned: Fleet, acme: ApiClient) -> None:
    """The VM is of that template then and keeps its host and pool; one that does not fit is refused by name."""
    other = owned.zone.id_of("templates", "Any hypervisor")
    where = (
        "SELECT v.host_id || '/' || d.pool_id FROM virtual_machines v"
        " JOIN volumes d ON d.vm_id = v.id AND d.removed IS NULL"
    )
    before = owned.zone.scalar(where)
    # A host that takes no more VMs keeps those that it has.
    owned.zone.change("UPDATE hosts SET resource_state = 'Disabled'")
    job = _restore(owned, acme, templateid=other)
    assert job["jobresult"]["virtualmachine"]["templateid"] == other
    assert owned.zone.scalar(where) == before
    debian = owned.zone.id_of("templates", "Debian 12")
    owned.zone.change("UPDATE templates SET hypervisor = 'VMware' WHERE name = 'Debian 12'")
    failure = refused(acme, "restoreVirtualMachine", virtualmachineid=_vm(owned), templateid=debian)
    assert (failure.status, "VMware" in failure.errortext) == (431, True)
    owned.assert_intact()


@pytest.mark.parametrize("runs", [True, False])
def test_a_restore_takes_another_size_and_disk_offering(owned: Fleet, acme: ApiClient, runs: bool) -> None:
    """The new volume is placed anew; too small, too large for the limit, and unknown details are refused."""
    if not runs:
        _done(owned, acme, "stopVirtualMachine")
    offering = owned.zone.id_of("disk_offerings", "20 GiB")
    restore = {"virtualmachineid": _vm(owned)}
    assert "smaller" in refused(acme, "restoreVirtualMachine", **restore, rootdisksize=1).errortext
    named = {"details[0].size": 30}
    assert "rootdisksize" in refused(acme, "restoreVirtualMachine", **restore, **named).errortext
    _limit(owned, 10, 25 << 30)
    assert refused(acme, "restoreVirtualMachine", **restore, rootdisksize=26).status == 535
    for more, gib in (({"diskofferingid": offering}, 20), ({"diskofferingid": offering, "rootdisksize": 25}, 25)):
        assert _restore(owned, acme, **more)["jobstatus"] == 1
        (volume,) = acme.call("listVolumes", virtualmachineid=_vm(owned))["volume"]
        assert (volume["size"], volume["diskofferingid"]) == (gib << 30, offering)
        placed = owned.zone.scalar("SELECT pool_id IS NOT NULL FROM volumes WHERE removed IS NULL")
        assert (volume["state"], placed) == (("Ready", True) if runs else ("Allocated", False))
        owned.assert_intact()
    assert (_count(owned, 10), _count(owned, 2)) == (25 << 30, 1)


def test_a_vm_that_no_host_suits_with_its_new_disk_keeps_the_old_one(owned: Fleet, acme: ApiClient) -> None:
    """The job names the reason as CloudStack does; the VM runs on with its disk."""
    other = owned.zone.id_of("templates", "Any hypervisor")
    owned.zone.change("UPDATE templates SET template_tag = 'nowhere' WHERE name = 'Any hypervisor'")
    before = owned.volumes()
    job = _restore(owned, acme, templateid=other)
    assert "Unable to create a deployment for VM instance" in job["jobresult"]["errortext"]
    assert (owned.vms()[0].state, owned.volumes()) == ("Running", before)
    owned.assert_intact()


def test_a_disk_that_cannot_be_removed_stays(owned: Fleet, acme: ApiClient) -> None:
    """The job fails for good, or waits; the VM runs with the disk it had."""
    owned.fault(Step.DELETE, FaultKind.PERMANENT, remaining=1)
    job = _restore(owned, acme)
    assert (job["jobstatus"], owned.vms()[0].state, len(owned.volumes())) == (2, "Running", 1)
    owned.fault(Step.DELETE, remaining=1)
    assert _restore(owned, acme)["jobstatus"] == 0
    owned.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    owned.run()
    assert (owned.jobs()[-1].status, owned.vms()[0].state) == (1, "Running")
    owned.assert_intact()


class Watched:
    """The given driver, noting which volumes it is told to remove."""

    def __init__(self, driver: Any, removed: list[object]) -> None:
        self._driver, self._removed = driver, removed

    def ensure_absent(self, host: Any, guest: Any, volumes: Any, **named: Any) -> None:
        """Note and remove."""
        self._removed.append(list(volumes))
        self._driver.ensure_absent(host, guest, volumes, **named)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the driver's."""
        return getattr(self._driver, name)


def test_keys_and_user_data_are_reset(stopped: Fleet, acme: ApiClient) -> None:
    """Key pairs and user data of the owner, while it is stopped; others are refused."""
    assert refused(acme, "resetSSHKeyForVirtualMachine", id=_vm(stopped), keypair="nobody").status == 431
    for given in ({}, {"keypair": ""}, {"keypairs": ","}):
        failure = refused(acme, "resetSSHKeyForVirtualMachine", id=_vm(stopped), **given)
        assert (failure.status, "keypair" in failure.errortext) == (431, True)
    job = _done(stopped, acme, "resetSSHKeyForVirtualMachine", keypair="laptop")
    assert job["jobresult"]["virtualmachine"]["keypairs"] == "laptop"
    assert job["jobresult"]["virtualmachine"]["password"]  # its template takes passwords: it has a new one
    assert acme.call("listVirtualMachines", keypair="laptop")["count"] == 1
    acme.call("resetUserDataForVirtualMachine", id=_vm(stopped))
    answer = acme.call("getVirtualMachineUserData", virtualmachineid=_vm(stopped))
    assert "userdata" not in answer["virtualmachineuserdata"]
    _done(stopped, acme, "startVirtualMachine")
    for command, given in (
        ("resetUserDataForVirtualMachine", {}),
        ("resetSSHKeyForVirtualMachine", {"keypair": "laptop"}),
        ("resetPasswordForVirtualMachine", {}),
    ):
        failure = refused(acme, command, id=_vm(stopped), **given)
        assert (failure.status, "in state Running; its state must be Stopped" in failure.errortext) == (431, True)


def test_affinity_groups_change_while_it_is_stopped(stopped: Fleet, acme: ApiClient) -> None:
    """The envelope is CloudStack's odd one; the groups are those given; a running VM is refused."""
    answer = acme.get("updateVMAffinityGroup", id=_vm(stopped), affinitygroupnames="apart")
    assert set(answer.json) == {"updatevirtualmachineresponse"}
    (vm,) = acme.call("listVirtualMachines")["virtualmachine"]
    assert [group["name"] for group in vm["affinitygroup"]] == ["apart"]
    assert refused(acme, "updateVMAffinityGroup", id=_vm(stopped)).status == 431
    assert refused(acme, "updateVMAffinityGroup", id=_vm(stopped), affinitygroupnames="nobody").status == 431
    assert _done(stopped, acme, "startVirtualMachine")["jobstatus"] == 1
    assert refused(acme, "updateVMAffinityGroup", id=_vm(stopped), affinitygroupnames="together").status == 431
    stopped.assert_intact()


@pytest.mark.parametrize("sent", ["affinitygroupids", "affinitygroupnames"])
def test_an_empty_list_takes_it_out_of_all_affinity_groups(stopped: Fleet, acme: ApiClient, sent: str) -> None:
    """As Terraform says it: the parameter without a value; beside a list that has elements it says nothing."""
    other = {"affinitygroupids": "affinitygroupnames", "affinitygroupnames": "affinitygroupids"}[sent]
    (group,) = acme.call("listAffinityGroups", name="apart")["affinitygroup"]
    one = {"affinitygroupids": group["id"], "affinitygroupnames": group["name"]}
    job = _done(stopped, acme, "updateVMAffinityGroup", **{other: one[other], sent: ""})
    assert [each["name"] for each in job["jobresult"]["virtualmachine"]["affinitygroup"]] == ["apart"]
    job = _done(stopped, acme, "updateVMAffinityGroup", **{sent: ""})
    assert job["jobresult"]["virtualmachine"]["affinitygroup"] == []


def test_a_start_goes_back_to_the_last_host(stopped: Fleet, client: ApiClient) -> None:
    """It starts where it was, and its disks stay there, if that host has room; a planner may be named."""
    stopped.zone.change(
        "UPDATE virtual_machines SET last_host_id = (SELECT max(o.id) FROM hosts o"
        " JOIN hosts h ON h.cluster_id = o.cluster_id WHERE h.id = last_host_id)"
    )
    last = stopped.vms()[0].last_host_id
    assert _done(stopped, client, "startVirtualMachine")["jobstatus"] == 1
    assert stopped.vms()[0].host_id == last
    _done(stopped, client, "stopVirtualMachine")
    stopped.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE id = :id", id=last)
    parameters = {"considerlasthost": True, "deploymentplanner": "FirstFitPlanner"}
    assert _done(stopped, client, "startVirtualMachine", **parameters)["jobstatus"] == 1
    assert stopped.vms()[0].host_id != last
    stopped.assert_intact()


def test_a_stopped_vm_goes_to_another_account(stopped: Fleet, client: ApiClient, api_url: str) -> None:
    """VM, volumes and counts are the new owner's, within its limits; what was the old owner's alone is lost."""
    to = {"account": "customers-admin", "domainid": stopped.zone.id_of("domains", "customers")}
    client.call("updateVirtualMachine", id=_vm(stopped), group="friends")
    client.call("updateVMAffinityGroup", id=_vm(stopped), affinitygroupnames="apart")
    client.call("updateResourceLimit", resourcetype=0, max=0, **to)
    assert refused(client, "assignVirtualMachine", virtualmachineid=_vm(stopped), **to).status == 535
    client.call("updateResourceLimit", resourcetype=0, max=5, **to)
    vm = client.call("assignVirtualMachine", virtualmachineid=_vm(stopped), **to)["virtualmachine"]
    assert (vm["account"], vm["affinitygroup"], "group" in vm) == ("customers-admin", [], False)
    assert (_count(stopped, 0), _count(stopped, 2), _count(stopped, 10)) == (0, 0, 0)
    stopped.assert_intact()
    theirs = ApiClient(api_url, *CUSTOMERS_ADMIN)
    assert theirs.call("listVolumes")["count"] == 1
    assert _done(stopped, theirs, "startVirtualMachine")["jobstatus"] == 1
    failure = refused(theirs, "assignVirtualMachine", virtualmachineid=_vm(stopped), **to)
    assert (failure.status, "Stopped" in failure.errortext) == (431, True)
    stopped.assert_intact()


@pytest.mark.parametrize("named", [True, False])
def test_a_vm_comes_with_the_security_groups_that_were_named(
    stopped: Fleet, client: ApiClient, named: bool
) -> None:
    """Its new owner's default one only where none is."""
    stopped.zone.change("UPDATE network_offerings SET services = services || '[\"SecurityGroup\"]'")
    to = {"account": "customers-admin", "domainid": stopped.zone.id_of("domains", "customers")}
    group = client.call("createSecurityGroup", name="closed", **to)["securitygroup"]["id"]
    given = {"securitygroupids": group} if named else {}
    vm = client.call("assignVirtualMachine", virtualmachineid=_vm(stopped), **to, **given)["virtualmachine"]
    assert [each["name"] for each in vm["securitygroup"]] == (["closed"] if named else ["default"])


def test_a_vm_is_assigned_only_to_owners_allowed_to_have_it(
    stopped: Fleet, api_url: str, client: ApiClient
) -> None:
    """Its own account, nobody, and owners without a right to its network or template are refused."""
    acme = {"account": "acme", "domainid": stopped.zone.id_of("domains", "acme")}
    other = {"account": "customers-admin", "domainid": stopped.zone.id_of("domains", "customers")}
    vm = {"virtualmachineid": _vm(stopped)}
    assert refused(client, "assignVirtualMachine", **vm, **acme).status == 431
    assert refused(client, "assignVirtualMachine", **vm).status == 431
    assert refused(client, "assignVirtualMachine", **vm, **other, networkids=_vm(stopped)).status == 431
    assert refused(ApiClient(api_url, *ACME), "assignVirtualMachine", **vm, **other).status == 432
    stopped.zone.change("UPDATE templates SET is_public = false")
    assert refused(client, "assignVirtualMachine", **vm, **other).status == 531
    stopped.zone.change("UPDATE templates SET is_public = true")
    stopped.zone.change(
        "UPDATE networks SET acl_type = 'Account', account_id = (SELECT id FROM accounts WHERE name = 'acme')"
    )
    assert refused(client, "assignVirtualMachine", **vm, **other).status == 531
    assert _count(stopped, 0) == 1
    stopped.assert_intact()


CHANGES: dict[str, dict[str, object]] = {
    "rebootVirtualMachine": {},
    "recoverVirtualMachine": {},
    "expungeVirtualMachine": {},
    "updateVirtualMachine": {"displayname": "mine"},
    "changeServiceForVirtualMachine": {},
    "scaleVirtualMachine": {},
    "restoreVirtualMachine": {},
    "resetSSHKeyForVirtualMachine": {"keypair": "laptop"},
    "resetUserDataForVirtualMachine": {"userdata": HELLO},
    "updateVMAffinityGroup": {"affinitygroupnames": "apart"},
    "getVirtualMachineUserData": {},
}


@pytest.mark.parametrize("command", CHANGES)
def test_others_may_not_touch_it(owned: Fleet, acme: ApiClient, command: str) -> None:
    """A VM of another account is not there for any of them, and stays what it is."""
    owned.zone.change(
        "INSERT INTO configuration_values VALUES ('Global', 0, 'allow.user.expunge.recover.vm', 'true')"
    )
    owned.deploy(1)
    other = owned.vms()[1]
    more = dict(CHANGES[command])
    if command in ("changeServiceForVirtualMachine", "scaleVirtualMachine"):
        more["serviceofferingid"] = owned.zone.id_of("service_offerings", "Small")
    by_long_name = ("getVirtualMachineUserData", "restoreVirtualMachine")
    named = "virtualmachineid" if command in by_long_name else "id"
    assert refused(acme, command, **{named: str(other.uuid)}, **more).status == 431
    assert owned.vms()[1] == other


class PasswordNotes:
    """A driver that notes the passwords which guests are started with."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.passwords: list[str | None] = []

    def ensure_running(self, host: Any, guest: Any, **named: Any) -> None:
        """Note it."""
        self.passwords.append(guest.password)
        self._driver.ensure_running(host, guest, **named)

    def __getattr__(self, name: str) -> Any:
        """Everything else, as the driver does it."""
        return getattr(self._driver, name)


def test_a_new_password_reaches_the_guest_at_its_next_start(stopped: Fleet, acme: ApiClient) -> None:
    """The hypervisor is given what the job's result told."""
    job = _done(stopped, acme, "resetPasswordForVirtualMachine")
    acme.call("startVirtualMachine", id=_vm(stopped))
    notes = PasswordNotes(stopped.driver)
    stopped.run(drivers=OneDriver(notes))
    assert notes.passwords == [job["jobresult"]["virtualmachine"]["password"]]
    assert stopped.vms()[0].state == "Running"


def _passwords(reader: ApiClient, job_id: str, vm_id: str) -> list[str | None]:
    """The password that a caller reads by the job's id, by the VM and in the list of jobs, or None for each."""
    found: list[str | None] = []
    for command, given in (
        ("queryAsyncJobResult", {"jobid": job_id}),
        ("queryAsyncJobResult", {"resourceid": vm_id, "resourcetype": "VirtualMachine"}),
        ("listAsyncJobs", {"listall": "true"}),
    ):
        answer = reader.get(command, **given)
        assert answer.status in (200, 431), answer.text
        words = re.findall(r'"password": *"([^"]*)"', answer.text)
        found.append(words[0] if words else None)
    return found


def _user(client: ApiClient, api_url: str, fleet: Fleet, account: str, name: str) -> ApiClient:
    """Another user of an account."""
    client.call(
        "createUser", account=account, domainid=fleet.zone.id_of("domains", account), username=name,
        password="a long enough password", email=f"{name}@acme.example", firstname=name, lastname=name,
    )  # fmt: skip
    (user,) = client.call("listUsers", username=name, listall="true")["user"]
    keys = client.call("registerUserKeys", id=user["id"])["userkeys"]
    return ApiClient(api_url, keys["apikey"], keys["secretkey"])


def test_a_password_is_read_by_the_account_that_set_it(
    stopped: Fleet, acme: ApiClient, client: ApiClient, api_url: str
) -> None:
    """As in CloudStack: by every user of the account whose user called, again and again, and by admins above.

    Neither by other accounts nor in lists; one that an admin sets is not told to the VM's owner.
    """
    vm_id, above = _vm(stopped), ApiClient(api_url, *CUSTOMERS_ADMIN)
    colleague = _user(client, api_url, stopped, "acme", "colleague")
    job = _done(stopped, acme, "resetPasswordForVirtualMachine")
    password = job["jobresult"]["virtualmachine"]["password"]
    for reader in (acme, colleague, acme, above, client):
        assert _passwords(reader, job["jobid"], vm_id) == [password, password, None]
    job = _done(stopped, client, "resetPasswordForVirtualMachine")
    password = job["jobresult"]["virtualmachine"]["password"]
    assert _passwords(client, job["jobid"], vm_id) == [password, password, None]
    for reader in (acme, colleague, above):
        assert _passwords(reader, job["jobid"], vm_id) == [None, None, None]
