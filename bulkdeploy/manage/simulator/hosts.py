"""The registration of hosts with the simulator of hypervisors."""

from sqlalchemy import Engine

from bulkdeploy.drivers.registry import DEFAULT
from bulkdeploy.drivers.simulator.database import connect, ensure_database
from bulkdeploy.drivers.simulator.inventory import SimulatedHost, sync_hosts
from bulkdeploy.store.infrastructure.hosts import hosts_with_limits
from bulkdeploy.wiring.drivers import SIMULATOR, simulator_url
from bulkdeploy.wiring.settings import Settings


def register_with_simulator(settings: Settings, engine: Engine) -> None:
    """Register every host of a simulated hypervisor type in the simulator's database, which may be new.

    This can be repeated safely. Hosts of real hypervisors are skipped.
    """
    if SIMULATOR not in settings.drivers.values():
        return
    with engine.connect() as connection:
        hosts = [
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
            for row in hosts_with_limits(connection)
            if _is_simulated(settings, row.hypervisor)
        ]
    url = simulator_url(settings)
    ensure_database(url)
    with connect(url) as simulator:
        sync_hosts(simulator, hosts)


def _is_simulated(settings: Settings, hypervisor: str) -> bool:
    by_type = {kind.lower(): driver for kind, driver in settings.drivers.items()}
    return by_type.get(hypervisor.lower(), by_type.get(DEFAULT)) == SIMULATOR
