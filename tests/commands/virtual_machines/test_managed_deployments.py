"""Deployments with a desired size grow, shrink and keep their size, whichever process dies and user acts."""

from collections import Counter

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.wiring.scheduled_work import due_managed_deployments
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet

UPDATE = "updateBulkDeployment"


@pytest.fixture
def web(fleet: Fleet, client: ApiClient) -> str:
    """A managed deployment of four running VMs named web-1 to web-4; its id. Two more VMs run beside it."""
    fleet.deploy(2)
    call = fleet.zone.bulk_parameters(4, nameprefix="web", managed=True)
    job = client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]
    fleet.run()
    return str(job["deploymentid"])


def _members(client: ApiClient, web: str) -> list[dict[str, str]]:
    """The VMs of the deployment that bulk operations select."""
    plan = client.call("bulkUpdateVirtualMachine", deploymentid=web, displayname="{name}", dryrun=True)
    return list(plan["bulkoperation"]["virtualmachines"])


def _sizes(client: ApiClient, web: str) -> tuple[int, int]:
    (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
    return row["desiredcount"], row["actualcount"]


def _healing(client: ApiClient, deployment: str) -> tuple[bool, int]:
    (row,) = client.call("listBulkDeployments", id=deployment)["bulkdeployment"]
    return row["autoheal"], row["healafter"]


def _sweep(fleet: Fleet) -> None:
    fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
    due_managed_deployments(fleet.system).handle()


def test_a_deployment_grows_and_shrinks_by_its_record(fleet: Fleet, client: ApiClient, web: str) -> None:
    """More VMs have the same owner, sizes and naming; too many are destroyed, so that the spread stays even."""
    shown = client.call(UPDATE, id=web, virtualmachinecount=9, dryrun=True)["bulkdeployment"]
    assert (shown["before"], shown["added"]) == (4, 5)
    grown = client.call(UPDATE, id=web, virtualmachinecount=9)["bulkdeployment"]
    assert (grown["added"], grown["removed"], len(grown["asyncjobs"])) == (5, 0, 5)
    fleet.run()
    assert sorted(vm["name"] for vm in _members(client, web)) == [f"web-{number}" for number in range(1, 10)]
    assert len({(vm.account_id, vm.memory_mib, vm.service_offering_id) for vm in fleet.vms()[2:]}) == 1
    (progress,) = client.call("listBulkDeployments", id=grown["grownby"])["bulkdeployment"]
    assert (progress["succeeded"], _sizes(client, web)) == (5, (9, 9))
    fleet.assert_intact()
    plan = client.call(UPDATE, id=web, virtualmachinecount=5, dryrun=True)["bulkdeployment"]
    assert _sizes(client, web) == (9, 9)
    shrunk = client.call(UPDATE, id=web, virtualmachinecount=5)["bulkdeployment"]
    removed = {job["jobinstanceid"] for job in shrunk["asyncjobs"]}
    assert (shrunk["removed"], removed) == (4, {vm["id"] for vm in plan["virtualmachines"]})
    assert _sizes(client, web) == (5, 5)
    fleet.run()
    (row,) = client.call("listBulkOperations", id=shrunk["operationid"], listall=True)["bulkoperation"]
    assert (row["operation"], row["succeeded"]) == (UPDATE, 4)
    left = [vm for vm in fleet.vms()[2:] if vm.state == "Running"]
    spread = Counter(vm.cluster_id for vm in left)
    assert max(spread.values()) - min(spread.values()) <= 1
    assert [vm.state for vm in fleet.vms()[:2]] == ["Running"] * 2
    fleet.assert_intact()


@pytest.mark.parametrize(("policy", "left"), [("NewestFirst", [0, 1]), ("OldestFirst", [2, 3])])
def test_vms_go_in_the_order_of_the_policy_but_never_protected_ones(
    fleet: Fleet, client: ApiClient, web: str, policy: str, left: list[int]
) -> None:
    """Protected VMs stay. A size that would need them is refused, and nothing changes."""
    ids = [vm["id"] for vm in _members(client, web)]
    client.call(UPDATE, id=web, virtualmachinecount=2, scaleinpolicy=policy)
    fleet.run()
    assert [ids.index(vm["id"]) for vm in _members(client, web)] == left
    client.call("updateVirtualMachine", id=ids[left[0]], deleteprotection=True)
    error = refused(client, UPDATE, id=web, virtualmachinecount=0)
    assert "1 of its virtual machines have delete protection enabled" in error.errortext
    assert _sizes(client, web) == (2, 2)
    client.call(UPDATE, id=web, virtualmachinecount=1)
    fleet.run()
    assert [vm["id"] for vm in _members(client, web)] == [ids[left[0]]]
    fleet.assert_intact()


def test_what_a_call_refuses_changes_no_size(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Limits, wrong counts and a deployment that is not managed: the desired size stays."""
    assert refused(client, UPDATE, id=web, virtualmachinecount=50_000).errorcode == 535
    assert refused(client, UPDATE, id=web, virtualmachinecount=-1).errorcode == 431
    other = fleet.deploy(1).uuid
    assert (
        "the deployment is not managed" in refused(client, UPDATE, id=str(other), virtualmachinecount=2).errortext
    )
    error = refused(client, "bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(1, scaleinpolicy="Balanced"))
    assert "must be given with managed=true" in error.errortext
    error = refused(client, "bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(1, autoheal=True))
    assert "autoheal must be given with managed=true" in error.errortext
    assert _sizes(client, web) == (4, 4)


def test_a_list_of_unlike_vms_grows_by_its_entries_in_turn(fleet: Fleet, client: ApiClient) -> None:
    """Names of single VMs are not used again; addresses of single VMs cannot be given."""
    parameters = fleet.zone.bulk_parameters(1)
    shared = {name: parameters.pop(name) for name in ("zoneid", "account", "domainid")}
    del parameters["virtualmachinecount"]
    entries = {
        **{f"virtualmachines[0].{name}": value for name, value in {**parameters, "name": "db"}.items()},
        **{f"virtualmachines[1].{name}": value for name, value in {**parameters, "rootdisksize": 7}.items()},
    }
    made = client.call("bulkCreateVirtualMachines", **shared, **entries, managed=True)
    fleet.run()
    deployment = made["asyncjobs"][0]["deploymentid"]
    client.call(UPDATE, id=deployment, virtualmachinecount=5)
    fleet.run()
    assert _sizes(client, deployment) == (5, 5)
    sizes = fleet.zone.rows("SELECT size_bytes / 1073741824 AS gib FROM volumes ORDER BY id")
    assert Counter(row.gib == 7 for row in sizes) == {False: 3, True: 2}
    error = refused(client, "replaceBulkDeployment", id=deployment, userdata="YQ==", method="Restore")
    assert "cannot change user data and key pairs of a list of different VMs" in error.errortext
    fleet.assert_intact()
    address = {"virtualmachines[0].ipaddress": "10.0.0.9"}
    error = refused(client, "bulkCreateVirtualMachines", **shared, **entries, **address, managed=True)
    assert "addresses of single VMs" in error.errortext


def test_the_sweeper_keeps_the_size(fleet: Fleet, client: ApiClient, web: str) -> None:
    """VMs that users destroy are replaced, VMs that they recover go; what fails is tried again later, and shown."""
    gone, *_ = (vm["id"] for vm in _members(client, web))
    client.call("destroyVirtualMachine", id=gone)
    _sweep(fleet)
    due_managed_deployments(fleet.system).handle()
    fleet.run()
    assert len(_members(client, web)) == 4
    client.call("recoverVirtualMachine", id=gone)
    assert _sizes(client, web) == (4, 5)
    _sweep(fleet)
    fleet.run()
    assert _sizes(client, web) == (4, 4)
    fleet.assert_intact()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled'")
    client.call("destroyVirtualMachine", id=_members(client, web)[0]["id"])
    fleet.run()
    for failures in (1, 2):
        _sweep(fleet)
        assert fleet.zone.scalar("SELECT failures FROM managed_deployments") == failures
    (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
    assert "none would fit" in row["lasterror"]
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    _sweep(fleet)
    fleet.run()
    (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
    assert (row["desiredcount"], row["actualcount"], row.get("lasterror")) == (4, 4, None)
    client.call(UPDATE, id=web, managed=False)
    client.call("destroyVirtualMachine", id=_members(client, web)[0]["id"])
    fleet.run()
    due_managed_deployments(fleet.system).handle()
    assert len(_members(client, web)) == 3
    fleet.assert_intact()


def test_a_project_role_also_restricts_the_sweeper(fleet: Fleet, client: ApiClient, api_url: str) -> None:
    """A deployment of a project grows in its maker's name only while the maker's project role allows deploying."""
    answer = client.call("createProject", name="ours", displaytext="ours", domainid=fleet.id_of("domains", "acme"))
    project = {"projectid": answer["id"]}
    role = client.call("createProjectRole", name="Tester", **project)["projectrole"]["id"]
    client.call("addAccountToProject", account="acme", projectroleid=role, **project)
    deployer = client.call("createRole", name="Deployer", type="User")["role"]["id"]
    client.call("createRolePermission", roleid=deployer, rule="bulkDeploy*", permission="allow")
    client.call("updateAccount", id=fleet.zone.id_of("accounts", "acme"), roleid=deployer)
    member = ApiClient(api_url, *ACME)
    owner = {"account": None, "domainid": None, **project}
    call = fleet.zone.bulk_parameters(2, nameprefix="web", managed=True, **owner)
    web = str(member.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]["deploymentid"])
    fleet.run()
    rule = client.call(
        "createProjectRolePermission", projectroleid=role, rule="bulkDeploy*", permission="deny", **project
    )["projectrolepermission"]["id"]
    client.call("destroyVirtualMachine", id=str(fleet.vms()[0].uuid))
    fleet.run()
    _sweep(fleet)
    assert len(fleet.vms()) == 2
    (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
    assert "does not allow this call" in row["lasterror"]
    client.call("deleteProjectRolePermission", id=rule, **project)
    _sweep(fleet)
    assert len(fleet.vms()) == 3
    fleet.run()
    fleet.assert_intact()


@pytest.mark.long
@pytest.mark.parametrize("point", [Failpoint.SWEEP_MANAGED, Failpoint.SWEEP_MANAGED_FAILED])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("change", ["few", "many"])
def test_a_sweeper_that_dies_leaves_the_size_to_the_next(
    fleet: Fleet, client: ApiClient, web: str, point: Failpoint, place: str, change: str
) -> None:
    """Each of the commits of a comparison is reached by a death; another sweeper ends with the desired size."""
    first = _members(client, web)[0]["id"]
    if change == "few":
        client.call("destroyVirtualMachine", id=first)
    else:
        fleet.zone.change("UPDATE managed_deployments SET desired_count = 2")
    fails = point is Failpoint.SWEEP_MANAGED_FAILED
    if fails:
        fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled'")
        fleet.zone.change("UPDATE virtual_machines SET delete_protection = true")
    with dies_at(f"{point}.{place}"), pytest.raises(Died):
        _sweep(fleet)
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    fleet.zone.change("UPDATE virtual_machines SET delete_protection = false")
    fleet.run()
    for _ in range(2):
        _sweep(fleet)
        fleet.run()
    desired = 4 if change == "few" else 2
    assert _sizes(client, web) == (desired, desired)
    assert len(_members(client, web)) == desired
    fleet.assert_intact()


def _heal(fleet: Fleet) -> None:
    fleet.zone.change("UPDATE managed_deployments SET next_heal = now()")
    _sweep(fleet)
    fleet.run()


def test_broken_vms_are_healed_a_few_at_once_with_growing_pauses_and_an_alert(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """VMs that stopped by themselves start, VMs in Error are replaced; what users stop stays stopped."""
    ids = [vm["id"] for vm in _members(client, web)]
    broken = "UPDATE virtual_machines SET state = 'Stopped', updated = now() - interval '1 h' WHERE uuid = '{}'"
    client.call("stopVirtualMachine", id=ids[0])
    fleet.run()
    fleet.zone.change("UPDATE virtual_machines SET updated = now() - interval '1 h'")
    for uuid in ids[1:3]:
        client.call("stopVirtualMachine", id=uuid)
        fleet.run()
        fleet.zone.change(broken.format(uuid))
        ended = "UPDATE async_jobs SET params = '{\"guest_ended\": true}' WHERE kind = 'stop_virtual_machine'"
        fleet.zone.change(f"{ended} AND instance_uuid = '{uuid}'")  # as the sweeper's job for a guest that ended
    _heal(fleet)
    states = {vm["id"]: vm["state"] for vm in _members(client, web)}
    assert [states[uuid] for uuid in ids] == ["Stopped"] * 3 + ["Running"]
    client.call(UPDATE, id=web, autoheal=True, healafter=60, maxunavailable="25%")
    assert _healing(client, web) == (True, 60)
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    for tries in (1, 2, 3):
        _heal(fleet)
        (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
        assert row["healtries"] == tries
        fleet.zone.change("UPDATE virtual_machines SET updated = now() - interval '1 h' WHERE state = 'Stopped'")
    pause = "SELECT extract(epoch FROM next_heal - now()) > 100 FROM managed_deployments"
    assert fleet.zone.scalar(pause)
    alerts = client.call("listAlerts", name="ALERT.USERVM").get("alert", [])
    assert sum("did not help" in alert["description"] for alert in alerts) == 1
    fleet.clear_faults()
    for _ in range(3):
        _heal(fleet)
    states = {vm["id"]: vm["state"] for vm in _members(client, web)}
    assert [states[uuid] for uuid in ids] == ["Stopped"] + ["Running"] * 3
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    client.call(UPDATE, id=web, virtualmachinecount=5)
    fleet.run()
    fleet.clear_faults()
    assert Counter(vm["state"] for vm in _members(client, web))["Error"] == 1
    for _ in range(2):
        _heal(fleet)
    assert Counter(vm["state"] for vm in _members(client, web)) == {"Running": 4, "Stopped": 1}
    fleet.assert_intact()


@pytest.mark.parametrize(("given", "shown"), [({}, (True, 300)), ({"healafter": 0}, (True, 0))])
def test_a_deployment_heals_from_its_first_call_on(
    fleet: Fleet, client: ApiClient, given: dict[str, int], shown: tuple[bool, int]
) -> None:
    """The deploy call itself turns healing on; VMs that are added later are deployed by the same record."""
    call = fleet.zone.bulk_parameters(1, nameprefix="web", managed=True, autoheal=True, **given)
    web = client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]["deploymentid"]
    assert _healing(client, web) == shown
    fleet.run()
    client.call(UPDATE, id=web, virtualmachinecount=2)
    fleet.run()
    assert (_sizes(client, web), _healing(client, web)) == ((2, 2), shown)
