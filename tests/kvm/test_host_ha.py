"""Host HA on real guests: a server loses its daemon and its guests, and its controller switches it off for certain.

Each libvirt daemon is a server behind a Redfish controller, sushy-tools' emulator: OFF kills the daemon and all its
QEMU processes, ON starts the daemon again. Guests append a counter to their disks.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Row, text

from bulkdeploy.store.database.engine import create_engine
from tests.kvm.test_bulk_call import Cloud, cloud, cloud_host_state, nothing_left, wait_until
from tests.kvm.writing_guest import writing_image, written_numbers
from tests.support.hypervisors.libvirt_hosts import LibvirtHost
from tests.support.hypervisors.libvirt_servers import DoubleRuns, switch
from tests.support.power.host_ha import LOGIN, ha_state, host_ha, take_back
from tests.support.power.redfish_servers import Server

__all__ = ["cloud", "nothing_left"]

VMS, MANY = 6, 20


@pytest.fixture(scope="module")
def writing(cloud: Cloud) -> dict[str, str]:
    """Register the image of guests that append to their disks, and return the parameter that names the template."""
    image = cloud.folder / "writing.raw"
    image.write_bytes(writing_image())
    (template,) = cloud.client.call(
        "registerTemplate", name="writing", displaytext="Appends to its disk", url=image.as_uri(), ispublic="true",
        format=cloud.hosts.image_format, hypervisor=cloud.hosts.hypervisor, zoneid=cloud.ids["zoneid"],
        ostypeid=cloud.client.call("listOsTypes")["ostype"][0]["id"],
    )["template"]  # fmt: skip
    return {"templateid": template["id"]}


def deploy_available(cloud: Cloud, count: int, writing: dict[str, str]) -> dict[str, Path]:
    """Deploy highly available VMs whose guests write; the disk of each, by the VM's id."""
    vms = cloud.deploy(count, **writing)
    for vm in vms:
        cloud.client.call("updateVirtualMachine", id=vm, haenable=True)
    volumes = cloud.client.call("listVolumes")["volume"]
    disks = {one["virtualmachineid"]: cloud.hosts.pool / f"{one['id']}.qcow2" for one in volumes}
    found = {vm: disks[vm] for vm in vms}
    wait_for_numbers(found, dict.fromkeys(vms, 0))
    return found


def last_number(disk: Path) -> int:
    """Return the last number on a disk, which has all numbers before that, in their order."""
    numbers = written_numbers(disk)
    assert numbers == list(range(1, len(numbers) + 1))
    return len(numbers)


def wait_for_numbers(disks: dict[str, Path], before: dict[str, int]) -> None:
    """Wait until each guest has appended two numbers to those that its disk had."""
    wait_until(
        lambda: all(last_number(disks[vm]) >= number + 2 for vm, number in before.items()), "a guest does not write"
    )


def guests_of(cloud: Cloud, host: LibvirtHost) -> set[str]:
    """Return the ids of the VMs whose guests run on a host."""
    return {str(uuid) for uuid, name in cloud.hosts.running().items() if name == host.name}


@contextmanager
def controlled(cloud: Cloud) -> Iterator[tuple[dict[str, Server], int]]:
    """Enable host HA of all servers, which are behind one controller; yields them and the controller's port."""
    servers = {host.name: Server(switch=partial(switch, host)) for host in cloud.hosts.hosts}
    with host_ha(cloud.client, servers) as port:
        yield servers, port


def last_transition(cloud: Cloud) -> int:
    """Return the id of the last transition of any host."""
    return max((row.id for row in transitions(cloud)), default=0)


def states_since(cloud: Cloud, host: str, last: int) -> set[str]:
    """Return the states that a host had since a transition. Some last for less than a call of the API."""
    return {row.state for row in transitions(cloud) if row.name == host and row.id > last}


def transitions(cloud: Cloud) -> Sequence[Row[Any]]:
    """Return the last transitions of all hosts."""
    engine = create_engine(str(cloud.settings.database_url), pool_size=1)
    query = "SELECT t.id, t.state, h.name FROM host_ha_transitions t JOIN hosts h ON h.id = t.host_id"
    try:
        with engine.connect() as connection:
            return connection.execute(text(query)).all()
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    ("count", "killed", "state"),
    [
        (MANY, "", ""),
        (VMS, "sweeper", "Checking"),
        (VMS, "sweeper", "Fencing"),
        (VMS, "worker", "Fencing"),
        (VMS, "api", "Fencing"),
        (VMS, "worker", "Fenced"),
    ],
)
def test_guests_of_a_dead_server_run_elsewhere_once_it_is_off(
    cloud: Cloud, writing: dict[str, str], count: int, killed: str, state: str
) -> None:
    """The server is fenced and verified to be off; its guests go on elsewhere, whichever program dies meanwhile."""
    disks = deploy_available(cloud, count, writing)
    dead = cloud.hosts.hosts[0]
    lost = guests_of(cloud, dead)
    assert lost
    with controlled(cloud) as (servers, _), DoubleRuns(cloud.hosts.hosts) as doubles:
        began, last = time.monotonic(), last_transition(cloud)
        switch(dead, on=False)  # its controller goes on, and still reports On
        before = {vm: last_number(disks[vm]) for vm in lost}
        if killed:
            wait_until(lambda: state in states_since(cloud, dead.name, last), f"the server is not {state}")
            cloud.programs.kill(killed)
        wait_until(
            lambda: {str(uuid) for uuid in cloud.hosts.running()} == set(disks), "guests do not run elsewhere"
        )
        sys.stdout.write(
            f"{len(lost)} guests of a dead server ran elsewhere after {time.monotonic() - began:.0f} s\n"
        )
        wait_for_numbers(disks, before)
        assert ha_state(cloud.client, dead.name) == "Fenced"
        assert set(servers[dead.name].requests) == {"ForceOff"}
        assert killed or servers[dead.name].requests == ["ForceOff"]
        assert {cloud.host_of(vm) for vm in lost}.isdisjoint({dead.name})
        take_back(cloud.client, dead.name)
    assert doubles.found == {}
    cloud.assert_intact()


def test_a_server_that_is_only_cut_off_keeps_its_guests(cloud: Cloud, writing: dict[str, str]) -> None:
    """A host whose daemon is silent while its guests write is Degraded; nothing is switched off or started."""
    disks = deploy_available(cloud, VMS, writing)
    cut = cloud.hosts.hosts[0]
    here = guests_of(cloud, cut)
    assert here
    before = cloud.hosts.running()
    with controlled(cloud) as (servers, _), DoubleRuns(cloud.hosts.hosts) as doubles:
        cut.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: ha_state(cloud.client, cut.name) == "Degraded", "the server is not Degraded")
            wait_for_numbers(disks, {vm: last_number(disks[vm]) for vm in disks})
            assert servers[cut.name].requests == []
        finally:
            cut.signal(signal.SIGCONT)
        wait_until(lambda: ha_state(cloud.client, cut.name) == "Available", "the server is not available again")
        wait_until(lambda: cloud_host_state(cloud, cut.name) == "Up", "the host is not Up again")
        assert cloud.hosts.running() == before
        assert servers[cut.name].requests == []
    assert doubles.found == {}
    cloud.assert_intact()


def test_nothing_starts_while_the_controller_does_not_answer(cloud: Cloud) -> None:
    """The server may run its guests on for all that anybody knows: an alert says what an operator may do."""
    vms = cloud.deploy(VMS)
    for vm in vms:
        cloud.client.call("updateVirtualMachine", id=vm, haenable=True)
    dead = cloud.hosts.hosts[0]
    lost = {str(uuid) for uuid, name in cloud.hosts.running().items() if name == dead.name}
    with controlled(cloud) as (_, port):
        (row,) = cloud.client.call("listHosts", name=dead.name, type="Routing")["host"]
        login = {**LOGIN, "address": f"127.0.0.1/{dead.name}"}
        cloud.client.call("configureOutOfBandManagement", hostid=row["id"], port=1, **login)
        switch(dead, on=False)
        wait_until(lambda: ha_state(cloud.client, dead.name) == "Fencing", "the server is not fenced")
        wait_until(
            lambda: "could not be fenced" in str(cloud.client.call("listAlerts")),
            "no alert says that it is not off",
        )
        time.sleep(5)
        assert ha_state(cloud.client, dead.name) == "Fencing"
        assert {str(uuid) for uuid in cloud.hosts.running()} == set(vms) - lost
        cloud.client.call("configureOutOfBandManagement", hostid=row["id"], port=port, **login)
        wait_until(lambda: {str(uuid) for uuid in cloud.hosts.running()} == set(vms), "guests do not run elsewhere")
        take_back(cloud.client, dead.name)
    cloud.assert_intact()


def test_crashed_guests_run_again_where_they_were(cloud: Cloud) -> None:
    """Highly available guests alone, after their process or their host was killed; other VMs are stopped."""
    vms = cloud.deploy(VMS)
    plain, *available = vms
    for vm in available:
        cloud.client.call("updateVirtualMachine", id=vm, haenable=True)
    where = {vm: cloud.host_of(vm) for vm in vms}
    with DoubleRuns(cloud.hosts.hosts) as doubles:
        for host in cloud.hosts.hosts:
            for guest, pid in host.guest_pids().items():
                if str(guest) in (plain, available[0]):
                    os.kill(pid, signal.SIGKILL)
        wait_until(lambda: cloud.state(plain) == "Stopped", "a plain VM is not stopped")
        wait_until(lambda: UUID(available[0]) in cloud.hosts.running(), "a crashed guest does not run again")
        failed = next(host for host in cloud.hosts.hosts if host.name == where[available[1]])
        switch(failed, on=False)
        switch(failed, on=True)
        wait_until(
            lambda: {str(uuid) for uuid in cloud.hosts.running()} == set(available), "guests do not run again"
        )
    assert {vm: cloud.host_of(vm) for vm in available} == {vm: where[vm] for vm in available}
    assert doubles.found == {}
    cloud.assert_intact()


def test_a_guest_that_crashes_again_and_again_runs_elsewhere_and_is_stopped_at_last(cloud: Cloud) -> None:
    """With one attempt, the first crash restarts it on its host, the second elsewhere, and the third stops it."""
    cloud.client.call("updateConfiguration", name="vm.ha.restart.attempts", value=1)
    (vm,) = cloud.deploy(1)
    cloud.client.call("updateVirtualMachine", id=vm, haenable=True)
    places = [cloud.host_of(vm)]
    with DoubleRuns(cloud.hosts.hosts) as doubles:
        for _ in range(2):
            crash(cloud, vm, restarts=True)
            wait_until(lambda: cloud.state(vm) == "Running", "the VM is not Running")
            places.append(cloud.host_of(vm))
        crash(cloud, vm, restarts=False)
        wait_until(lambda: cloud.state(vm) == "Stopped", "the VM is not stopped")
    assert places[0] == places[1] != places[2]
    assert "its guest crashed 3 times within an hour" in str(cloud.client.call("listAlerts"))
    assert doubles.found == {}
    cloud.assert_intact()


def crash(cloud: Cloud, vm: str, *, restarts: bool) -> None:
    """Kill the process of a VM's guest, and wait until the guest has a new one if it restarts."""
    pid = pid_of(cloud, vm)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    if restarts:
        wait_until(lambda: pid_of(cloud, vm) not in (None, pid), "the guest does not run again")


def pid_of(cloud: Cloud, vm: str) -> int | None:
    """Return the process of a VM's guest, or None if there is none."""
    pids = (host.guest_pids().get(UUID(vm)) for host in cloud.hosts.hosts)
    return next((pid for pid in pids if pid is not None), None)
