"""migrateVirtualMachine and findHostsForMigration as clients call them."""

import pytest
from sqlalchemy import text

from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.zones.fleet import Fleet


@pytest.fixture
def running(fleet: Fleet) -> Fleet:
    """A fleet with one running VM of account acme."""
    fleet.deploy(1, account="acme", domain_id=fleet.id_of("domains", "acme"), cluster="a-1")
    fleet.run()
    return fleet


def _vm(fleet: Fleet) -> str:
    return str(fleet.vms()[0].uuid)


def test_a_vm_moves_to_a_host_that_was_found(running: Fleet, client: ApiClient) -> None:
    """Hosts of the VM's cluster are offered, its own is not; moved to one, the job's result is the VM there."""
    there = client.call("listVirtualMachines", id=_vm(running))["virtualmachine"][0]["hostname"]
    running.zone.change("UPDATE hosts SET state = 'Down' WHERE name = (SELECT max(name) FROM hosts"
                        " WHERE cluster_id = :cluster AND name <> :name)",
                        cluster=running.vms()[0].cluster_id, name=there)  # fmt: skip
    found = client.call("findHostsForMigration", virtualmachineid=_vm(running))
    suitable = {host["name"]: host["suitableformigration"] for host in found["host"]}
    assert set(suitable) == {"a-1-1", "a-1-2", "a-1-3"} - {there}
    assert sorted(suitable.values()) == [False, True]
    (wanted,) = [host["id"] for host in found["host"] if host["suitableformigration"]]
    job_id = client.call("migrateVirtualMachine", virtualmachineid=_vm(running), hostid=wanted)["jobid"]
    running.run()
    job = client.call("queryAsyncJobResult", jobid=job_id)
    vm = job["jobresult"]["virtualmachine"]
    assert (job["jobstatus"], vm["hostid"], vm["state"]) == (1, wanted, "Running")
    assert job["cmd"].endswith("MigrateVMCmd")
    events = client.call("listEvents", type="VM.MIGRATE", listall=True)["event"]
    assert [event["state"] for event in events] == ["Completed", "Started", "Scheduled"]
    running.assert_intact()


def test_finding_hosts_does_not_wait_for_changes_of_the_vm(running: Fleet, client: ApiClient) -> None:
    """A list locks no VM: whoever does so and then wants its affinity groups would wait crosswise for movers."""
    with running.engine.begin() as connection:
        connection.execute(text("SELECT FROM virtual_machines FOR UPDATE"))
        assert client.call("findHostsForMigration", virtualmachineid=_vm(running))["count"] == 2


@pytest.mark.parametrize("host", ["its own", "Down", "disabled", "removed"])
def test_hosts_that_cannot_take_it_are_refused(running: Fleet, client: ApiClient, host: str) -> None:
    """The host it is on, and hosts that are not Up and Enabled: 431, and no job is made."""
    vm = running.vms()[0]
    chosen = running.zone.scalar(
        "SELECT uuid FROM hosts WHERE cluster_id = :cluster AND (id = :host) = :own ORDER BY id LIMIT 1",
        cluster=vm.cluster_id,
        host=vm.host_id,
        own=host == "its own",
    )
    changes = {"Down": "state = 'Down'", "disabled": "resource_state = 'Disabled'", "removed": "removed = now()"}
    if host in changes:
        running.zone.change(f"UPDATE hosts SET {changes[host]} WHERE uuid = :uuid", uuid=chosen)
    failure = refused(client, "migrateVirtualMachine", virtualmachineid=_vm(running), hostid=str(chosen))
    assert (failure.status, "hostid" in failure.errortext) == (431, True)
    assert len(running.jobs()) == 1


def test_where_to_must_be_said(running: Fleet, client: ApiClient) -> None:
    """No host and autoselect=false is 431; without both, placement chooses."""
    assert refused(client, "migrateVirtualMachine", virtualmachineid=_vm(running), autoselect=False).status == 431
    assert set(client.call("migrateVirtualMachine", virtualmachineid=_vm(running))) == {"jobid"}


@pytest.mark.parametrize("command", ["migrateVirtualMachine", "findHostsForMigration"])
def test_only_running_vms_move(running: Fleet, client: ApiClient, command: str) -> None:
    """A stopped VM is refused, in the name of the parameter that named it."""
    client.call("stopVirtualMachine", id=_vm(running))
    running.run()
    more = {"autoselect": True} if command == "migrateVirtualMachine" else {}
    failure = refused(client, command, virtualmachineid=_vm(running), **more)
    assert (failure.status, "virtualmachineid" in failure.errortext) == (431, True)
    assert "Running" in failure.errortext


@pytest.mark.parametrize("command", ["migrateVirtualMachine", "findHostsForMigration"])
@pytest.mark.parametrize("keys", [ACME, CUSTOMERS_ADMIN])
def test_only_root_admins_move_vms(running: Fleet, api_url: str, command: str, keys: tuple[str, str]) -> None:
    """For everybody else the commands do not exist."""
    assert refused(ApiClient(api_url, *keys), command, virtualmachineid=_vm(running)).status == 432
