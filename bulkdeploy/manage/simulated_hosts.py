"""Making the simulated hypervisors what an inventory says: its hosts exist, its VMs run there."""

from uuid import UUID

from sqlalchemy import Connection, Engine

from bulkdeploy.domain.errors import OperationFailed
from bulkdeploy.drivers.driver import DriverError, GuestSpec, VolumeSpec
from bulkdeploy.drivers.registry import DEFAULT
from bulkdeploy.drivers.simulator_database import connect, ensure_database
from bulkdeploy.drivers.simulator_inventory import AdoptedGuest, SimulatedHost, adopt_guests, sync_hosts
from bulkdeploy.store.inventory.inventory_guests import simulator_guests, simulator_hosts
from bulkdeploy.wiring.drivers import SIMULATOR, simulator_url
from bulkdeploy.wiring.settings import Settings


class SimulatorContradicts(OperationFailed):
    """The simulated hypervisors have a VM otherwise than the database: `bulkdeploy audit` tells more."""


def tell_simulator(settings: Settings, engine: Engine) -> int:
    """Make every host of a simulated hypervisor type and the VMs of inventories known; how many VMs were not.

    Safe to repeat; what real hypervisors drive is left out.

    Raises:
        SimulatorContradicts: a guest is there in another way than the database says.
    """
    if SIMULATOR not in settings.drivers.values():
        return 0
    with engine.connect() as connection:
        hosts, guests = _hosts(settings, connection), _guests(settings, connection)
    url = simulator_url(settings)
    ensure_database(url)
    with connect(url) as simulator:
        sync_hosts(simulator, hosts)
        try:
            return adopt_guests(simulator, guests)
        except DriverError as error:
            raise SimulatorContradicts(str(error)) from error


def _hosts(settings: Settings, connection: Connection) -> list[SimulatedHost]:
    return [
        SimulatedHost(
            uuid=row.uuid,
            name=row.name,
            cpu_cores=row.cpu_cores,
            cpu_mhz=row.cpu_mhz,
            memory_mib=row.memory_mib,
            cpu_mhz_limit=row.cpu_mhz_limit,
            memory_mib_limit=row.memory_mib_limit,
            guests_limit=row.vms_limit,
        )
        for row in simulator_hosts(connection)
        if _is_simulated(settings, row.hypervisor)
    ]


def _guests(settings: Settings, connection: Connection) -> list[AdoptedGuest]:
    return [
        AdoptedGuest(
            row.host_uuid,
            GuestSpec(
                uuid=row.uuid,
                name=row.instance_name,
                cpu_number=row.cpu_number,
                cpu_mhz=row.cpu_mhz,
                memory_mib=row.memory_mib,
                volumes=_volumes(row.volume_uuids, row.volume_sizes, row.pool_uuids),
                nics=(),
            ),
        )
        for row in simulator_guests(connection)
        if _is_simulated(settings, row.hypervisor)
    ]


def _is_simulated(settings: Settings, hypervisor: str) -> bool:
    by_type = {kind.lower(): driver for kind, driver in settings.drivers.items()}
    return by_type.get(hypervisor.lower(), by_type.get(DEFAULT)) == SIMULATOR


def _volumes(uuids: list[UUID], sizes: list[int], pools: list[UUID]) -> tuple[VolumeSpec, ...]:
    return tuple(
        VolumeSpec(uuid=uuid, name=str(uuid), size_bytes=size, pool_uuid=pool)
        for uuid, size, pool in zip(uuids, sizes, pools, strict=True)
    )
