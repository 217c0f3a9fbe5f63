"""The libvirt driver keeps what every driver must keep, with guests that really boot."""

import dataclasses
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from xml.etree import ElementTree as Tree

import pytest
from sqlalchemy import Engine

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.domain.networks.security_group_rules import Direction, Protocol, Rule, Traffic
from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.drivers.abilities.host_files import HostFile, HostFiles, state_of
from bulkdeploy.drivers.abilities.snapshots import SnapshotSpec
from bulkdeploy.drivers.contract import (
    Caller,
    Contents,
    DeclaredOffContract,
    DetailsContract,
    DeviceContract,
    DriverContract,
    FencingContract,
    Filtering,
    HostContract,
    HostFilesContract,
    IsoContract,
    LeftoversContract,
    Machines,
    MigrationContract,
    Outage,
    OutageContract,
    ResizeContract,
    Rig,
    ScalingContract,
    SecurityGroupContract,
    SerialConsoleContract,
    ShrinkContract,
    SnapshotContract,
    StorageUnitContract,
    Subjects,
    UsageContract,
    VncConsoleContract,
    VolumeContract,
    guests_of,
)
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestCheck
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.drivers.libvirt.networks.filters import ALLOWED, filter_name
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE
from bulkdeploy.wiring.driver_records import records_in
from tests.kvm.fixed_records import ISO, POOL, TEMPLATE, FixedRules, address_of, driver_on
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, why_not
from tests.support.runs.waiting import wait_for

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)


def starts_counted(variables: Path) -> int:
    """How often UEFI firmware was started with these variables: the largest that MTC was, its monotonic counter."""
    name = "MTC".encode("utf-16-le") + bytes(2)
    content = variables.read_bytes()
    found = [at + len(name) for at in range(len(content)) if content.startswith(name, at)]
    return max(int.from_bytes(content[at : at + 4], "little") for at in found)


DAEMONS_OWN = (".log",)
"""Suffixes of the logs that daemons write of each guest, and that their system rotates."""

SUBJECTS = Subjects(pool_uuid=POOL, template_uuid=TEMPLATE, iso_uuid=ISO, memory_mib=32)


def applied_rules(host: HostAddress, guest_uuid: UUID) -> frozenset[Rule] | None:
    """What a daemon's filter of a guest lets through, read back; None: it has none."""
    import libvirt

    connection = libvirt.open(str(host.url).split("#")[0])
    try:
        found = {one.name(): one.XMLDesc() for one in connection.listAllNWFilters()}
    finally:
        connection.close()
    xml = found.get(filter_name(guest_uuid))
    if xml is None:
        return None
    return frozenset(map(rule_of, Tree.fromstring(xml).findall(f"rule[@priority='{ALLOWED}']")))  # noqa: S314


def rule_of(element: Tree.Element) -> Rule:
    """One of our rules, from libvirt's."""
    (matched,) = element
    protocol = {"icmpv6": "icmp"}.get(matched.tag, matched.tag.removesuffix("-ipv6"))
    start, end, kind, code = (matched.get(name) for name in ("dstportstart", "dstportend", "type", "code"))
    is_icmp = protocol == "icmp"
    traffic = Traffic(
        Protocol(protocol),
        None if start is None else int(start),
        None if end is None else int(end),
        int(kind or -1) if is_icmp else None,
        int(code or -1) if is_icmp else None,
    )
    direction = Direction.INGRESS if element.get("direction") == "in" else Direction.EGRESS
    way = "src" if direction is Direction.INGRESS else "dst"
    return Rule(direction, traffic, f"{matched.get(f'{way}ipaddr')}/{matched.get(f'{way}ipmask')}")


def traces_of(hosts: LibvirtHosts) -> set[str]:
    """Return the names of all files of these hosts, and of what their daemons know."""
    import libvirt

    found = {str(path) for root in (hosts.pool, hosts.consoles) for path in root.rglob("*")}
    for host in hosts.hosts:
        found |= {str(path) for path in host.folder.rglob("*") if path.suffix not in DAEMONS_OWN}
        connection = libvirt.open(host.url.split("#")[0])
        try:
            lists = (connection.listAllDomains, connection.listAllNWFilters, connection.listAllStoragePools)
            found |= {f"{host.name} {one.name()}" for every in lists for one in every()}
            found |= {f"{host.name} {one.usageID()}" for one in connection.listAllSecrets()}
        finally:
            connection.close()
    return found


def failing_calls() -> dict[str, tuple[type, str]]:
    """What libvirt is asked for in each step, last."""
    import libvirt

    return {
        "volume": (libvirt.virStoragePool, "createXML"),
        "boot": (libvirt.virDomain, "create"),
        "stop": (libvirt.virDomain, "destroy"),
        "delete": (libvirt.virStorageVol, "delete"),
        "scale": (libvirt.virDomain, "setVcpusFlags"),
        "devices": (libvirt.virDomain, "attachDeviceFlags"),
        "migrate": (libvirt.virDomain, "migrate3"),
        "resize": (libvirt.virDomain, "blockResize"),
        "snapshot": (libvirt.virDomain, "snapshotCreateXML"),
        "revert": (libvirt.virDomain, "revertToSnapshot"),
        "delete_snapshot": (libvirt.virDomainSnapshot, "delete"),
    }


class LibvirtContract(
    DriverContract,
    VolumeContract,
    UsageContract,
    HostContract,
    MigrationContract,
    DetailsContract,
    ScalingContract,
    DeviceContract,
    IsoContract,
    ResizeContract,
    SerialConsoleContract,
    VncConsoleContract,
    ShrinkContract,
    SecurityGroupContract,
    SnapshotContract,
    StorageUnitContract,
    HostFilesContract,
    FencingContract,
    DeclaredOffContract,
    OutageContract,
    LeftoversContract,
):
    """Three daemons, a shared pool, and boot sectors."""

    @pytest.fixture
    def files_folder(self, kvm_hosts: LibvirtHosts) -> Iterator[str]:
        """One where the daemons may write."""
        folder = kvm_hosts.pool.parent / "files"
        yield str(folder)
        shutil.rmtree(folder, ignore_errors=True)

    @pytest.fixture
    def fail_next(self, kvm_hosts: LibvirtHosts, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """Lets libvirt fail the next time that it is asked for what a step needs."""
        del kvm_hosts

        def fail_next(step: str) -> None:
            import libvirt

            def fail(*_: Any) -> None:
                monkeypatch.undo()
                raise libvirt.libvirtError("out of ink")

            owner, name = failing_calls()[step]
            monkeypatch.setattr(owner, name, fail)

        return fail_next

    @pytest.fixture
    def driver(self, kvm_hosts: LibvirtHosts, engine: Engine, tmp_path: Path) -> Iterator[HypervisorDriver]:
        """The driver on all three."""
        with driver_on(kvm_hosts, engine, tmp_path, FixedRules()) as driver:
            yield driver

    @pytest.fixture
    def rig(
        self,
        kvm_hosts: LibvirtHosts,
        driver: HypervisorDriver,
        fail_next: Callable[[str], None],
        engine: Engine,
    ) -> Rig:
        """All three hosts."""
        return Rig(
            driver,
            tuple(map(address_of, kvm_hosts.hosts)),
            fail_next,
            ("volume", "boot"),
            SUBJECTS,
            lambda guest: records_in(engine, lambda _: True).fences.release(guest, LAST_FENCE),
        )

    @pytest.fixture
    def traces(self, kvm_hosts: LibvirtHosts) -> Callable[[], set[str]]:
        """The files of the pool, of consoles and of each daemon, and its domains, filters, secrets and pools."""
        return lambda: traces_of(kvm_hosts)

    @pytest.fixture
    def outage(self, kvm_hosts: LibvirtHosts) -> Iterator[Outage]:
        """Daemons that are stopped, so that they answer nothing while their guests run on."""
        by_uuid = {host.uuid: host for host in kvm_hosts.hosts}
        yield Outage(
            lambda host: by_uuid[host.uuid].signal(signal.SIGSTOP),
            lambda host: by_uuid[host.uuid].signal(signal.SIGCONT),
        )
        for host in kvm_hosts.hosts:
            host.signal(signal.SIGCONT)

    @pytest.fixture
    def contents(self, kvm_hosts: LibvirtHosts) -> Contents:
        """Behind the boot sector in the files of volumes."""

        def is_done(uuid: UUID, command: str) -> bool:
            file = str(kvm_hosts.pool / f"{uuid}.qcow2")
            return (
                subprocess.run(["qemu-io", "-c", command, file], capture_output=True, check=False).returncode == 0
            )

        def write(uuid: UUID, letter: str) -> None:
            assert is_done(uuid, f"write -P {ord(letter)} 512k 512")

        def read(uuid: UUID) -> str:
            (found,) = (letter for letter in "ABC" if is_done(uuid, f"read -P {ord(letter)} 512k 512"))
            return found

        return Contents(write, read)

    @pytest.fixture
    def filtering(
        self, bridged: LibvirtHosts, engine: Engine, tmp_path: Path, fail_next: Callable[[str], None]
    ) -> Iterator[Filtering]:
        """The driver on hosts with bridges; what they have applied is read from their daemons."""
        rules = FixedRules()
        with driver_on(bridged, engine, tmp_path, rules, network="bridge") as driver:
            rig = Rig(driver, tuple(map(address_of, bridged.hosts)), fail_next, ("volume", "boot"), SUBJECTS)
            yield Filtering(rig, rules.rules.__setitem__, applied_rules)

    @pytest.fixture
    def machines(self, kvm_hosts: LibvirtHosts) -> Machines:
        """Two that answer, and a socket without a daemon."""
        promise = HostPromise(Decimal(1), Decimal(1), 50)
        nowhere = f"qemu+unix:///session?socket={kvm_hosts.folder}/nowhere"
        urls = [kvm_hosts.hosts[0].url, kvm_hosts.hosts[1].url, nowhere]
        first, second, silent = (NewHost(uuid4(), "KVM", HostAccess(url), promise) for url in urls)
        return Machines((first, second), silent)

    def test_guests_without_an_agent_and_guests_of_silent_hosts_do_not_answer(
        self, rig: Rig, caller: Caller, outage: Outage
    ) -> None:
        """Ports answer if something listens there. A host that hangs delays no guests of other hosts."""
        guests = [rig.new_guest() for _ in range(2)]
        for host, guest in zip(rig.hosts, guests, strict=False):
            caller.run(host, guest)
        agents = [
            GuestCheck(host, guest.uuid, None, HealthCheck())
            for host, guest in zip(rig.hosts, [*guests, rig.new_guest()], strict=True)
        ]
        silent = {one.guest_uuid: False for one in agents}
        assert rig.driver.answers_of_guests(agents, timeout_s=10) == silent
        outage.cut_off(rig.hosts[0])
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = GuestCheck(rig.hosts[0], uuid4(), "127.0.0.1", HealthCheck(int(listening.getsockname()[1])))
            answers = rig.driver.answers_of_guests([*agents, port], timeout_s=3)
        assert answers == {**silent, port.guest_uuid: True}

    def test_what_a_move_that_was_cut_leaves_goes_with_its_repetition(
        self, rig: Rig, caller: Caller, kvm_hosts: LibvirtHosts
    ) -> None:
        """A daemon that dies as a guest leaves it keeps the definition, from which it could start once more."""
        import libvirt

        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        source = libvirt.open(kvm_hosts.hosts[0].url.split("#")[0])
        try:
            defined = source.lookupByUUID(guest.uuid.bytes).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
            assert source.listAllDomains() == []
            source.defineXML(defined)
            caller.migrate(rig.hosts[0], rig.hosts[1], guest)
            assert source.listAllDomains() == []
        finally:
            source.close()
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid

    def test_a_guest_that_died_in_a_move_is_removed_on_both_hosts(
        self, rig: Rig, caller: Caller, kvm_hosts: LibvirtHosts, engine: Engine
    ) -> None:
        """The fence still names both hosts, as after a move that was cut: definitions and volumes go from both."""
        import libvirt

        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        fences = records_in(engine, lambda _: True).fences
        fences.move(guest.uuid, rig.hosts[0].uuid, rig.hosts[1].uuid, caller.fence)
        connections = [libvirt.open(host.url.split("#")[0]) for host in kvm_hosts.hosts[:2]]
        try:
            died = connections[0].lookupByUUID(guest.uuid.bytes)
            connections[1].defineXML(died.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            died.destroy()
            with pytest.raises(DriverError, match="another host"):
                caller.remove(rig.hosts[2], guest)
            caller.remove(rig.hosts[0], guest)
            assert [one.listAllDomains() for one in connections] == [[], []]
        finally:
            for one in connections:
                one.close()
        assert set(rig.driver.list_volumes()) == set()
        assert fences.raise_fence(guest.uuid, caller.fence).host_uuids == frozenset()

    def test_a_host_without_the_cpu_of_guests_is_refused(
        self, kvm_hosts: LibvirtHosts, engine: Engine, tmp_path: Path
    ) -> None:
        """The error names what guests can have there; with one of these the host is admitted, and they have it."""
        host = NewHost(uuid4(), "KVM", HostAccess(kvm_hosts.hosts[0].url), HostPromise(Decimal(1), Decimal(1), 50))
        with (
            driver_on(kvm_hosts, engine, tmp_path, FixedRules(), cpu_model="z80") as driver,
            pytest.raises(DriverError) as refused,
        ):
            driver.admit_host(host, timeout_s=30)
        assert not refused.value.transient
        named = "qemu64"
        assert re.search(rf"\b{named}\b", refused.value.reason)
        with driver_on(kvm_hosts, engine, tmp_path, FixedRules(), cpu_model=named) as driver:
            assert driver.admit_host(host, timeout_s=30).cpu_cores > 0
            guest = SUBJECTS.new_guest()
            Caller(driver).run(address_of(kvm_hosts.hosts[0]), guest)
            assert guests_of(driver)[guest.uuid].host_uuid == kvm_hosts.hosts[0].uuid

    def test_a_volume_smaller_than_its_template_is_refused(self, rig: Rig, caller: Caller) -> None:
        """For good, before it is made; one that is large enough is made after as before."""
        guest = rig.new_guest()
        root, *others = guest.volumes
        small = dataclasses.replace(guest, volumes=(dataclasses.replace(root, size_bytes=512), *others))
        for _ in range(2):
            with pytest.raises(DriverError, match="set a larger rootdisksize") as refused:
                caller.run(rig.hosts[0], small)
            assert (refused.value.step, refused.value.transient, rig.volumes()) == ("volume", False, set())
        caller.run(rig.hosts[0], guest)

    def test_activity_is_read_from_volumes_that_the_other_host_has(self, rig: Rig, caller: Caller) -> None:
        """Volumes that are missing show neither activity nor inactivity. One volume that is there is enough."""
        guest = rig.new_guest()
        silent, other, *_ = rig.hosts
        caller.run(silent, guest)
        volumes = [(volume.pool_uuid, volume.uuid) for volume in guest.volumes]
        missing = (volumes[0][0], uuid4())
        for unreadable in ([], [missing]):
            with pytest.raises(DriverError, match="no activity can be read"):
                rig.driver.activity_mark(silent, other, unreadable, timeout_s=30)
        assert rig.driver.activity_mark(silent, other, [missing, *volumes], timeout_s=30)

    def test_files_of_one_new_folder_are_put_at_once(self, rig: Rig, files_folder: str) -> None:
        """By calls that meet; all of them are there, with their content."""
        files = [HostFile(f"{files_folder}/{number}", b"%d" % number, 0o644) for number in range(8)]
        driver = HostFiles.of(rig.driver)
        with ThreadPoolExecutor(len(files)) as threads:
            list(threads.map(lambda file: driver.put_file(rig.hosts[0], file, timeout_s=60), files))
        states = driver.states_of_files(rig.hosts[0], [file.path for file in files], timeout_s=60)
        assert states == {file.path: state_of(file.content, file.mode) for file in files}

    def test_a_guest_grows_only_as_far_as_it_was_started_for(self, rig: Rig, caller: Caller) -> None:
        """Beyond, and backwards, is refused for good and changes nothing; what it grew to moves with it."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        larger = dataclasses.replace(guest, cpu_number=4, memory_mib=4 * guest.memory_mib, cpu_mhz=900)
        for wrong in (
            dataclasses.replace(guest, cpu_number=5),
            dataclasses.replace(guest, memory_mib=4 * guest.memory_mib + 2),
            dataclasses.replace(guest, memory_mib=guest.memory_mib - 2),
        ):
            with pytest.raises(DriverError) as refused:
                caller.scale(rig.hosts[0], wrong)
            assert (refused.value.step, refused.value.transient) == ("scale", False)
        caller.scale(rig.hosts[0], larger)
        caller.migrate(rig.hosts[0], rig.hosts[1], larger)
        there = guests_of(rig.driver)[guest.uuid]
        sizes = there.cpu_number, there.cpu_mhz, there.memory_mib
        assert (there.host_uuid, *sizes) == (rig.hosts[1].uuid, 4, 900, larger.memory_mib)


class TestLibvirtContract(LibvirtContract):
    """The contract on a pool of files, where firmware has a place for its variables."""

    @pytest.mark.parametrize("mode", BootMode)
    def test_a_guest_boots_with_uefi(
        self, rig: Rig, caller: Caller, kvm_hosts: LibvirtHosts, mode: BootMode
    ) -> None:
        """Its firmware says so on its console, in any mode; a host without firmware says what to install."""
        guest = dataclasses.replace(rig.subjects.new_guest(memory_mib=256), uefi=mode)
        if not any(Path("/usr/share/qemu/firmware").glob("*-edk2-*")):
            with pytest.raises(DriverError, match="install ovmf") as refused:
                caller.run(rig.hosts[0], guest)
            assert not refused.value.transient
            return
        caller.run(rig.hosts[0], guest)
        wait_for(lambda: "BdsDxe" in kvm_hosts.console(guest.uuid), "the console of UEFI firmware")
        snapshot = SnapshotSpec(uuid4(), with_memory=False)
        caller.snapshot(rig.hosts[0], guest, snapshot)
        caller.stop(rig.hosts[0], guest, forced=True)
        caller.revert(None, guest, snapshot)
        caller.run(rig.hosts[1], guest)
        caller.remove(rig.hosts[1], guest)
        assert rig.volumes() == set()
        assert [file.name for file in kvm_hosts.pool.iterdir() if str(guest.uuid) in file.name] == []

    def test_firmware_keeps_its_variables(
        self, rig: Rig, caller: Caller, kvm_hosts: LibvirtHosts, fail_next: Callable[[str], None]
    ) -> None:
        """From start to start, on the same host and another, and over a move; they are removed with the guest.

        The firmware counts its starts in a variable of its own.
        """
        if not any(Path("/usr/share/qemu/firmware").glob("*-edk2-*")):
            pytest.skip("it needs UEFI firmware: install ovmf")
        guest = dataclasses.replace(rig.subjects.new_guest(memory_mib=256), uefi=BootMode.LEGACY)
        variables = kvm_hosts.pool / f"nvram-{guest.uuid}.fd"
        counted = []
        for host in (rig.hosts[0], rig.hosts[0], rig.hosts[1]):
            (kvm_hosts.consoles / str(guest.uuid)).unlink(missing_ok=True)
            caller.run(host, guest)
            wait_for(lambda: "BdsDxe" in kvm_hosts.console(guest.uuid), "the console of UEFI firmware")
            counted.append(starts_counted(variables))
            if host is rig.hosts[1]:
                caller.migrate(rig.hosts[1], rig.hosts[2], guest)
                assert starts_counted(variables) == counted[-1]
                caller.stop(rig.hosts[2], guest, forced=True)
            else:
                caller.stop(host, guest, forced=True)
        assert counted == [counted[0], counted[0] + 1, counted[0] + 2]
        fail_next("delete")
        with pytest.raises(DriverError):
            caller.remove(None, guest)
        caller.remove(None, guest)
        assert not variables.exists()
