"""Rolling replacements of managed deployments: gradual, within limits, whichever process dies."""

from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.wiring.scheduled_work import due_managed_deployments
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet

REPLACE, RESUME = "replaceBulkDeployment", "resumeBulkOperation"


@pytest.fixture
def web(fleet: Fleet, client: ApiClient) -> str:
    """A managed deployment of four running VMs named web-1 to web-4; its id."""
    call = fleet.zone.bulk_parameters(4, nameprefix="web", managed=True)
    job = client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]
    fleet.run()
    return str(job["deploymentid"])


@pytest.fixture
def other(fleet: Fleet) -> str:
    """The id of another template than that of the deployment."""
    fleet.zone.change(
        "UPDATE templates t SET hypervisor = d.hypervisor FROM templates d"
        " WHERE d.name = 'Debian 12' AND t.name = 'Any hypervisor'"
    )
    return str(fleet.zone.scalar("SELECT uuid FROM templates WHERE name = 'Any hypervisor'"))


def _shown(client: ApiClient, web: str) -> dict[str, Any]:
    (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
    (replacement,) = row["replacement"]
    return dict(replacement)


def _live(fleet: Fleet) -> list[Any]:
    return [vm for vm in fleet.vms() if vm.state not in ("Destroyed", "Expunging") and vm.removed is None]


def _step(fleet: Fleet) -> None:
    """Let the sweeper take a step, and then let all jobs end."""
    fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
    due_managed_deployments(fleet.system).handle()
    fleet.run()


def _replace_until(fleet: Fleet, client: ApiClient, web: str, state: str, *, least: int = 3, most: int = 4) -> None:
    """Take steps until the replacement has this state; the numbers of VMs stay within the limits."""
    for _ in range(30):
        fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
        due_managed_deployments(fleet.system).handle()
        stays = "SELECT count(*) FROM async_jobs WHERE status = 0 AND kind = 'destroy_virtual_machine'"
        live = _live(fleet)
        going = fleet.zone.scalar(stays)
        assert len(live) - going <= most
        fleet.run()
        assert sum(vm.state == "Running" for vm in _live(fleet)) >= least
        if _shown(client, web)["state"] == state:
            return
    raise AssertionError(f"{_shown(client, web)} is not {state}")


def _templates(fleet: Fleet) -> set[str]:
    rows = fleet.zone.rows(
        "SELECT t.uuid FROM virtual_machines v JOIN templates t ON t.id = v.template_id"
        " WHERE v.state = 'Running' AND v.removed IS NULL"
    )
    return {str(row.uuid) for row in rows}


@pytest.mark.long
def test_new_vms_replace_old_ones_gradually_and_back(fleet: Fleet, client: ApiClient, web: str, other: str) -> None:
    """New VMs have the naming pattern and the template; a checkpoint pauses; a rollback restores the parameters."""
    before = _templates(fleet)
    old = {vm.uuid for vm in _live(fleet)}
    client.call(REPLACE, id=web, templateid=other, maxunavailable="25%", pauseafter="50%")
    _replace_until(fleet, client, web, "Paused")
    shown = _shown(client, web)
    assert (shown["replaced"], shown["count"]) == (2, 4)
    assert sum(cluster["replaced"] for cluster in shown["clusters"]) == 2
    _step(fleet)
    assert _shown(client, web)["replaced"] == 2
    client.call(RESUME, id=web)
    _replace_until(fleet, client, web, "Completed")
    assert _templates(fleet) == {other}
    assert not old & {vm.uuid for vm in _live(fleet)}
    assert {vm.name for vm in _live(fleet)} == {f"web-{number}" for number in range(1, 5)}
    fleet.assert_intact()
    client.call("updateBulkDeployment", id=web, virtualmachinecount=5)
    fleet.run()
    assert _templates(fleet) == {other}
    client.call(REPLACE, id=web, rollback=True)
    _replace_until(fleet, client, web, "Completed", most=5)
    assert _templates(fleet) == before
    fleet.assert_intact()


def test_surplus_vms_come_first_and_a_call_says_what_it_cannot_do(
    fleet: Fleet, client: ApiClient, web: str, other: str
) -> None:
    """With maxsurge and without unavailable VMs all VMs stay available; a second replacement is refused."""
    error = refused(client, REPLACE, id=web, templateid=other, maxunavailable=0)
    assert "must not both be 0" in error.errortext
    offering = fleet.zone.id_of("service_offerings", "Small")
    error = refused(client, REPLACE, id=web, serviceofferingid=offering, method="Restore")
    assert "cannot change the sizes of VMs" in error.errortext
    error = refused(client, REPLACE, id=web, keypairs="nobody", method="Restore")
    assert "Not all specified keypairs exist" in error.errortext
    error = refused(client, REPLACE, id=web, userdata="?", method="Restore")
    assert "not base64" in error.errortext
    assert "never replaced" in refused(client, REPLACE, id=web, rollback=True).errortext
    assert "no replacement" in refused(client, RESUME, id=web).errortext
    assert "from 1 to 99" in refused(client, REPLACE, id=web, pauseafter="0").errortext
    assert fleet.zone.scalar("SELECT count(*) FROM replacements") == 0
    client.call(
        REPLACE, id=web, templateid=other, userdata="YQ==", maxsurge="50%", maxunavailable="0", expunge=True
    )
    assert "is in progress" in refused(client, REPLACE, id=web, templateid=other).errortext
    client.call(REPLACE, id=web, pause=True)
    _step(fleet)
    assert (_shown(client, web)["state"], len(_live(fleet))) == ("Paused", 4)
    client.call(RESUME, id=web)
    _replace_until(fleet, client, web, "Completed", least=4, most=6)
    assert _templates(fleet) == {other}
    assert len(fleet.guests()) == 4
    fleet.assert_intact()


def test_vms_are_restored_in_place(fleet: Fleet, client: ApiClient, web: str, other: str) -> None:
    """Ids and names stay. A VM that cannot be restored stops the replacement; a resumption tries it again."""
    ids = [vm.uuid for vm in _live(fleet)]
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    client.call(REPLACE, id=web, templateid=other, method="Restore", maxunavailable=2)
    _replace_until(fleet, client, web, "Failed", least=0)
    assert _shown(client, web)["failed"] == 2
    fleet.clear_faults()
    client.call("bulkStartVirtualMachine", deploymentid=web, state="Stopped")
    fleet.run()
    client.call(RESUME, id=web)
    _replace_until(fleet, client, web, "Completed", least=0)
    assert [vm.uuid for vm in _live(fleet)] == ids
    assert _templates(fleet) == {other}
    fleet.assert_intact()


def test_vms_get_other_user_data_and_key_pairs_in_place_and_back(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Restored VMs are made anew with them; a rollback takes them away, unless it would need registered data."""
    owner = {name: fleet.zone.bulk_parameters(1)[name] for name in ("account", "domainid")}
    client.call("createSSHKeyPair", name="new", **owner)
    client.call(REPLACE, id=web, userdata="Y\nQ", keypairs="new", method="Restore", maxunavailable=4)
    _replace_until(fleet, client, web, "Completed", least=0)
    assert [_guest_data(client, vm) for vm in _live(fleet)] == [("YQ==", "new")] * 4
    client.call("updateBulkDeployment", id=web, virtualmachinecount=5)
    fleet.run()
    assert [_guest_data(client, vm) for vm in _live(fleet)] == [("YQ==", "new")] * 5
    client.call(REPLACE, id=web, rollback=True)
    _replace_until(fleet, client, web, "Completed", least=0, most=5)
    assert [_guest_data(client, vm) for vm in _live(fleet)] == [(None, None)] * 5
    fleet.assert_intact()


def test_a_rollback_that_would_lose_user_data_is_refused(fleet: Fleet, client: ApiClient) -> None:
    """The texts of registered user data, of user data with details and of a template's are not recorded."""
    call = fleet.zone.bulk_parameters(1, managed=True)
    owner = {name: call[name] for name in ("account", "domainid")}
    data = client.call("registerUserData", name="cloud", userdata="Yg==", params="color", **owner)["userdata"]["id"]
    colored = {"userdataid": data, "userdatadetails[0].color": "red"}
    linked: dict[str, Any] = {}
    for given in ({"userdataid": data}, colored, {"userdata": "Yg==", "userdatadetails[0].color": "red"}, linked):
        if given is linked:
            client.call("linkUserDataToTemplate", templateid=call["templateid"], userdataid=data)
        made = client.call("bulkDeployVirtualMachine", **call, **given)["asyncjobs"][0]["deploymentid"]
        fleet.run()
        client.call(REPLACE, id=made, userdata="YQ==", method="Restore")
        recorded = fleet.zone.scalar(
            "SELECT parameters FROM managed_deployments WHERE deployment_id = (SELECT id"
            " FROM deployments WHERE uuid = :made)",
            made=made,
        )
        assert [name for name in recorded if "userdata" in name.lower()] == ["userdata"]
        assert "had registered user data" in refused(client, REPLACE, id=made, rollback=True).errortext
        assert _shown(client, made)["state"] == "InProgress"


def _guest_data(client: ApiClient, vm: Any) -> tuple[str | None, str | None]:
    """Return user data and key pairs of a VM."""
    (shown,) = client.call("listVirtualMachines", id=str(vm.uuid))["virtualmachine"]
    data = client.call("getVirtualMachineUserData", virtualmachineid=str(vm.uuid))["virtualmachineuserdata"]
    return data.get("userdata"), shown.get("keypairs")


@pytest.mark.long
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_sweeper_that_dies_at_any_step_changes_nothing_of_the_end(
    fleet: Fleet, client: ApiClient, web: str, other: str, place: str
) -> None:
    """Every second step dies at its commit, and another sweeper goes on: the same VMs in the end."""
    client.call(REPLACE, id=web, templateid=other, maxsurge="1")
    for _ in range(30):
        try:
            with dies_at(f"{Failpoint.SWEEP_MANAGED}.{place}"):
                _step(fleet)
        except Died:
            fleet.run()
        _step(fleet)
        if _shown(client, web)["state"] == "Completed":
            break
    assert _shown(client, web)["state"] == "Completed"
    assert (_templates(fleet), len(_live(fleet))) == ({other}, 4)
    fleet.assert_intact()
