"""One call for many VMs: selection, rights, all or none, progress and cancellation."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.provisioning.kinds.virtual_machines.expunge_virtual_machine import EXPUNGE
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP as STOP_KIND
from bulkdeploy.services.fleets.bulk_operations import BulkRequest, destruction, jobs_of_kind, run_bulk_operation
from bulkdeploy.services.fleets.bulk_updates import FleetUpdate, update_operation
from bulkdeploy.services.fleets.vm_selection import select_exactly
from bulkdeploy.services.virtual_machines.virtual_machine_migration import migrate_operation
from bulkdeploy.services.virtual_machines.virtual_machine_recovery import recover_operation
from bulkdeploy.services.virtual_machines.virtual_machine_restoring import restore_operation
from bulkdeploy.services.virtual_machines.virtual_machine_sizes import scale_operation
from bulkdeploy.services.virtual_machines.virtual_machine_starting import start_operation
from bulkdeploy.services.virtual_machines.vm_work import VmOperation
from bulkdeploy.store.infrastructure.hosts import NO_PLACES
from bulkdeploy.store.virtual_machines.virtual_machine_migration import begin_reserved
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.runs.statements import statements_of
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet

STOP = "bulkStopVirtualMachine"
LOCK_VM = text("SELECT FROM virtual_machines WHERE id = :id FOR UPDATE NOWAIT")


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
    selection = select_exactly([vm for vm in fleet.vms() if str(vm.uuid) in uuids])
    operation = jobs_of_kind(STOP_KIND, {"forced": False})
    request = BulkRequest(command=STOP, operation=operation, selection=selection)
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


def _job_states(fleet: Fleet, operation: str) -> Counter[str]:
    rows = fleet.zone.rows(
        "SELECT j.phase FROM async_jobs j JOIN bulk_operations o ON o.id = j.operation_id WHERE o.uuid = :id",
        id=operation,
    )
    return Counter(row.phase for row in rows)


def _offering(client: ApiClient, **sizes: object) -> str:
    made = client.call("createServiceOffering", name="other", displaytext="other", **sizes)
    return str(made["serviceoffering"]["id"])


def test_destroyed_vms_are_recovered_at_once(fleet: Fleet, client: ApiClient, web: str) -> None:
    """The VMs are Stopped and count again when the call is answered; their jobs have succeeded by then.

    A limit that the VMs would pass together rejects the call, and changes nothing.
    """
    client.call("bulkDestroyVirtualMachine", deploymentid=web)
    fleet.run()
    assert _states(fleet) == {"Destroyed": 4, "Running": 1}
    acme = {
        "account": "acme",
        "domainid": client.call("listAccounts", name="acme", listall=True)["account"][0]["domainid"],
    }
    client.call("updateResourceLimit", resourcetype=0, max=3, **acme)
    assert refused(client, "bulkRecoverVirtualMachine", deploymentid=web).errorcode == 535
    fleet.assert_intact()
    client.call("updateResourceLimit", resourcetype=0, max=4, **acme)
    answer = client.call("bulkRecoverVirtualMachine", deploymentid=web, maxparallel=1, requesttoken="once")
    assert client.call("bulkRecoverVirtualMachine", deploymentid=web, maxparallel=1, requesttoken="once") == answer
    assert _states(fleet) == {"Stopped": 4, "Running": 1}
    assert _job_states(fleet, answer["operationid"]) == {"done": 4}
    result = client.call("queryAsyncJobResult", jobid=answer["asyncjobs"][0]["jobid"])
    assert (result["jobstatus"], result["jobresult"]["virtualmachine"]["state"]) == (1, "Stopped")
    assert client.call("listVirtualMachines", account="acme", domainid=acme["domainid"])["count"] == 4
    fleet.assert_intact()
    error = refused(client, "bulkRecoverVirtualMachine", ids=answer["asyncjobs"][0]["jobinstanceid"])
    assert "cannot recover it in state Stopped; its state must be Destroyed" in error.errortext


def test_recovered_vms_do_not_share_a_name(fleet: Fleet, client: ApiClient) -> None:
    """Of two destroyed VMs with one name only the older is recovered; with a live one of this name, none is."""
    zone, offering, template = (
        str(fleet.zone.scalar(f"SELECT uuid FROM {table} WHERE name = '{name}'"))
        for table, name in (("zones", "small"), ("service_offerings", "Small"), ("templates", "Debian 12"))
    )
    for _ in range(2):
        client.call(
            "deployVirtualMachine", zoneid=zone, serviceofferingid=offering, templateid=template, name="web"
        )
        fleet.run()
        client.call("bulkDestroyVirtualMachine", ids=str(fleet.vms()[-1].uuid))
        fleet.run()
    answer = client.call("bulkRecoverVirtualMachine", state="Destroyed", partial=True)
    (left,) = answer["failed"]
    assert (left["virtualmachineid"], answer["count"]) == (str(fleet.vms()[1].uuid), 1)
    assert "has its host name web by now" in left["errortext"]
    fleet.assert_intact()
    assert refused(client, "bulkRecoverVirtualMachine", state="Destroyed").errorcode == 431
    assert _states(fleet) == {"Stopped": 1, "Destroyed": 1}


def test_root_disks_are_made_anew_from_another_template(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Ids, names and addresses stay. A template that VMs cannot have rejects the call with the reason of each."""
    first = client.call("listVirtualMachines", listall=True)["virtualmachine"]
    other = fleet.zone.scalar("SELECT uuid FROM templates WHERE kind = 'template' AND name <> 'Debian 12' LIMIT 1")
    answer = client.call("bulkRestoreVirtualMachine", deploymentid=web, templateid=str(other), maxparallel=2)
    assert _job_states(fleet, answer["operationid"]) == {"queued": 2, "held": 2}
    for _ in range(3):
        fleet.run()
    after = client.call("listVirtualMachines", listall=True)["virtualmachine"]
    same = ("id", "name", "state")
    assert [[vm[name] for name in same] for vm in first] == [[vm[name] for name in same] for vm in after]
    assert [vm["nic"][0]["ipaddress"] for vm in first] == [vm["nic"][0]["ipaddress"] for vm in after]
    assert Counter(vm["templateid"] == str(other) for vm in after) == {True: 4, False: 1}
    fleet.assert_intact()
    fleet.zone.change("UPDATE template_zones SET ready = false")
    error = refused(client, "bulkRestoreVirtualMachine", deploymentid=web, templateid=str(other))
    assert "cannot restore 4 of 4" in error.errortext
    assert "is not ready in the VM's zone" in error.errortext


def test_stopped_vms_are_scaled_at_once_and_running_ones_by_jobs(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Counts follow both. Sizes that a running VM cannot have are its reason; a limit counts all VMs together."""
    client.call("updateConfiguration", name="enable.dynamic.scale.vm", value="true")
    fleet.zone.change("UPDATE templates SET dynamically_scalable = true")
    fleet.zone.change("UPDATE service_offerings SET dynamic_scaling = true")
    first, *_ = _uuids(fleet)
    client.call(STOP, ids=first)
    fleet.run()
    larger = _offering(client, cpunumber=2, cpuspeed=1000, memory=1024, dynamicscalingenabled=True)
    plan = client.call("bulkScaleVirtualMachine", deploymentid=web, serviceofferingid=larger, dryrun=True)
    assert plan["bulkoperation"]["count"] == 4
    answer = client.call("bulkScaleVirtualMachine", deploymentid=web, serviceofferingid=larger)
    assert _job_states(fleet, answer["operationid"]) == {"done": 1, "queued": 3}
    fleet.run()
    (row,) = client.call("listBulkOperations", id=answer["operationid"], listall=True)["bulkoperation"]
    assert (row["state"], row["succeeded"]) == ("Completed", 4)
    assert {(vm.cpu_number, vm.memory_mib) for vm in fleet.vms()[:4]} == {(2, 1024)}
    fleet.assert_intact()
    smaller = str(fleet.zone.scalar("SELECT uuid FROM service_offerings WHERE name = 'Small'"))
    answer = client.call("bulkScaleVirtualMachine", deploymentid=web, serviceofferingid=smaller, partial=True)
    assert (answer["count"], {row["errorcode"] for row in answer["failed"]}) == (1, {431})
    assert "is only scaled up" in answer["failed"][0]["errortext"]
    fleet.assert_intact()


def test_running_vms_move_off_and_onto_places_by_one_plan(fleet: Fleet, client: ApiClient, web: str) -> None:
    """A dry run names the hosts; each VM gets an allowed one. VMs without one are named. Users may not move VMs."""
    hosts = {host["id"]: host["clusterid"] for host in client.call("listHosts", type="Routing")["host"]}
    left = {vm["hostid"] for vm in client.call("listVirtualMachines", listall=True)["virtualmachine"]}
    allowed = set(hosts) - left
    places = {"toclusterids": ",".join(set(hosts.values())), "offhostids": ",".join(left)}
    plan = client.call("bulkMigrateVirtualMachine", deploymentid=web, dryrun=True, **places)["bulkoperation"]
    planned = {vm["id"]: vm["hostid"] for vm in plan["virtualmachines"]}
    assert len(planned) == 4
    assert set(planned.values()) <= allowed
    answer = client.call("bulkMigrateVirtualMachine", deploymentid=web, maxparallel=2, **places)
    for _ in planned:
        fleet.run()
    (row,) = client.call("listBulkOperations", id=answer["operationid"], listall=True)["bulkoperation"]
    assert (row["state"], row["succeeded"], row["failed"]) == ("Completed", 4, 0)
    listed = client.call("listVirtualMachines", listall=True)["virtualmachine"]
    assert {vm["hostid"] for vm in listed if vm["id"] in planned} <= allowed
    fleet.assert_intact()
    every = ",".join(set(hosts.values()))
    error = refused(client, "bulkMigrateVirtualMachine", state="Running", listall=True, offclusterids=every)
    assert "cannot migrate 5 of 5" in error.errortext
    assert "no host has capacity for it" in error.errortext
    assert refused(ApiClient(client.url, *ACME), "bulkMigrateVirtualMachine", state="Running").status in (401, 432)


def test_a_host_is_emptied_without_breaking_anti_affinity(fleet: Fleet, client: ApiClient) -> None:
    """VMs of one group never get the host of another one, also not of one that moves at the same time."""
    client.call("createAffinityGroup", name="web apart", type="host anti-affinity")
    fleet.deploy(4, affinity_group_ids=(fleet.id_of("affinity_groups", "web apart"),))
    fleet.run()
    answer = client.call("bulkMigrateVirtualMachine", state="Running")
    fleet.run()
    (row,) = client.call("listBulkOperations", id=answer["operationid"])["bulkoperation"]
    assert (row["succeeded"], row["failed"]) == (4, 0)
    assert len({vm.host_id for vm in fleet.vms()}) == 4
    fleet.assert_intact()


def test_stopped_vms_start_on_hosts_that_are_planned_together(fleet: Fleet, client: ApiClient, web: str) -> None:
    """The plan spreads the VMs as a bulk deployment does, and each starts on its host of the plan."""
    del web
    client.call(STOP, state="Running", listall=True)
    fleet.run()
    plan = client.call("bulkStartVirtualMachine", state="Stopped", listall=True, dryrun=True)
    planned = {vm["id"]: vm["hostid"] for vm in plan["bulkoperation"]["virtualmachines"]}
    assert len(set(planned.values())) == 5
    client.call("bulkStartVirtualMachine", state="Stopped", listall=True)
    fleet.run()
    listed = client.call("listVirtualMachines", listall=True)["virtualmachine"]
    started = {vm["id"]: vm["hostid"] for vm in listed}
    clusters = {host["id"]: host["clusterid"] for host in client.call("listHosts", type="Routing")["host"]}
    assert sorted(Counter(map(clusters.get, started.values())).values()) == sorted(
        Counter(map(clusters.get, planned.values())).values()
    )
    fleet.assert_intact()
    client.call(STOP, state="Running", listall=True)
    fleet.run()
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled'")
    error = refused(client, "bulkStartVirtualMachine", state="Stopped", listall=True)
    assert "cannot start 5 of 5" in error.errortext
    assert "no host has capacity for it" in error.errortext


def test_moves_that_begin_together_lock_their_vms_in_the_order_of_ids(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """Moves that wait for the first VM hold no later one, so that no other call for many VMs waits crosswise."""
    client.call("bulkMigrateVirtualMachine", deploymentid=web)
    moves = fleet.zone.rows(
        "SELECT v.id, v.uuid AS vm, j.uuid AS job FROM virtual_machines v JOIN async_jobs j ON j.instance_id = v.id"
        " AND j.status = 0 JOIN host_claims x ON x.consumer = j.uuid ORDER BY v.id DESC"
    )
    migrations = {move.vm: move.job for move in moves}

    def begin() -> set[UUID]:
        with fleet.engine.begin() as connection:
            return begin_reserved(connection, migrations)

    with ThreadPoolExecutor(1) as threads:
        with fleet.engine.begin() as other:
            other.execute(LOCK_VM, {"id": moves[-1].id})
            begun = threads.submit(begin)
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            wait_for(lambda: fleet.zone.scalar(f"{waiting} AND wait_event_type = 'Lock'") == 1)
            for move in moves[:-1]:
                other.execute(LOCK_VM, {"id": move.id})
        assert begun.result() == set(migrations)


def _claims(fleet: Fleet) -> Counter[int]:
    """The host claims by kind: 0 of VMs, 1 of migrations, 2 of migrations that have not begun."""
    return Counter(row.consumer_kind for row in fleet.zone.rows("SELECT consumer_kind FROM host_claims"))


def test_hosts_are_claimed_with_the_call_and_given_back_by_jobs_that_never_begin(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """Other calls do not get the hosts of queued starts and moves; a cancelled operation leaves nothing claimed.

    A move whose host is disabled before it begins fails, and one whose VM stops meanwhile, and both give it back.
    """
    moving = client.call("bulkMigrateVirtualMachine", deploymentid=web)
    assert _claims(fleet) == {0: 5, 2: 4}
    fleet.assert_intact()
    client.call("cancelBulkOperation", id=moving["operationid"])
    fleet.run()
    assert (_claims(fleet), _states(fleet)) == ({0: 5}, {"Running": 5})
    fleet.assert_intact()
    client.call("bulkMigrateVirtualMachine", deploymentid=web)
    fleet.zone.change(
        "UPDATE hosts SET resource_state = 'Disabled' WHERE id IN (SELECT host_id FROM host_claims WHERE"
        " consumer_kind = 2 ORDER BY host_id LIMIT 1)"
    )
    stopped = fleet.zone.scalar(
        "SELECT j.instance_id FROM host_claims x JOIN async_jobs j ON j.uuid = x.consumer"
        " ORDER BY x.host_id DESC LIMIT 1"
    )
    fleet.zone.change(f"UPDATE virtual_machines SET state = 'Unknown' WHERE id = {stopped}")
    fleet.run()
    assert (_claims(fleet), _states(fleet)) == ({0: 5}, {"Running": 4, "Unknown": 1})
    fleet.zone.change("UPDATE virtual_machines SET state = 'Running'")
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    fleet.assert_intact()
    client.call(STOP, deploymentid=web)
    fleet.run()
    starting = client.call("bulkStartVirtualMachine", deploymentid=web, maxparallel=1)
    assert _claims(fleet) == {0: 5}
    fleet.assert_intact()
    client.call("cancelBulkOperation", id=starting["operationid"])
    fleet.run()
    assert (_claims(fleet), _states(fleet)) == ({0: 1}, {"Running": 1, "Stopped": 4})
    fleet.assert_intact()


def test_a_partial_start_without_room_for_all_names_the_rest(fleet: Fleet, client: ApiClient, web: str) -> None:
    """VMs that fit start, and the answer names the others with the reason; without partial, nothing changes."""
    client.call(STOP, deploymentid=web)
    fleet.run()
    fleet.zone.change("UPDATE host_capacity SET vms_limit = vms_used")
    few = "SELECT id FROM hosts ORDER BY id LIMIT 3"
    fleet.zone.change(f"UPDATE host_capacity SET vms_limit = vms_used + 1 WHERE host_id IN ({few})")
    plan = client.call("bulkStartVirtualMachine", deploymentid=web, dryrun=True)["bulkoperation"]
    fits, left = plan["count"], len(plan["failed"])
    assert 0 < fits < fits + left == 4
    assert f"cannot start {left} of 4" in refused(client, "bulkStartVirtualMachine", deploymentid=web).errortext
    assert _claims(fleet) == {0: 1}
    answer = client.call("bulkStartVirtualMachine", deploymentid=web, partial=True)
    assert (answer["count"], {vm["errorcode"] for vm in answer["failed"]}) == (fits, {533})
    named = answer["failed"][0]
    assert "no host has capacity for it" in named["errortext"]
    error = refused(client, "bulkStartVirtualMachine", ids=named["virtualmachineid"])
    assert "cannot start 1 of 1" in error.errortext
    fleet.run()
    assert _states(fleet) == {"Running": fits + 1, "Stopped": left}
    fleet.assert_intact()


def test_many_vms_are_updated_at_once(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Names follow the pattern by the age of the VMs, tags of other keys stay, details replace each other."""
    uuids = _uuids(fleet)
    for key, value in (("a", "old"), ("b", "1")):
        tag = {"tags[0].key": key, "tags[0].value": value}
        client.call("createTags", resourcetype="UserVm", resourceids=uuids[0], **tag)
    answer = client.call(
        "bulkUpdateVirtualMachine",
        deploymentid=web,
        displayname="web {n} ({name})",
        deleteprotection=True,
        **{"settags[0].key": "a", "settags[0].value": "new", "details[0].note": "x"},
    )
    assert answer["count"] == 4
    listed = {
        vm["id"]: vm for vm in client.call("listVirtualMachines", listall=True, details="all")["virtualmachine"]
    }
    for number, uuid in enumerate(uuids[:4], start=1):
        vm = listed[uuid]
        assert vm["displayname"] == f"web {number} ({vm['name']})"
        assert vm["deleteprotection"]
        assert vm["details"]["note"] == "x"
        assert {tag["key"]: tag["value"] for tag in vm["tags"]} == (
            {"a": "new", "b": "1"} if number == 1 else {"a": "new"}
        )
    assert not listed[uuids[4]]["deleteprotection"]
    assert (
        "is unknown" in refused(client, "bulkUpdateVirtualMachine", deploymentid=web, displayname="x{y}").errortext
    )
    assert "at least one of" in refused(client, "bulkUpdateVirtualMachine", deploymentid=web).errortext
    assert (
        refused(client, "bulkUpdateVirtualMachine", deploymentid=web, **{"details[0].memory": "5"}).errorcode == 431
    )
    assert refused(client, "bulkDestroyVirtualMachine", deploymentid=web).errorcode == 431
    fleet.assert_intact()


def _operation(fleet: Fleet, name: str) -> VmOperation:
    offering = EntityRef(Entity.SERVICE_OFFERING, fleet.id_of("service_offerings", "Small"), UUID(int=0), "Small")
    operations: dict[str, Callable[[], VmOperation]] = {
        "start": start_operation,
        "stop": lambda: jobs_of_kind(STOP_KIND, {"forced": False}),
        "reboot": lambda: jobs_of_kind(REBOOT, {"forced": False}),
        "destroy": lambda: destruction(expunge=False),
        "expunge": lambda: jobs_of_kind(EXPUNGE, {}),
        "recover": recover_operation,
        "restore": lambda: restore_operation(None),
        "scale": lambda: scale_operation(offering, {}),
        "migrate": lambda: migrate_operation(NO_PLACES, NO_PLACES),
        "update": lambda: update_operation(FleetUpdate(display_name="{n}", details={"a": "b"}, tags={"a": "b"})),
    }
    return operations[name]()


@pytest.mark.usefixtures("web")
@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("start", "Stopped"),
        ("stop", "Running"),
        ("reboot", "Running"),
        ("destroy", "Running"),
        ("expunge", "Destroyed"),
        ("recover", "Destroyed"),
        ("restore", "Running"),
        ("scale", "Stopped"),
        ("migrate", "Running"),
        ("update", "Running"),
    ],
)
def test_no_operation_takes_more_statements_for_more_vms(
    fleet: Fleet, client: ApiClient, name: str, state: str
) -> None:
    """An operation on one VM of an affinity group and one on four of them take the same statements."""
    client.call("createAffinityGroup", name="web apart", type="non-strict host anti-affinity")
    fleet.deploy(5, affinity_group_ids=(fleet.id_of("affinity_groups", "web apart"),))
    fleet.run()
    own = [vm.uuid for vm in fleet.vms()[-5:]]
    command = {"Stopped": STOP, "Destroyed": "bulkDestroyVirtualMachine"}.get(state)
    if command is not None:
        client.call(command, ids=",".join(map(str, own)))
        fleet.run()
    counts = []
    for uuids in (own[:1], own[1:]):
        selection = select_exactly([vm for vm in fleet.vms() if vm.uuid in uuids])
        request = BulkRequest(command="x", operation=_operation(fleet, name), selection=selection)
        with statements_of(fleet.engine) as statements:
            done = fleet.change(run_bulk_operation, fleet.system, fleet.caller, request)
        assert not done.failed
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_vms_that_move_may_get_each_others_hosts_but_never_their_own(fleet: Fleet, client: ApiClient) -> None:
    """Two VMs exchange their hosts if no others are allowed; so do two and one, which no even spread allows."""
    rows = fleet.zone.rows("SELECT id, uuid, cluster_id FROM hosts ORDER BY cluster_id, id LIMIT 2")
    here, there = ((row.id, str(row.uuid)) for row in rows)
    call = fleet.zone.bulk_parameters(3)
    del call["virtualmachinecount"]
    for _ in range(3):
        client.call("deployVirtualMachine", hostid=here[1], **call)
    fleet.run()
    first, second, third = (str(vm.uuid) for vm in fleet.vms())

    def move(vms: str, to: str) -> list[int]:
        client.call("bulkMigrateVirtualMachine", ids=vms, tohostids=to)
        fleet.run()
        return [vm.host_id for vm in fleet.vms()]

    both = f"{here[1]},{there[1]}"
    assert move(second, there[1]) == [here[0], there[0], here[0]]
    assert move(f"{first},{second}", both) == [there[0], here[0], here[0]]
    assert move(f"{first},{second},{third}", both) == [here[0], there[0], there[0]]
    fleet.assert_intact()
