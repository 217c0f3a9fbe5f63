"""A node of a live cluster dies and returns: its VMs run elsewhere, each once, and no old guest runs on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ganeti.live import gnt, guest_files, kill_daemons, needs_cluster, pid_file, set_offline, start_daemons
from tests.ganeti.service import PATIENCE_OF_MANY_S, GanetiCloud, ganeti_cloud, instances, nodes
from tests.support.power.redfish_servers import PASSWORD, USER, Server, redfish
from tests.support.runs.waiting import wait_for

pytestmark = needs_cluster

NODE_DAEMON = "ganeti-noded"
VMS = 4
QUICK = {
    "host.down.wait": 5,
    "host.up.wait": 1,
    "kvm.ha.activity.check.interval": 3,
    "kvm.ha.activity.check.max.attempts": 2,
    "kvm.ha.recover.failure.threshold": 0,
}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[GanetiCloud]:
    """The service in front of the cluster, which is empty before and afterwards."""
    if len(nodes()) < 3:
        pytest.skip("VMs that leave a node need others")
    with ganeti_cloud(tmp_path) as made:
        yield made
        made.destroy_all()


def host_named(cloud: GanetiCloud, name: str) -> dict[str, Any]:
    """Return a host as the API lists it."""
    (found,) = cloud.client.call("listHosts", name=name, type="Routing")["host"]
    return dict(found)


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
        wait_for(lambda: host_named(cloud, dead)["state"] != "Up", "the host is not Up", pause_s=1)
        job = cloud.client.call("evacuateHost", id=host_named(cloud, dead)["id"], force=True)["jobid"]
        cloud.kill_programs("workers.app", "workers.sweeper")
        moved = cloud.result(job)["hostmigration"]
        assert ({vm["virtualmachineid"] for vm in moved["moved"]}, moved.get("failed", [])) == (lost, [])
        alive = {name: [node for node in on if node != dead] for name, on in where_guests_run().items()}
        assert alive == {name: [instances()[name][0]] for name in rows}
    finally:
        start_daemons(dead, NODE_DAEMON)
        set_offline(dead, offline=False)
        cloud.kill_programs("workers.sweeper")
    take_back(cloud, dead)
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


@contextmanager
def host_ha(cloud: GanetiCloud) -> Iterator[None]:
    """All nodes have host HA and a controller that switches them, for a while."""
    for name, value in QUICK.items():
        cloud.client.call("updateConfiguration", name=name, value=value)

    def server(node: str) -> Server:
        return Server(switch=lambda on: start_daemons(node, NODE_DAEMON) if on else switch_off(node))

    hosts = cloud.client.call("listHosts", type="Routing")["host"]
    with redfish({node: server(node) for node in nodes()}) as port:
        login = {"driver": "redfish", "username": USER, "password": PASSWORD, "port": port}
        for host in hosts:
            address = f"127.0.0.1/{host['name']}"
            cloud.client.call("configureOutOfBandManagement", hostid=host["id"], address=address, **login)
            cloud.result(cloud.client.call("enableOutOfBandManagementForHost", hostid=host["id"])["jobid"])
            given = {"hostid": host["id"], "provider": "kvmhaprovider"}
            cloud.result(cloud.client.call("configureHAForHost", **given)["jobid"])
            cloud.result(cloud.client.call("enableHAForHost", hostid=host["id"])["jobid"])
        yield
        for host in hosts:
            cloud.result(cloud.client.call("disableHAForHost", hostid=host["id"])["jobid"])


def test_vms_of_a_node_with_host_ha_run_elsewhere_without_an_operator(cloud: GanetiCloud) -> None:
    """A node that dies is noticed, switched off and set offline in Ganeti; then its VMs start on other nodes."""
    for job in cloud.deploy(VMS):
        cloud.result(job)
    for vm in cloud.vms():
        cloud.client.call("updateVirtualMachine", id=vm["id"], haenable=True)
    rows = {f"{vm['id']}.bulkdeploy": vm["hostname"] for vm in cloud.vms()}
    dead = max(node for node in rows.values() if node != "node1")
    with host_ha(cloud):
        wait_for(
            lambda: bool(host_named(cloud, dead)["hostha"]["hastate"] == "Available"), "host HA begins", pause_s=1
        )
        kill_daemons(dead, NODE_DAEMON)  # its guests run on until its controller switches it off
        wait_for(
            lambda: bool(host_named(cloud, dead)["hostha"]["hastate"] == "Fenced"),
            "the node is fenced",
            pause_s=1,
            patience_s=PATIENCE_OF_MANY_S,
        )
        wait_for(
            lambda: len(cloud.vms()) == VMS and dead not in {vm["hostname"] for vm in cloud.vms()},
            "the VMs run elsewhere",
            pause_s=1,
            patience_s=PATIENCE_OF_MANY_S,
        )
        assert where_guests_run() == {f"{vm['id']}.bulkdeploy": [vm["hostname"]] for vm in cloud.vms()}
        assert gnt("gnt-node", "list", "--no-headers", "-o", "offline", dead).strip() == "Y"
        host = host_named(cloud, dead)["id"]
        power = {"hostid": host, "action": "ON"}
        cloud.result(cloud.client.call("issueOutOfBandManagementPowerAction", **power)["jobid"])
        set_offline(dead, offline=False)
        take_back(cloud, dead)
        cloud.result(cloud.client.call("cancelHostMaintenance", id=host)["jobid"])
    cloud.service.run("audit")


def take_back(cloud: GanetiCloud, name: str) -> None:
    """Reconnect a host until the call succeeds, and wait until the host is Up."""
    host = host_named(cloud, name)["id"]

    def is_taken_back() -> bool:
        return cloud.client.get("reconnectHost", id=host).status == 200

    wait_for(is_taken_back, "the host is taken back", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
    wait_for(lambda: bool(host_named(cloud, name)["state"] == "Up"), "the host is Up", pause_s=1)
