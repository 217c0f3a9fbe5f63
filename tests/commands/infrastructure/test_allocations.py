"""listAllocations and ``audit --explain``: who holds what, from the claim to its release."""

from typing import Any

import pytest

from bulkdeploy.manage.auditing.audit import explain
from bulkdeploy.provisioning.kinds.virtual_machines.migrate_virtual_machine import MIGRATE
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.zones.fleet import Fleet


def held(client: ApiClient, **filters: object) -> list[dict[str, Any]]:
    """The allocations there are."""
    rows: list[dict[str, Any]] = client.call("listAllocations", **filters).get("allocation", [])
    return rows


def test_each_claim_has_its_consumer(fleet: Fleet, client: ApiClient) -> None:
    """VMs hold hosts and volumes hold pools, by name and since when; every filter leaves what it says."""
    fleet.deploy(3)
    fleet.run()
    rows = held(client)
    assert {row["consumertype"] for row in rows} == {"VirtualMachine", "Volume"}
    assert len(rows) == 6
    vm = fleet.vms()[0]
    (of_vm,) = held(client, consumerid=str(vm.uuid))
    host = fleet.zone.scalar("SELECT uuid FROM hosts WHERE id = :id", id=vm.host_id)
    assert (of_vm["consumername"], of_vm["hostid"]) == (vm.name, str(host))
    assert (of_vm["cpu"], of_vm["memory"], "size" in of_vm) == (500, 512, False)
    volumes = held(client, consumertype="Volume")
    assert {row["size"] for row in volumes} == {2 * 1024**3}
    assert of_vm in held(client, hostid=str(host))
    assert held(client, storageid=volumes[0]["storageid"], consumertype="VirtualMachine") == []
    cluster = fleet.zone.scalar("SELECT uuid FROM clusters WHERE id = :id", id=vm.cluster_id)
    assert of_vm in held(client, clusterid=str(cluster), zoneid=fleet.zone.id_of("zones", "small"))
    assert held(client, consumerid="no such thing") == []
    count = client.call("listAllocations", page=1, pagesize=2)
    assert (count["count"], len(count["allocation"])) == (6, 2)


def test_a_migration_holds_what_its_vm_leaves(fleet: Fleet, client: ApiClient) -> None:
    """While a VM moves, the job's own allocation is the source, under the VM's name; then it is gone."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    job_id = fleet.make_job(MIGRATE, vm.id)
    seen: list[dict[str, Any]] = []

    class Watching:
        """The driver, looked at while it is called."""

        def driver_for(self, hypervisor: str) -> Any:
            """Note what is held."""
            del hypervisor
            seen.extend(held(client, consumertype="Migration"))
            return fleet.driver

    fleet.run(job_id, drivers=Watching())
    assert {(row["consumerid"], row["consumername"]) for row in seen} == {(str(fleet.job(job_id).uuid), vm.name)}
    assert held(client, consumertype="Migration") == []
    fleet.assert_intact()


def test_a_host_is_explained(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """By name or id: what it may promise, and who holds what; a host that is not there is refused by name."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    host = fleet.zone.rows("SELECT name, uuid FROM hosts WHERE id = :id", id=vm.host_id)[0]
    explain(fleet.settings, host.name, as_json=False)
    said = capsys.readouterr().out
    assert f"host {host.name} ({host.uuid})" in said
    assert f"VirtualMachine {vm.name} ({vm.uuid}): 500 MHz, 512 MiB since" in said
    explain(fleet.settings, str(host.uuid), as_json=True)
    assert str(vm.uuid) in capsys.readouterr().out
    with pytest.raises(Exception, match="no host 'nowhere'"):
        explain(fleet.settings, "nowhere", as_json=False)


def test_only_root_admins_see_them(fleet: Fleet, client: ApiClient) -> None:
    """They tell of everybody's VMs."""
    del fleet
    refused(ApiClient(client.url, *ACME), "listAllocations")
