"""One call for many VMs: selection, rights, all or none, progress and cancellation."""

from collections import Counter
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.provisioning.kinds.stop_virtual_machine import STOP as STOP_KIND
from bulkdeploy.services.virtual_machines.bulk_operations import BulkRequest, VmSelection, run_bulk_operation
from bulkdeploy.store.visibility import Visibility
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.runs.statements import statements_of
from tests.support.zones.fleet import Fleet

STOP = "bulkStopVirtualMachine"


@pytest.fixture
def acme(api_url: str, fleet: Fleet) -> ApiClient:
    """A plain user's client."""
    del fleet
    return ApiClient(api_url, *ACME)


@pytest.fixture
def web(fleet: Fleet) -> str:
    """A deployment of four running VMs of account acme; its id. One more VM runs beside it."""
    deployed = fleet.deploy(4, account="acme", domain_id=fleet.id_of("domains", "acme"))
    fleet.deploy(1)
    fleet.run()
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    return str(deployed.uuid)


def _states(fleet: Fleet) -> Counter[str]:
    return Counter(vm.state for vm in fleet.vms())


def _stop(connection: Connection, fleet: Fleet, uuids: Sequence[str]) -> None:
    ids = tuple(
        EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name) for vm in fleet.vms() if str(vm.uuid) in uuids
    )
    selection = VmSelection(filters={"ids": ids}, visible=Visibility())
    request = BulkRequest(command=STOP, kind=STOP_KIND, selection=selection, params={"forced": False})
    run_bulk_operation(connection, fleet.system, fleet.caller, request)


def _uuids(fleet: Fleet) -> list[str]:
    return [str(vm.uuid) for vm in fleet.vms()]


def test_a_deployment_is_stopped_started_and_destroyed_by_three_calls(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """Each call answers one job per VM at once; the VM beside the deployment is not touched."""
    for command, more, state in (
        (STOP, {}, "Stopped"),
        ("bulkStartVirtualMachine", {}, "Running"),
        ("bulkRebootVirtualMachine", {"forced": True}, "Running"),
        ("bulkDestroyVirtualMachine", {}, "Destroyed"),
        ("bulkExpungeVirtualMachine", {}, "Expunging"),
    ):
        answer = client.call(command, deploymentid=web, expectedcount=4, **more)
        assert answer["count"] == len({job["jobid"] for job in answer["asyncjobs"]}) == 4
        assert answer["failed"] == []
        fleet.run()
        (row,) = client.call("listBulkOperations", id=answer["operationid"], listall=True)["bulkoperation"]
        assert (row["operation"], row["state"], row["succeeded"], row["count"]) == (command, "Completed", 4, 4)
        assert [vm.state for vm in fleet.vms()] == [state] * 4 + ["Running"]
        fleet.assert_intact()
    listed = client.call("listBulkOperations", listall=True)["bulkoperation"]
    assert [row["operation"] for row in listed][-2:] == ["bulkDeployVirtualMachine"] * 2
    assert len(listed) == 7


def test_filters_ids_and_exclusions_combine(fleet: Fleet, client: ApiClient, web: str) -> None:
    """A dry run answers the selected VMs and changes nothing; a wrong expected count rejects the call."""
    del web
    first, second, *_, other = _uuids(fleet)
    plan = client.call(STOP, ids=f"{first},{second},{other}", excludeids=second, state="Running", dryrun=True)
    assert [vm["id"] for vm in plan["bulkoperation"]["virtualmachines"]] == [first, other]
    (zone,) = client.call("listZones")["zone"]
    assert client.call(STOP, zoneid=zone["id"], dryrun=True)["bulkoperation"]["count"] == 1
    assert client.call(STOP, zoneid=zone["id"], listall=True, dryrun=True)["bulkoperation"]["count"] == 5
    error = refused(client, STOP, zoneid=zone["id"], listall=True, expectedcount=4)
    assert "expectedcount: 5 virtual machines are selected" in error.errortext
    assert "must select" in refused(client, STOP, listall=True).errortext
    assert "no virtual machine is selected" in refused(client, STOP, state="Stopped").errortext
    assert fleet.zone.scalar("SELECT count(*) FROM bulk_operations") == 0
    assert _states(fleet) == {"Running": 5}


def test_one_vm_that_cannot_be_processed_rejects_the_call_unless_it_is_partial(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """The error names the VM with its reason; a partial call processes the others and answers the VM as failed."""
    vm = fleet.vms()[0]
    client.call("updateVirtualMachine", id=str(vm.uuid), deleteprotection=True)
    error = refused(client, "bulkDestroyVirtualMachine", deploymentid=web)
    assert error.errorcode == 431
    assert f"1 of 4 virtual machines (partial=true processes the others): {vm.name} ({vm.uuid}):" in error.errortext
    assert "has delete protection enabled" in error.errortext
    assert fleet.zone.scalar("SELECT count(*) FROM bulk_operations") == 0
    answer = client.call("bulkDestroyVirtualMachine", deploymentid=web, partial=True, expunge=True)
    assert (answer["count"], [row["virtualmachineid"] for row in answer["failed"]]) == (3, [str(vm.uuid)])
    assert answer["failed"][0]["errorcode"] == 431
    fleet.run()
    assert fleet.vms()[0].state == "Running"
    fleet.assert_intact()
    error = refused(client, "bulkDestroyVirtualMachine", ids=str(vm.uuid), partial=True)
    assert "cannot destroy 1 of 1 virtual machines:" in error.errortext


def test_a_user_operates_on_own_vms_only(fleet: Fleet, acme: ApiClient, web: str) -> None:
    """Filters select what the user may see; ids of others are unknown; force needs the operator's permission."""
    *_, other = _uuids(fleet)
    assert "entity does not exist" in refused(acme, STOP, ids=other).errortext
    answer = acme.call(STOP, state="Running")
    assert answer["count"] == 4
    fleet.run()
    assert [vm.state for vm in fleet.vms()] == ["Stopped"] * 4 + ["Running"]
    assert refused(acme, "bulkDestroyVirtualMachine", deploymentid=web, expunge=True).errorcode == 531
    (row,) = acme.call("listBulkOperations", operation=STOP)["bulkoperation"]
    assert row["id"] == answer["operationid"]


def test_a_token_answers_the_same_jobs_again(fleet: Fleet, client: ApiClient, web: str) -> None:
    """A repeated call makes no jobs; the same token with another call is rejected."""
    first = client.call(STOP, deploymentid=web, requesttoken="a")
    assert client.call(STOP, deploymentid=web, requesttoken="a") == first
    assert fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE operation_id IS NOT NULL") == 4
    error = refused(client, STOP, deploymentid=web, forced=True, requesttoken="a")
    assert "used before with other parameters" in error.errortext


def test_cancelling_stops_exactly_the_queued_jobs(fleet: Fleet, client: ApiClient, web: str) -> None:
    """The VMs of cancelled jobs stay as they are. A deployment is cancelled by the same command."""
    operation = client.call(STOP, deploymentid=web)["operationid"]
    jobs = [job.id for job in fleet.jobs() if job.operation_id]
    fleet.run(jobs[0])
    row = client.call("cancelBulkOperation", id=operation)["bulkoperation"]
    assert (row["state"], row["queued"], row["succeeded"]) == ("Cancelled", 3, 1)
    fleet.run()
    assert _states(fleet) == {"Stopped": 1, "Running": 4}
    (row,) = client.call("listBulkOperations", id=operation, listall=True)["bulkoperation"]
    assert (row["failed"], row["queued"]) == (3, 0)
    assert all("cancelled before it began" in failure["errortext"] for failure in row["failures"])
    assert "was cancelled before" in refused(client, "cancelBulkOperation", id=operation).errortext
    deployed = fleet.deploy(2)
    row = client.call("cancelBulkOperation", id=str(deployed.uuid))["bulkoperation"]
    assert (row["operation"], row["queued"]) == ("bulkDeployVirtualMachine", 2)
    fleet.run()
    fleet.assert_intact()


@pytest.mark.usefixtures("web")
def test_the_number_of_statements_does_not_depend_on_the_number_of_vms(fleet: Fleet) -> None:
    """A call for one VM and a call for four take the same statements."""
    single, *many = _uuids(fleet)
    counts = []
    for ids in (many[3:], [single, *many[:3]]):
        with statements_of(fleet.engine) as statements:
            fleet.change(_stop, fleet, ids)
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_no_more_jobs_than_maxparallel_are_under_way(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Each job that ends, whatever its end, lets one more begin; a sweeper releases what an end did not."""
    operation = client.call(STOP, deploymentid=web, maxparallel=2)["operationid"]
    seen = []
    while unfinished := [job for job in fleet.jobs() if job.operation_id and job.status == 0]:
        sent = [job for job in unfinished if job.phase != "held"]
        seen.append((len(sent), len(unfinished)))
        fleet.run(sent[0].id)
    assert seen == [(2, 4), (2, 3), (2, 2), (1, 1)]
    (row,) = client.call("listBulkOperations", id=operation, listall=True)["bulkoperation"]
    assert (row["state"], row["succeeded"], row["maxparallel"]) == ("Completed", 4, 2)
    fleet.assert_intact()
    client.call("bulkStartVirtualMachine", deploymentid=web, maxparallel=1)
    fleet.zone.change("UPDATE async_jobs SET phase = 'held' WHERE status = 0")  # the end of a job that nobody saw
    fleet.sweeper().requeue_throttled()
    assert [job.phase for job in fleet.jobs() if job.status == 0] == ["queued", "held", "held", "held"]
    assert client.call("cancelBulkOperation", id=client.call("listBulkOperations")["bulkoperation"][0]["id"])
    fleet.run()
    assert [job.status for job in fleet.jobs()][-4:] == [2, 2, 2, 2]
    fleet.assert_intact()


@pytest.mark.parametrize(("given", "failing", "begun"), [("0", 1, 1), ("25%", 2, 2), ("1", 1, 4), (None, 4, 4)])
def test_too_many_failures_cancel_the_jobs_that_have_not_begun(
    fleet: Fleet, client: ApiClient, web: str, given: str | None, failing: int, begun: int
) -> None:
    """The VMs of cancelled jobs stay as they are, and their jobs name the reason."""
    fleet.fault(Step.STOP, FaultKind.PERMANENT, remaining=failing)
    more = {} if given is None else {"maxfailures": given}
    operation = client.call(STOP, deploymentid=web, maxparallel=1, **more)["operationid"]
    while sent := [job.id for job in fleet.jobs() if job.operation_id and job.status == 0 and job.phase != "held"]:
        fleet.run(sent[0])
    (row,) = client.call("listBulkOperations", id=operation, listall=True)["bulkoperation"]
    assert (row["succeeded"], row["failed"]) == (begun - failing, 4 - begun + failing)
    assert row["state"] == ("Completed" if begun == 4 else "Cancelled")
    cancelled = [failure for failure in row["failures"] if "cancelled before it began" in failure["errortext"]]
    assert len(cancelled) == 4 - begun
    fleet.assert_intact()


@pytest.mark.parametrize("given", ["x", "101%", "-1", "%", "1.5", "٣"])
def test_malformed_limits_of_failures_are_refused(fleet: Fleet, client: ApiClient, web: str, given: str) -> None:
    """The error names the parameter, and nothing is written."""
    assert "maxfailures" in refused(client, STOP, deploymentid=web, maxfailures=given).errortext
    assert fleet.zone.scalar("SELECT count(*) FROM bulk_operations") == 0
