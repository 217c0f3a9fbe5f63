"""The libvirt driver keeps the contract of drivers with volumes in a real Ceph, where guests boot from images."""

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.drivers.abilities.snapshots import MemorySnapshots, SnapshotSpec
from bulkdeploy.drivers.abilities.starts import UefiFirmware
from bulkdeploy.drivers.contract import Caller, Contents, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError, StaleFence
from bulkdeploy.drivers.records import Pool
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE
from tests.kvm.fixed_records import POOL as POOL_UUID
from tests.kvm.fixed_records import FixedRules, driver_on
from tests.support.hypervisors.ceph_cluster import POOL, USER, CephCluster, why_no_ceph
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, why_not

if (reason := why_not() or why_no_ceph()) is not None:
    pytest.skip(reason, allow_module_level=True)

from tests.kvm import test_libvirt_contract as with_files

STEPS = {
    "volume": ("clone", "create"),
    "delete": ("rm",),
    "snapshot": ("create",),
    "revert": ("rollback",),
    "delete_snapshot": ("rm",),
}
"""Verbs of the program rbd, by the step that they are the last part of."""

LATER = LAST_FENCE + 1
"""A later caller's fence is higher than the one with which a guest was declared off."""


def writes(hosts: LibvirtHosts, number: int, guest_uuid: UUID) -> bool:
    """Return whether the QEMU process of a guest on a host can still change the root volume, by a snapshot."""
    import libvirt
    import libvirt_qemu

    def request(command: str, **arguments: str) -> dict[str, Any]:
        requested = json.dumps({"execute": command, "arguments": arguments})
        return dict(json.loads(libvirt_qemu.qemuMonitorCommand(domain, requested, 0)))

    connection = libvirt.open(hosts.hosts[number].url.split("#")[0])
    try:
        domain = connection.lookupByUUID(guest_uuid.bytes)
        answer = request("query-block")
        if "error" in answer:  # Ceph answers a blocked client with ESHUTDOWN
            assert "shutdown" in str(answer["error"]), answer
            return False
        devices = answer["return"]
        node = next(one["inserted"]["node-name"] for one in devices if "ua-volume" in one.get("qdev", ""))
        return "return" in request("blockdev-snapshot-internal-sync", device=node, name=str(uuid4()))
    finally:
        connection.close()


class TestCephContract(with_files.LibvirtContract):
    """Three daemons, a pool of Ceph, and boot sectors."""

    @pytest.fixture
    def driver(
        self,
        kvm_hosts: LibvirtHosts,
        ceph: CephCluster,
        engine: Engine,
        tmp_path: Path,
    ) -> Iterator[HypervisorDriver]:
        """The driver on all three, with the pool of Ceph, which lacks two abilities of pools of files."""
        pool = Pool(
            POOL_UUID, "ceph", "RBD", ceph.monitor, f"/{POOL}", None, user=USER, read_secret=lambda: ceph.secret
        )
        with (
            driver_on(kvm_hosts, engine, tmp_path, FixedRules(), pool=pool) as driver,
            pytest.MonkeyPatch.context() as patched,
        ):
            patched.setattr(driver, "abilities", driver.abilities - {UefiFirmware, MemorySnapshots})
            yield driver

    @pytest.fixture
    def fail_next(self, kvm_hosts: LibvirtHosts, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """Lets libvirt or Ceph fail the next time that it is asked for what a step needs."""
        del kvm_hosts

        def fail_next(step: str) -> None:
            import libvirt

            from bulkdeploy.drivers.libvirt.ceph import CephError, CephPool

            if step not in STEPS:
                owner, name = with_files.failing_calls()[step]

                def fail(*_: Any) -> None:
                    monkeypatch.undo()
                    raise libvirt.libvirtError("out of ink")

                monkeypatch.setattr(owner, name, fail)
                return
            run = CephPool.rbd

            def fail_verb(self: CephPool, *arguments: str, given: bytes = b"") -> str:
                if not {*STEPS[step]} & {*arguments[:2]}:
                    return run(self, *arguments, given=given)
                monkeypatch.undo()
                raise CephError("out of ink")

            monkeypatch.setattr(CephPool, "rbd", fail_verb)

        return fail_next

    @pytest.fixture
    def traces(self, kvm_hosts: LibvirtHosts, ceph: CephCluster) -> Callable[[], set[str]]:
        """The leftovers of files, and the images of the pool."""
        return lambda: with_files.traces_of(kvm_hosts) | ceph.images()

    @pytest.fixture
    def contents(self, ceph: CephCluster) -> Contents:
        """Behind the boot sector in images of volumes."""

        def is_done(uuid: UUID, command: str) -> bool:
            image = f"rbd:{POOL}/{uuid}:id=admin:conf={ceph.folder}/ceph.conf"
            tried = ["qemu-io", "-f", "raw", "-c", command, image]
            return subprocess.run(tried, capture_output=True, check=False, env=os.environ).returncode == 0

        def write(uuid: UUID, letter: str) -> None:
            assert is_done(uuid, f"write -P {ord(letter)} 512k 512")

        def read(uuid: UUID) -> str:
            (found,) = (letter for letter in "ABC" if is_done(uuid, f"read -P {ord(letter)} 512k 512"))
            return found

        return Contents(write, read)

    def test_a_running_guest_goes_on_from_where_it_was(
        self, rig: Rig, caller: Caller, contents: Contents, stopped: Any
    ) -> None:
        """Images have no memory of guests: such a snapshot is refused for good, and the guest runs on."""
        del contents
        caller.run(rig.hosts[0], stopped)
        with pytest.raises(DriverError, match="cannot include memory") as refused:
            caller.snapshot(rig.hosts[0], stopped, SnapshotSpec(uuid4(), with_memory=True))
        assert not refused.value.transient
        assert stopped.uuid in guests_of(rig.driver)

    @pytest.mark.parametrize("mode", BootMode)
    def test_a_guest_with_uefi_is_refused_for_good(self, rig: Rig, caller: Caller, mode: BootMode) -> None:
        """The variables of firmware need a file, which a pool of images does not have."""
        guest = dataclasses.replace(rig.subjects.new_guest(memory_mib=256), uefi=mode)
        with pytest.raises(DriverError, match="pool of files") as refused:
            caller.run(rig.hosts[0], guest)
        assert not refused.value.transient
        caller.remove(rig.hosts[0], guest)
        assert rig.volumes() == set()

    def test_volumes_are_clones_with_exclusive_locks(self, rig: Rig, caller: Caller, ceph: CephCluster) -> None:
        """The root volume is a clone of the template's protected snapshot; one client at a time writes."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        root, *_ = volume_uuids(guest)
        assert "/template-" in ceph.rbd("info", f"{POOL}/{root}")
        assert "exclusive-lock" in ceph.rbd("info", f"{POOL}/{root}")
        caller.remove(rig.hosts[0], guest)
        assert {image for image in ceph.images() if not image.startswith("template-")} == set()

    def test_a_host_that_was_cut_off_can_not_write(
        self, rig: Rig, caller: Caller, ceph: CephCluster, kvm_hosts: LibvirtHosts
    ) -> None:
        """The guest was declared off and runs elsewhere: its old process gets errors for what it still writes.

        A caller that was overtaken blocks nobody: the guest of the later call writes on.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        assert writes(kvm_hosts, 0, guest.uuid)
        rig.release(guest.uuid)
        later = dataclasses.replace(caller, fence=caller.fence + LATER)
        later.run(rig.hosts[1], guest)
        assert not writes(kvm_hosts, 0, guest.uuid)
        assert writes(kvm_hosts, 1, guest.uuid)
        blocked = ceph.blocked_clients()
        with pytest.raises(StaleFence):
            caller.run(rig.hosts[0], guest)
        assert ceph.blocked_clients() == blocked
        assert writes(kvm_hosts, 1, guest.uuid)

    def test_the_secret_is_in_no_argument_and_no_definition(
        self, rig: Rig, caller: Caller, ceph: CephCluster, kvm_hosts: LibvirtHosts
    ) -> None:
        """Neither processes' arguments, which all users read, nor definitions of guests have the key of Ceph."""
        import libvirt

        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        connection = libvirt.open(kvm_hosts.hosts[0].url.split("#")[0])
        try:
            assert ceph.secret not in connection.lookupByUUID(guest.uuid.bytes).XMLDesc(
                libvirt.VIR_DOMAIN_XML_SECURE
            )
            (secret,) = connection.listAllSecrets()
            with pytest.raises(libvirt.libvirtError, match="private"):
                secret.value()
        finally:
            connection.close()
        pid = kvm_hosts.hosts[0].guest_pids()[guest.uuid]
        assert ceph.secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
