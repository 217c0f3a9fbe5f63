"""The libvirt driver keeps what every driver must keep, with guests that really boot."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import (
    Caller,
    ConsoleContract,
    DetailsContract,
    DeviceContract,
    DriverContract,
    FencingContract,
    HostContract,
    Machines,
    MigrationContract,
    ResizeContract,
    Rig,
    Subjects,
    VolumeContract,
    guests_of,
)
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.drivers.records import Pool, TemplateImage
from bulkdeploy.wiring.driver_records import records_in
from tests.support.libvirt_hosts import LibvirtHosts, why_not

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

POOL, TEMPLATE = (UUID(f"00000000-0000-4000-8000-00000000000{number}") for number in (1, 2))


@dataclass(frozen=True)
class FixedDirectory:
    """Hosts with one pool and one template."""

    known_hosts: Sequence[HostAddress]
    pool: Pool
    image: TemplateImage

    def hosts(self) -> Sequence[HostAddress]:
        """All."""
        return self.known_hosts

    def hosts_of_pool(self, pool_uuid: UUID) -> Sequence[HostAddress]:
        """All."""
        assert pool_uuid == self.pool.uuid
        return self.known_hosts

    def pools(self) -> Sequence[Pool]:
        """The one."""
        return [self.pool]

    def pools_of_host(self, host_uuid: UUID) -> Sequence[Pool]:
        """The one."""
        assert host_uuid in {host.uuid for host in self.known_hosts}
        return [self.pool]

    def pools_of_volumes(self, volume_uuids: Collection[UUID]) -> Sequence[Pool]:
        """The one."""
        del volume_uuids
        return [self.pool]

    def template(self, template_uuid: UUID) -> TemplateImage | None:
        """The one."""
        return self.image if template_uuid == self.image.uuid else None


def failing_calls() -> dict[str, tuple[type, str]]:
    """What libvirt is asked for in each step, last."""
    import libvirt

    return {
        "volume": (libvirt.virStoragePool, "createXML"),
        "boot": (libvirt.virDomain, "create"),
        "stop": (libvirt.virDomain, "destroy"),
        "delete": (libvirt.virStorageVol, "delete"),
        "devices": (libvirt.virDomain, "attachDeviceFlags"),
        "migrate": (libvirt.virDomain, "migrate3"),
        "resize": (libvirt.virDomain, "blockResize"),
    }


class TestLibvirtContract(
    DriverContract,
    VolumeContract,
    HostContract,
    MigrationContract,
    DetailsContract,
    DeviceContract,
    ResizeContract,
    ConsoleContract,
    FencingContract,
):
    """Three daemons, a shared pool, and boot sectors."""

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
        """The driver, with hosts, pool and template, and the product's own records of fences."""
        from bulkdeploy.drivers.libvirt.driver import LibvirtDriver
        from bulkdeploy.drivers.libvirt.options import LibvirtOptions

        image = tmp_path / "boot.raw"
        image.write_bytes(boot_image())
        given = {**kvm_hosts.driver_options, "seed": False, "shutdown_seconds": 0.2}
        driver = LibvirtDriver(LibvirtOptions.model_validate(given))
        hosts = [HostAddress(host.uuid, host.name, "127.0.0.1", "KVM", host.url) for host in kvm_hosts.hosts]
        pool = Pool(POOL, "shared", "SharedMountPoint", "localhost", str(kvm_hosts.pool), None)
        template = TemplateImage(TEMPLATE, "boot sector", image.as_uri(), "RAW", None, len(boot_image()))
        kept = records_in(engine, lambda _: True)
        driver.use_records(replace(kept, directory=FixedDirectory(hosts, pool, template)))
        driver.ensure_template(hosts[0], POOL, TEMPLATE, timeout_s=30)
        yield driver
        driver.close()

    @pytest.fixture
    def rig(self, kvm_hosts: LibvirtHosts, driver: HypervisorDriver, fail_next: Callable[[str], None]) -> Rig:
        """All three hosts."""
        hosts = tuple(HostAddress(host.uuid, host.name, "127.0.0.1", "KVM", host.url) for host in kvm_hosts.hosts)
        subjects = Subjects(pool_uuid=POOL, template_uuid=TEMPLATE, memory_mib=32)
        return Rig(driver, hosts, fail_next, ("volume", "boot"), subjects)

    @pytest.fixture
    def machines(self, kvm_hosts: LibvirtHosts) -> Machines:
        """Two that answer, and a socket without a daemon."""
        promise = HostPromise(Decimal(1), Decimal(1), 50)
        urls = [kvm_hosts.hosts[0].url, kvm_hosts.hosts[1].url, "qemu+unix:///session?socket=/nowhere"]
        first, second, silent = (NewHost(uuid4(), "KVM", HostAccess(url), promise) for url in urls)
        return Machines((first, second), silent)

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
