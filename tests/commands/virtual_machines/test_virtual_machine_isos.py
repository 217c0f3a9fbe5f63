"""ISOs in the drives of VMs, and passwords that are told once."""

import pytest

from tests.support.api.async_calls import change, refusal
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import DOMAIN_ADMIN, RIVAL, USER, World

INSTALLER = "Debian 12 installer"


def shown(world: World, vm: str) -> tuple[object, object]:
    """The ISO that a VM's row shows."""
    (row,) = world.rows("listVirtualMachines", USER, id=vm)
    return row.get("isoid"), row.get("isoname")


def test_a_vm_has_one_iso_at_most(owned_world: World) -> None:
    """It is shown with the VM and found by its id, another one needs force, and it is kept while it is used."""
    vm = deployed_vm(owned_world, "drive", state="Stopped")
    iso = owned_world.id_of("templates", INSTALLER)
    registered = owned_world.client(USER).call(
        "registerIso",
        name="mine",
        displaytext="mine",
        url="http://images.example/mine.iso",
        zoneid=owned_world.id_of("zones", "small"),
        ostypeid=owned_world.id_of("os_types", "Windows 11 (64-bit)"),
    )
    other = registered["iso"][0]["id"]
    attached = change(owned_world, "attachIso", USER, id=iso, virtualmachineid=vm)
    assert (attached["id"], attached["isoname"]) == (vm, INSTALLER)
    assert shown(owned_world, vm) == (iso, INSTALLER)
    assert vm in [row["id"] for row in owned_world.rows("listVirtualMachines", USER, isoid=iso)]
    assert "forced" in refusal(owned_world, "attachIso", USER, id=other, virtualmachineid=vm).errortext
    change(owned_world, "attachIso", USER, id=other, virtualmachineid=vm, forced="true")
    assert shown(owned_world, vm)[0] == other
    assert refusal(owned_world, "deleteIso", USER, id=other).status == 536
    change(owned_world, "detachIso", USER, virtualmachineid=vm)
    assert shown(owned_world, vm) == (None, None)
    assert refusal(owned_world, "detachIso", USER, virtualmachineid=vm).status == 431


def test_isos_are_for_those_who_may_use_them(owned_world: World) -> None:
    """Neither another's VM nor another's ISO, nor a VM in between, changes."""
    vm = deployed_vm(owned_world, "kept-drive")
    iso = owned_world.id_of("templates", INSTALLER)
    assert refusal(owned_world, "attachIso", RIVAL, id=iso, virtualmachineid=vm).status == 431
    assert refusal(owned_world, "detachIso", RIVAL, virtualmachineid=vm).status == 431
    deployed_vm(owned_world, "kept-drive-2", state="Starting")
    starting = owned_world.id_of("virtual_machines", "kept-drive-2")
    assert "Starting" in refusal(owned_world, "attachIso", USER, id=iso, virtualmachineid=starting).errortext
    owned_world.change("UPDATE templates SET is_public = false WHERE name = :name", name=INSTALLER)
    try:
        assert refusal(owned_world, "attachIso", USER, id=iso, virtualmachineid=vm).status == 431
    finally:
        owned_world.change("UPDATE templates SET is_public = true WHERE name = :name", name=INSTALLER)
    assert shown(owned_world, vm) == (None, None)


@pytest.mark.parametrize("given", [None, "S3cret-enough"])
def test_a_password_is_shown_only_in_its_jobs_result(owned_world: World, given: str | None) -> None:
    """The caller and its admin read it there; no list has it, and no row of the database in the open."""
    vm = deployed_vm(owned_world, f"secretive-{given is None}".lower(), state="Stopped")
    more = {} if given is None else {"password": given}
    job = owned_world.client(USER).call("resetPasswordForVirtualMachine", id=vm, **more)["jobid"]
    for by in (USER, DOMAIN_ADMIN):
        result = owned_world.client(by).call("queryAsyncJobResult", jobid=job)["jobresult"]["virtualmachine"]
        password = result["password"]
        assert (result["id"], given in (None, password), len(password) >= 6) == (vm, True, True)
    assert password[0].isalnum()
    listed = [row for row in owned_world.rows("listAsyncJobs", USER) if row["jobid"] == job]
    assert listed[0]["jobresult"]["virtualmachine"]["id"] == vm
    assert "password" not in listed[0]["jobresult"]["virtualmachine"]
    assert "password" not in owned_world.rows("listVirtualMachines", USER, id=vm)[0]
    kept = "SELECT j.result || encode(v.password_encrypted, 'escape') FROM async_jobs j, virtual_machines v"
    assert password not in owned_world.scalar(f"{kept} WHERE j.uuid = :job AND v.uuid = :vm", job=job, vm=vm)


def test_passwords_that_can_not_be_reset(owned_world: World) -> None:
    """Not of another's VM, not while it runs, not where the image takes none, and not to anything."""
    vm = deployed_vm(owned_world, "plain", state="Stopped")
    call = "resetPasswordForVirtualMachine"
    assert refusal(owned_world, call, RIVAL, id=vm).status == 431
    for bad in ("short", "has a space", "ümlaut-long"):
        failure = refusal(owned_world, call, USER, id=vm, password=bad)
        assert (failure.status, bad in failure.errortext) == (431, False)
    assert "Running" in refusal(owned_world, call, USER, id=deployed_vm(owned_world, "plain-2")).errortext
    owned_world.change("UPDATE templates SET password_enabled = false WHERE name = 'Debian 12'")
    try:
        assert "password enabled" in refusal(owned_world, call, USER, id=vm).errortext
    finally:
        owned_world.change("UPDATE templates SET password_enabled = true WHERE name = 'Debian 12'")


def test_what_hypervisors_can_and_who_manages(owned_world: World) -> None:
    """Both are found by their ids and names, and not by others."""
    (row,) = owned_world.rows("listHypervisorCapabilities", hypervisor="kvm")
    assert (row["hypervisor"], row["maxguestslimit"]) == ("KVM", 150)
    assert owned_world.rows("listHypervisorCapabilities", id=row["id"]) == [row]
    assert owned_world.rows("listHypervisorCapabilities", id="x") == []
    (server,) = owned_world.rows("listManagementServers")
    assert (server["name"], server["state"]) == ("bulkdeploy", "Up")
    assert owned_world.rows("listManagementServers", id=server["id"]) == [server]
    assert owned_world.rows("listManagementServers", name="other") == []
