"""A node of a live cluster dies and returns: its VMs run elsewhere, each once, and no old guest runs on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ganeti.live import gnt, guest_files, kill_daemons, needs_cluster, pid_file, set_offline, start_daemons
from tests.ganeti.service import PATIENCE_OF_MANY_S, GanetiCloud, ganeti_cloud, instances, nodes
from tests.support.power.host_ha import finish, ha_state, host_ha, host_named
from tests.support.power.redfish_servers import Server
from tests.support.runs.waiting import wait_for

pytestmark = needs_cluster

NODE_DAEMON = "ganeti-noded"
VMS = 4


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[GanetiCloud]:
    """The service in front of the cluster, which is empty before and afterwards."""
    if len(nodes()) < 3:
        pytest.skip("VMs that leave a node need others")
    with ganeti_cloud(tmp_path) as made:
        yield made
        made.destroy_all()


def where_guests_run() -> dict[str, list[str]]:
    """Return the nodes on which each instance has a guest, by name, as the hypervisor of each node has it."""
    found: dict[str, list[str]] = {}
    for node in nodes():
        for name in guest_files(node):
            found.setdefault(name, []).append(node)
    return found


@pytest.mark.parametrize("is_off", [True, False], ids=["dead", "cut_off"])
def test_vms_of_a_dead_node_run_elsewhere(cloud: GanetiCloud, is_off: bool) -> None:
    """Workers and sweepers die meanwhile. A node that was only cut off returns with guests, which end."""
    for job in cloud.deploy(VMS):
        cloud.result(job)
    rows = {f"{vm['id']}.bulkdeploy": vm["hostname"] for vm in cloud.vms()}
    dead = max(node for node in rows.values() if node != "node1")
    lost = {name.removesuffix(".bulkdeploy") for name, node in rows.items() if node == dead}
    kill_daemons(dead, NODE_DAEMON)
    if is_off:
        for path in guest_files(dead).values():
            path.unlink()
    set_offline(dead, offline=True)
    try:
        wait_for(lambda: host_named(cloud.client, dead)["state"] != "Up", "the host is not Up", pause_s=1)
        job = cloud.client.call("evacuateHost", id=host_named(cloud.client, dead)["id"], force=True)["jobid"]
        cloud.kill_programs("workers.app", "workers.sweeper")
        moved = cloud.result(job)["hostmigration"]
        assert ({vm["virtualmachineid"] for vm in moved["moved"]}, moved.get("failed", [])) == (lost, [])
        alive = {name: [node for node in on if node != dead] for name, on in where_guests_run().items()}
        assert alive == {name: [instances()[name][0]] for name in rows}
    finally:
        start_daemons(dead, NODE_DAEMON)
        set_offline(dead, offline=False)
        cloud.kill_programs("workers.sweeper")
    reconnect(cloud, dead)
    assert where_guests_run() == {f"{vm['id']}.bulkdeploy": [vm["hostname"]] for vm in cloud.vms()}
    assert len(cloud.vms()) == VMS
    cloud.service.run("audit")
    for job in cloud.deploy(len(nodes())):
        cloud.result(job)
    assert dead in {vm["hostname"] for vm in cloud.vms()}
    cloud.service.run("audit")


def switch_off(node: str) -> None:
    """Cut the power of a node: its daemon and all of its guests end."""
    if pid_file(node, NODE_DAEMON).exists():
        kill_daemons(node, NODE_DAEMON)
    for path in guest_files(node).values():
        path.unlink()


def server_of(node: str) -> Server:
    """Return a node as its controller has it: the power ends its programs, and the test starts them again."""
    return Server(switch=lambda on: None if on else switch_off(node))


def test_vms_of_a_node_with_host_ha_run_elsewhere_without_an_operator(cloud: GanetiCloud) -> None:
    """A node that dies is noticed, switched off and set offline in Ganeti; then its VMs start on other nodes."""
    for job in cloud.deploy(VMS):
        cloud.result(job)
    for vm in cloud.vms():
        cloud.client.call("updateVirtualMachine", id=vm["id"], haenable=True)
    rows = {f"{vm['id']}.bulkdeploy": vm["hostname"] for vm in cloud.vms()}
    dead = max(node for node in rows.values() if node != "node1")
    with host_ha(cloud.client, {node: server_of(node) for node in nodes()}):
        kill_daemons(dead, NODE_DAEMON)  # its guests run on until its controller switches it off
        wait_for(lambda: ha_state(cloud.client, dead) == "Fenced", "the node is fenced", pause_s=1)
        wait_for(
            lambda: len(cloud.vms()) == VMS and dead not in {vm["hostname"] for vm in cloud.vms()},
            "the VMs run elsewhere",
            pause_s=1,
            patience_s=PATIENCE_OF_MANY_S,
        )
        assert where_guests_run() == {f"{vm['id']}.bulkdeploy": [vm["hostname"]] for vm in cloud.vms()}
        assert gnt("gnt-node", "list", "--no-headers", "-o", "offline", dead).strip() == "Y"
        host = host_named(cloud.client, dead)["id"]
        finish(cloud.client, "issueOutOfBandManagementPowerAction", hostid=host, action="ON")
        start_daemons(dead, NODE_DAEMON)
        set_offline(dead, offline=False)
        reconnect(cloud, dead)
        finish(cloud.client, "cancelHostMaintenance", id=host)
    cloud.service.run("audit")


def reconnect(cloud: GanetiCloud, name: str) -> None:
    """Reconnect a host until the call succeeds, and wait until the host is Up."""
    host = host_named(cloud.client, name)["id"]

    def is_taken_back() -> bool:
        return cloud.client.get("reconnectHost", id=host).status == 200

    wait_for(is_taken_back, "the host is taken back", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
    wait_for(lambda: bool(host_named(cloud.client, name)["state"] == "Up"), "the host is Up", pause_s=1)
