"""A bulk call through bulkmonkey onto a live cluster, whose daemons die meanwhile: ``make test-ganeti``.

GANETI_VMS=50 for as many; a VM takes Ganeti seconds of CPU.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ganeti.live import gnt, kill_daemons, needs_cluster, start_daemons
from tests.ganeti.service import PATIENCE_OF_MANY_S, GanetiCloud, bulkmonkey, ganeti_cloud, instances, nodes
from tests.support.runs.waiting import say, wait_for

pytestmark = needs_cluster

VMS = int(os.environ.get("GANETI_VMS", "8"))
MASTER_DAEMONS = ("ganeti-wconfd", "ganeti-luxid", "ganeti-rapi")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[GanetiCloud]:
    """The service in front of the cluster, which is empty before and afterwards."""
    with ganeti_cloud(tmp_path, "diskless") as made:
        yield made
        made.destroy_all()


def restart(node: str, *daemons: str) -> None:
    """Kill daemons of a node at once, and start them again, until the master answers."""
    kill_daemons(node, *daemons)
    start_daemons(node, *daemons)


def test_daemons_may_die_during_a_bulk_call(cloud: GanetiCloud, tmp_path: Path) -> None:
    """A node's daemon, then the master's: in the end Ganeti runs the VMs that rows say run, each once and there."""
    zone = {"zone": "ganeti", "serviceoffering": "Tiny", "template": "noop", "virtualmachinecount": str(VMS)}
    words = ("bulkdeploy", "virtualmachine", *(f"{name}={value}" for name, value in zone.items()))
    monkey = bulkmonkey(cloud, tmp_path / "home", *words)
    wait_for(lambda: len(instances()) >= VMS // 4, "a quarter is there", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
    restart(nodes()[-1], "ganeti-noded")
    wait_for(lambda: len(instances()) >= VMS // 2, "half is there", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
    restart("node1", *MASTER_DAEMONS)
    printed, _ = monkey.communicate(timeout=PATIENCE_OF_MANY_S)
    wait_for(lambda: not unfinished(cloud), "all jobs have ended", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
    there = {name: node for name, (node, state) in instances().items() if state == "running"}
    rows = {f"{vm['id']}.bulkdeploy": vm["hostname"] for vm in cloud.vms()}
    say(f"{len(rows)} of {VMS} VMs run; bulkmonkey: {printed.splitlines()[-1:]}")
    assert there == rows
    assert set(instances()) == set(there)
    assert len(rows) == VMS
    cloud.service.run("audit")
    gnt("gnt-cluster", "verify-disks")


def unfinished(cloud: GanetiCloud) -> int:
    """Jobs of the latest deployment that have not ended."""
    (found,) = cloud.client.call("listBulkDeployments", listall="true")["bulkdeployment"]
    return int(found["queued"]) + int(found["running"])
