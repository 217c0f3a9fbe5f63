"""The summary of a dry run of a bulk operation agrees with the whole dry run."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from bulkdeploy.commands.virtual_machines.bulk_operations import OPERATIONS
from bulkdeploy.provisioning.kinds.virtual_machines.reboot_virtual_machine import REBOOT
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.runs.statements import statements_of
from tests.support.zones.fleet import Fleet

NAMED = 40
PARAMETERS: Mapping[str, Mapping[str, object]] = {
    "bulkDestroyVirtualMachine": {"expunge": True},
    "bulkMigrateVirtualMachine": {},
    "bulkUpdateVirtualMachine": {"displayname": "{name}-{n}", "deleteprotection": True},
}


@pytest.fixture
def mixed(fleet: Fleet, client: ApiClient) -> Fleet:
    """VMs of two accounts that are running, stopped, destroyed, protected, at work or have snapshots."""
    fleet.deploy(6, account="acme", domain_id=fleet.id_of("domains", "acme"))
    fleet.deploy(6)
    fleet.run()
    running = [str(vm.uuid) for vm in fleet.vms()]
    for number in (0, 6):
        client.call("createVMSnapshot", virtualmachineid=running[number])
        client.call("bulkStopVirtualMachine", ids=running[number + 1])
        client.call("bulkDestroyVirtualMachine", ids=running[number + 2])
        client.call("updateVirtualMachine", id=running[number + 3], deleteprotection=True)
    fleet.run()
    fleet.make_job(REBOOT, fleet.vms()[4].id)
    return fleet


def _reasons(rows: list[Mapping[str, Any]]) -> Counter[tuple[int, str]]:
    reasons: Counter[tuple[int, str]] = Counter()
    for row in rows:
        text = row["errortext"].replace(row["virtualmachineid"], "").replace(row["name"], "")
        reasons[row["errorcode"], text] += row.get("count", 1)
    return reasons


@pytest.mark.parametrize("state", [None, "Destroyed"])
def test_a_summary_has_the_counts_and_reasons_of_the_whole_dry_run(
    mixed: Fleet, client: ApiClient, state: str | None
) -> None:
    """For each operation the VMs are counted by reason, whatever their owners and states; nothing is written."""
    (zone,) = client.call("listZones")["zone"]
    larger = client.call(
        "createServiceOffering", name="larger", displaytext="larger", cpunumber=2, cpuspeed=1000, memory=1024
    )["serviceoffering"]["id"]
    selected = {
        "zoneid": zone["id"],
        "listall": True,
        "dryrun": True,
        **({} if state is None else {"state": state}),
    }
    for operation in OPERATIONS:
        more = {**PARAMETERS.get(operation.name, {})}
        if operation.name == "bulkScaleVirtualMachine":
            more["serviceofferingid"] = larger
        whole = client.call(operation.name, **selected, **more)["bulkoperation"]
        short = client.call(operation.name, **selected, **more, summary=True)["bulkoperation"]
        assert short["count"] == whole["count"], operation.name
        assert short["failedcount"] == whole["failedcount"] == len(whole["failed"])
        assert _reasons(short["failed"]) == _reasons(whole["failed"])
        assert len(short["failed"]) == len(_reasons(whole["failed"]))
        names = [(vm["id"], vm["name"], vm["state"]) for vm in whole["virtualmachines"]]
        assert [(vm["id"], vm["name"], vm["state"]) for vm in short["virtualmachines"]] == names[:NAMED]
    assert mixed.zone.scalar("SELECT count(*) FROM async_jobs WHERE status = 0") == 1


def test_a_summary_is_of_dry_runs_only(mixed: Fleet, client: ApiClient) -> None:
    """A call that forgets ``dryrun`` is rejected and changes nothing, whatever it would do."""
    jobs = mixed.zone.scalar("SELECT count(*) FROM async_jobs")
    larger = client.call("listServiceOfferings")["serviceoffering"][0]["id"]
    for operation in OPERATIONS:
        more = {**PARAMETERS.get(operation.name, {})}
        if operation.name == "bulkScaleVirtualMachine":
            more["serviceofferingid"] = larger
        with pytest.raises(ApiFailure, match="'summary' parameter requires 'dryrun'"):
            client.call(operation.name, state="Running", listall=True, summary=True, **more)
    assert mixed.zone.scalar("SELECT count(*) FROM async_jobs") == jobs


def test_dry_runs_lock_nothing_and_read_no_row_for_each_vm(mixed: Fleet, client: ApiClient) -> None:
    """PostgreSQL counts the VMs; a VM that another transaction has locked does not hold up a dry run."""
    selected = {"keyword": "", "state": "Running", "listall": True, "dryrun": True}
    with mixed.engine.begin() as other:
        other.exec_driver_sql("SELECT FROM virtual_machines FOR UPDATE")
        assert client.call("bulkStopVirtualMachine", **selected)["bulkoperation"]["count"] == 8
        with statements_of(mixed.engine) as statements:
            summary = client.call("bulkStopVirtualMachine", **selected, summary=True)["bulkoperation"]
    assert summary["count"] == 8
    assert not [one for one in statements if "v.*" in one]
