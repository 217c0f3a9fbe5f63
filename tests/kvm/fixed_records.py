"""A driver on hosts with one pool and one template, as the product's records would name them."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import Engine

from bulkdeploy.domain.networks.security_group_rules import Rule
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.images.image_headers import FILE_SYSTEM_AT, FILE_SYSTEMS
from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.drivers.records import Pool, TemplateImage
from bulkdeploy.security.guarded_fetch import Fetcher, FetchRules
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory
from tests.support.hypervisors.libvirt_hosts import LibvirtHost, LibvirtHosts
from tests.support.hypervisors.libvirt_networks import BridgedHost

if TYPE_CHECKING:
    from bulkdeploy.drivers.libvirt.driver import LibvirtDriver

POOL, TEMPLATE, ISO = (UUID(f"00000000-0000-4000-8000-00000000000{number}") for number in (1, 2, 3))


@dataclass(frozen=True)
class FixedRules:
    """The rules of guests that are in security groups."""

    rules: dict[UUID, frozenset[Rule]] = field(default_factory=dict)

    def of(self, guest_uuids: Collection[UUID]) -> Mapping[UUID, frozenset[Rule]]:
        """Those of these guests."""
        return {uuid: self.rules[uuid] for uuid in guest_uuids if uuid in self.rules}


def address_of(host: LibvirtHost) -> HostAddress:
    """A host as drivers are told of it."""
    ip_address = host.ip_address if isinstance(host, BridgedHost) else "127.0.0.1"
    return HostAddress(host.uuid, host.name, ip_address, "KVM", host.url)


@contextmanager
def driver_on(
    hosts: LibvirtHosts,
    engine: Engine,
    folder: Path,
    rules: FixedRules,
    *,
    hardware: frozenset[str | None] = frozenset({None}),
    pool: Pool | None = None,
    **options: object,
) -> Iterator["LibvirtDriver"]:
    """The driver, with the template in the pool, and the product's own records of fences.

    ``hardware``: what the hosts said of that of their guests. ``pool``: the pool; None: the folder of the hosts.
    """
    from bulkdeploy.drivers.libvirt.driver import LibvirtDriver
    from bulkdeploy.drivers.libvirt.options import LibvirtOptions

    image = folder / "boot.raw"
    image.write_bytes(boot_image())
    given = {**hosts.driver_options, "seed": False, "shutdown_seconds": 0.2, **options}
    driver = LibvirtDriver(LibvirtOptions.model_validate(given))
    addresses = [address_of(host) for host in hosts.hosts]
    pool = pool or Pool(POOL, "shared", "SharedMountPoint", "localhost", str(hosts.pool), None)
    template = TemplateImage(TEMPLATE, "boot sector", image.as_uri(), "RAW", None, len(boot_image()))
    disc = folder / "installer.iso"
    disc.write_bytes(
        boot_image()[:FILE_SYSTEM_AT].ljust(FILE_SYSTEM_AT, b"\0") + FILE_SYSTEMS[0].ljust(2047, b"\0")
    )
    iso = replace(template, uuid=ISO, name="installer", image_format="ISO", url=disc.as_uri())
    kept = records_in(engine, lambda _: True)
    directory = FixedDirectory(addresses, pool, template, iso)
    directory.hardware = hardware
    fetcher = Fetcher(FetchRules(directories=(folder,)))
    driver.use_records(replace(kept, directory=directory, security_rules=rules, fetcher=fetcher))
    driver.ensure_template(addresses[0], POOL, TEMPLATE, timeout_s=30)
    yield driver
    driver.close()
