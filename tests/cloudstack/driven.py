"""The driver for CloudStack on a cloud of two hosts that shares no code with it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID, uuid4

from sqlalchemy import Engine

from bulkdeploy.drivers.cloudstack.driver import CloudStackDriver
from bulkdeploy.drivers.cloudstack.options import CloudStackOptions
from bulkdeploy.drivers.contract import Subjects
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import GuestOrder
from bulkdeploy.wiring.driver_records import records_in
from tests.cloudstack.orders import AnyOffering, EveryVolume, FixedOrders
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.support.cloudstack.double import API_KEY, RELEASES, SECRET_KEY, CloudStackDouble, serving
from tests.support.cloudstack.zone import GIB, POOL, ZONE

SUBJECTS = Subjects(volume_bytes=2 * GIB, pool_uuid=UUID(POOL))
HOSTS = tuple(HostAddress(uuid4(), name, "192.0.2.1", "KVM") for name in ("left", "right"))
ORDER = GuestOrder(
    zone_uuid=UUID(ZONE),
    offering_uuid=uuid4(),
    custom_sizes=frozenset({"cpuNumber", "cpuSpeed", "memory"}),
    template_uuid=SUBJECTS.template_uuid,
    hypervisor="KVM",
    root_bytes=GIB,
    owner="acme",
    domain_uuid=uuid4(),
    disk_offerings=AnyOffering(uuid4()),
    custom_disks=EveryVolume(),
)


def driver_of(
    given: Mapping[str, object], engine: Engine, hosts: Sequence[HostAddress], pool_uuid: UUID, order: GuestOrder
) -> CloudStackDriver:
    """A driver with these options, of a cloud with these hosts and one pool; all guests are ordered alike."""
    driver = CloudStackDriver.from_options(CloudStackOptions.model_validate(given))
    kept = records_in(engine, lambda _: True)
    driver.use_records(
        replace(kept, directory=FixedDirectory(hosts, shared_pool(pool_uuid)), orders=FixedOrders(order))
    )
    return driver


def new_driver(url: str, engine: Engine, **options: object) -> CloudStackDriver:
    """A driver of the upstream behind a url."""
    given = {"url": url, "apikey": API_KEY, "secretkey": SECRET_KEY, "calls_per_second": 1000, "poll_seconds": 0.02}
    return driver_of(given | options, engine, HOSTS, SUBJECTS.pool_uuid, ORDER)


@contextmanager
def driven(
    engine: Engine, *, release: str = RELEASES[-1], job_threads: int = 16, **options: object
) -> Iterator[tuple[CloudStackDouble, CloudStackDriver]]:
    """Run an empty cloud and its driver; afterwards, check that CloudStack would have accepted each request."""
    names = {str(host.uuid): host.name for host in HOSTS}
    upstream = CloudStackDouble(names, release=release, job_threads=job_threads)
    with serving(upstream) as url:
        driver = new_driver(url, engine, **options)
        yield upstream, driver
        driver.close()
    assert upstream.unexpected == []
