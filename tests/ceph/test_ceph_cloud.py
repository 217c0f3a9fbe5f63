"""One call, ten guests that boot from a real Ceph; then they move, go back, grow, and lose their host."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.hypervisors.ceph_cluster import POOL, CephCluster, why_no_ceph
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, why_not

if (reason := why_not() or why_no_ceph()) is not None:
    pytest.skip(reason, allow_module_level=True)

from tests.kvm.test_bulk_call import Cloud, cloud, nothing_left, wait_until
from tests.kvm.test_host_return import evacuate, take_back
from tests.kvm.writing_guest import SECTOR, writing_image

__all__ = ["cloud", "nothing_left"]

VMS = 10


@pytest.fixture(scope="module")
def made_hosts(made_hosts: LibvirtHosts, made_ceph: CephCluster) -> Iterator[LibvirtHosts]:
    """Hosts whose pool is in Ceph."""
    made_hosts.other_pool_url = made_ceph.pool_url
    yield made_hosts
    made_hosts.other_pool_url = None


@pytest.fixture(scope="module")
def writing(cloud: Cloud) -> dict[str, str]:
    """Register the image of guests that append to their disks, as qcow2; the parameter that names the template."""
    raw, image = cloud.folder / "writing.raw", cloud.folder / "writing.qcow2"
    raw.write_bytes(writing_image())
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image], check=True)
    (template,) = cloud.client.call(
        "registerTemplate", name="writing", displaytext="Appends to its disk", url=image.as_uri(), ispublic="true",
        format="QCOW2", hypervisor=cloud.hosts.hypervisor, zoneid=cloud.ids["zoneid"],
        ostypeid=cloud.client.call("listOsTypes")["ostype"][0]["id"],
    )["template"]  # fmt: skip
    return {"templateid": template["id"]}


def last_number(ceph: CephCluster, volume: str) -> int:
    """Return the last number on an image, which has all numbers before that, in their order."""
    file = ceph.folder / f"{volume}.raw"
    image = f"if=rbd:{POOL}/{volume}:id=admin:conf={ceph.folder}/ceph.conf"
    # The rest of the image, which is much larger than the template's, has no numbers.
    part = ["bs=1M", "count=1", image, f"of={file}"]
    subprocess.run(["qemu-img", "dd", "-U", "-f", "raw", "-O", "raw", *part], check=True)
    content = file.read_bytes()
    file.unlink()
    words = [int.from_bytes(content[at : at + 2], "little") for at in range(SECTOR, len(content), SECTOR)]
    numbers = [word for word in words[1:] if word]
    assert numbers == list(range(1, len(numbers) + 1))
    return len(numbers)


def volumes_of(cloud: Cloud, vms: list[str]) -> dict[str, str]:
    """Return the root volume of each VM."""
    rows = cloud.client.call("listVolumes", type="ROOT")["volume"]
    found = {row["virtualmachineid"]: row["id"] for row in rows}
    return {vm: found[vm] for vm in vms}


def wait_for_numbers(ceph: CephCluster, volumes: dict[str, str], before: dict[str, int]) -> None:
    """Wait until each guest has appended a number to those that its image had."""
    wait_until(
        lambda: all(last_number(ceph, volumes[vm]) > number for vm, number in before.items()),
        "a guest does not write",
    )


def test_ten_guests_boot_move_go_back_and_grow(
    cloud: Cloud, writing: dict[str, str], made_ceph: CephCluster
) -> None:
    """Ten guests on all hosts write to clones of one image. After their removal the pool is empty."""
    vms = cloud.deploy(VMS, **writing)
    volumes = volumes_of(cloud, vms)
    assert set(cloud.hosts.running().values()) == {host.name for host in cloud.hosts.hosts}
    assert all("@base" in made_ceph.rbd("info", f"{POOL}/{volume}") for volume in volumes.values())
    wait_for_numbers(made_ceph, volumes, dict.fromkeys(vms, 0))
    first, second, *_ = vms
    source = cloud.host_of(first)
    cloud.job("migrateVirtualMachine", virtualmachineid=first, autoselect=True)
    assert cloud.host_of(first) != source
    wait_for_numbers(made_ceph, volumes, {first: last_number(made_ceph, volumes[first])})
    snapshot = cloud.job("createSnapshot", volumeid=volumes[second])["snapshot"]
    taken = last_number(made_ceph, volumes[second])
    wait_for_numbers(made_ceph, volumes, {second: taken})
    cloud.job("stopVirtualMachine", id=second, forced=True)
    cloud.job("revertSnapshot", id=snapshot["id"])
    assert last_number(made_ceph, volumes[second]) <= taken
    cloud.job("startVirtualMachine", id=second)
    wait_for_numbers(made_ceph, volumes, {second: taken})
    cloud.job("deleteSnapshot", id=snapshot["id"])
    offering = cloud.client.call("createDiskOffering", name="any", displaytext="Any", customized=True)
    of_disk = {"zoneid": cloud.ids["zoneid"], "diskofferingid": offering["diskoffering"]["id"], "size": 1}
    data = cloud.job("createVolume", name="data", **of_disk)["volume"]
    cloud.job("attachVolume", id=data["id"], virtualmachineid=first)
    cloud.job("resizeVolume", id=data["id"], size=2)
    assert "size 2 GiB" in made_ceph.rbd("info", f"{POOL}/{data['id']}")
    cloud.job("stopVirtualMachine", id=first, forced=True)  # the small guest lets go of no disk while it runs
    cloud.job("detachVolume", id=data["id"])
    cloud.client.call("deleteVolume", id=data["id"])
    cloud.assert_intact()
    (pool,) = cloud.client.call("listStoragePools")["storagepool"]
    assert (pool["type"], pool["ipaddress"], pool["path"]) == ("RBD", made_ceph.monitor, f"/{POOL}")
    assert made_ceph.secret not in str(cloud.client.call("listStoragePools"))
    wait_until(
        lambda: cloud.client.call("listStoragePools")["storagepool"][0].get("disksizeused"), "its use is not known"
    )
    for job in [cloud.client.call("destroyVirtualMachine", id=vm, expunge=True)["jobid"] for vm in vms]:
        cloud.result(job)
    cloud.assert_intact()
    assert [image for image in made_ceph.images() if not image.startswith("template-")] == []


def test_guests_of_a_host_that_was_cut_off_write_elsewhere_only(
    cloud: Cloud, writing: dict[str, str], made_ceph: CephCluster
) -> None:
    """An operator declares a host off whose guests run on: they are blocked, and end once the host is back."""
    vms = cloud.deploy(6, **writing)
    volumes = volumes_of(cloud, vms)
    wait_for_numbers(made_ceph, volumes, dict.fromkeys(vms, 0))
    dead = cloud.hosts.hosts[0]
    lost = [str(uuid) for uuid, name in cloud.hosts.running().items() if name == dead.name]
    assert lost
    clients = {vm: made_ceph.clients(volumes[vm]) for vm in lost}
    dead.signal(signal.SIGSTOP)
    try:
        moved = evacuate(cloud, dead, kill_worker=True)
        assert ({vm["virtualmachineid"] for vm in moved["moved"]}, moved.get("failed", [])) == (set(lost), [])
        assert {str(uuid) for uuid in dead.guest_pids()} == set(lost)
        assert set().union(*clients.values()) <= made_ceph.blocked_clients()
        assert all(made_ceph.clients(volumes[vm]).isdisjoint(clients[vm]) for vm in lost)
        wait_for_numbers(made_ceph, volumes, {vm: last_number(made_ceph, volumes[vm]) for vm in lost})
    finally:
        take_back(cloud, dead)
    wait_until(lambda: dead.guest_pids() == {}, "guests of before are left on the host")
    assert {str(uuid) for uuid in cloud.hosts.running()} == set(vms)
    cloud.assert_intact()
