"""A KVM host dies and comes back: its VMs run elsewhere, each once, and nothing of before runs on it."""

import os
import signal
from typing import Any
from uuid import UUID

import pytest

from tests.kvm.test_bulk_call import Cloud, cloud, cloud_host_state, nothing_left, wait_until
from tests.support.hypervisors.libvirt_hosts import LibvirtHost

__all__ = ["cloud", "nothing_left"]

VMS = 6


def running_once(hosts: Any) -> dict[UUID, str] | None:
    """Return the host of every guest process, or None while a guest runs twice."""
    try:
        found: dict[UUID, str] = hosts.running()
    except AssertionError:
        return None
    return found


def evacuate(cloud: Cloud, host: LibvirtHost, *, kill_worker: bool) -> dict[str, Any]:
    """Wait until the host is silent, evacuate it, and return what came of its VMs."""
    wait_until(lambda: cloud_host_state(cloud, host.name) != "Up", "nobody notices that the daemon is silent")
    (row,) = cloud.client.call("listHosts", name=host.name, type="Routing")["host"]
    job = cloud.client.call("evacuateHost", id=row["id"], force=True)["jobid"]
    if kill_worker:
        cloud.programs.kill("worker")
    return dict(cloud.result(job)["hostmigration"])


def take_back(cloud: Cloud, host: LibvirtHost) -> None:
    """Let the daemon answer, and reconnect the host."""
    host.signal(signal.SIGCONT)
    host.wait()
    (row,) = cloud.client.call("listHosts", name=host.name, type="Routing")["host"]
    cloud.client.call("reconnectHost", id=row["id"])
    wait_until(lambda: cloud_host_state(cloud, host.name) == "Up", "the host is not taken back")


@pytest.mark.parametrize("kill_worker", [False, True])
def test_vms_of_a_dead_host_run_elsewhere(cloud: Cloud, kill_worker: bool) -> None:
    """Its power is cut: all VMs run on the other hosts while it stays dead, and on all three once it is back."""
    vms = cloud.deploy(VMS)
    dead = cloud.hosts.hosts[0]
    lost = {str(uuid) for uuid, name in cloud.hosts.running().items() if name == dead.name}
    assert lost
    dead.signal(signal.SIGSTOP)
    for pid in dead.guest_pids().values():
        os.kill(pid, signal.SIGKILL)
    try:
        moved = evacuate(cloud, dead, kill_worker=kill_worker)
        assert ({vm["virtualmachineid"] for vm in moved["moved"]}, moved.get("failed", [])) == (lost, [])
        assert {str(uuid) for uuid in cloud.hosts.running()} == set(vms)
        one = lost.pop()
        cloud.job("stopVirtualMachine", id=one, forced=True)
        cloud.job("startVirtualMachine", id=one)
    finally:
        take_back(cloud, dead)
    cloud.assert_intact()
    assert dead.name in {cloud.host_of(vm) for vm in cloud.deploy(VMS)}
    cloud.assert_intact()


def test_guests_that_ran_on_end_when_their_host_is_back(cloud: Cloud) -> None:
    """The host was only cut off: a lock keeps its guests' disks. Once it is back they end, and their VMs start."""
    cloud.client.call("updateConfiguration", name="start.retry", value=2)  # each start fails until then
    vms = cloud.deploy(VMS)
    dead = cloud.hosts.hosts[0]
    lost = {str(uuid) for uuid, name in cloud.hosts.running().items() if name == dead.name}
    dead.signal(signal.SIGSTOP)
    try:
        evacuate(cloud, dead, kill_worker=False)
        assert running_once(cloud.hosts) is not None
        assert {cloud.state(vm) for vm in lost} <= {"Stopped", "Running"}
    finally:
        take_back(cloud, dead)
    assert dead.guest_pids() == {}
    for vm in vms:
        if cloud.state(vm) == "Stopped":
            cloud.job("startVirtualMachine", id=vm)
    assert {str(uuid) for uuid in cloud.hosts.running()} == set(vms)
    cloud.assert_intact()
