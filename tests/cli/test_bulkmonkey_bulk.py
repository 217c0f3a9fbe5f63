"""``bulkmonkey bulk``: many VMs with one call, from a dry run to the end of all jobs, on the real service."""

import json

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from bulkdeploy.wiring.scheduled_work import due_managed_deployments
from tests.cli.conftest import Monkey
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet

BULK = ("bulkdeploy", "virtualmachine", "zone=small", "serviceoffering=Small", "template=Debian 12")


@pytest.mark.long
@pytest.mark.usefixtures("worker")
def test_many_vms_are_stopped_started_and_destroyed(admin_monkey: Monkey, fleet: Fleet) -> None:
    """A dry run shows the VMs; without a terminal nothing is asked; exit statuses are those of batches."""
    assert admin_monkey(*BULK, "virtualmachinecount=4", "nameprefix=web", "-q").status == 0
    (deployment,) = fleet.zone.rows("SELECT uuid FROM deployments")
    chosen = ("virtualmachines", f"deployment={deployment.uuid}")
    plan = json.loads(admin_monkey("bulk", "stop", *chosen, "state=Running", "--dry-run").out)
    assert [vm["name"] for vm in plan["virtualmachine"]] == [f"web-{number}" for number in range(1, 5)]
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    stopped = admin_monkey("bulk", "stop", *chosen, "state=Running", "--yes", "-o", "table")
    assert stopped.status == 0
    assert "4 of 4 jobs succeeded" in stopped.out
    assert {vm.state for vm in fleet.vms()} == {"Stopped"}
    assert admin_monkey("bulk", "recover", *chosen).status == 1
    fleet.fault(Step.BOOT, FaultKind.PERMANENT)
    assert admin_monkey("bulk", "start", *chosen, "maxparallel=2").status == 3
    fleet.clear_faults()
    assert admin_monkey("bulk", "start", *chosen, "state=Stopped").status == 0
    assert admin_monkey("bulk", "destroy", *chosen, "--no-wait").status == 0
    assert admin_monkey("bulk", "paint", *chosen).status == 2
    assert admin_monkey("bulk", "stop", "virtualmachines", "colour=red").status == 2
    assert admin_monkey("bulk").status == 2


@pytest.mark.long
@pytest.mark.usefixtures("worker")
def test_vms_are_replaced_in_steps_and_the_replacement_is_resumed(admin_monkey: Monkey, fleet: Fleet) -> None:
    """A replacement pauses at its checkpoint and ends after a resumption; meanwhile another one is refused."""
    assert admin_monkey(*BULK, "virtualmachinecount=2", "nameprefix=web", "managed=true", "-q").status == 0
    (deployment,) = fleet.zone.rows("SELECT uuid FROM deployments")
    one = f"id={deployment.uuid}"
    assert admin_monkey("resume", "bulkoperation", one).status == 1
    replaced = admin_monkey("replace", "bulkdeployment", one, "method=Restore", "pauseafter=50")
    assert replaced.status == 0
    again = admin_monkey("replace", "bulkdeployment", one, "method=Restore")
    assert again.status == 1
    assert "a replacement of its virtual machines is in progress" in again.err
    _step_until(fleet, "Paused")
    shown = admin_monkey("list", "bulkdeployments", one, "filter=replacement").out
    (replacement,) = json.loads(shown)["bulkdeployment"][0]["replacement"]
    assert (replacement["state"], replacement["replaced"], replacement["count"]) == ("Paused", 1, 2)
    assert admin_monkey("resume", "bulkoperation", one).status == 0
    _step_until(fleet, "Completed")
    assert fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE kind = 'restore_virtual_machine'") == 2
    fleet.assert_intact()


def _step_until(fleet: Fleet, state: str) -> None:
    """Let the sweeper take steps, and the worker end their jobs, until the replacement is in a state."""

    def is_there() -> bool:
        fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
        due_managed_deployments(fleet.system).handle()
        return bool(fleet.zone.scalar("SELECT state FROM replacements") == state)

    wait_for(is_there)
