"""``bulkmonkey bulk``: many VMs with one call, from a dry run to the end of all jobs, on the real service."""

import json

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.cli.conftest import Monkey
from tests.support.zones.fleet import Fleet

BULK = ("bulkdeploy", "virtualmachine", "zone=small", "serviceoffering=Small", "template=Debian 12")


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
