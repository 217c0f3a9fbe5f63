"""Simulated hosts, and guests to ask the simulator for."""

from uuid import uuid4

from bulkdeploy.drivers.contract import PATIENCE_S, Caller, Subjects, guests_of, volume_uuids
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.simulator.inventory import SimulatedHost

__all__ = ["PATIENCE_S", "Caller", "address", "guests_of", "new_guest", "new_host", "volume_uuids"]

new_guest = Subjects().new_guest


def new_host(name: str, *, guests: int = 100, cpu_mhz: int = 100_000, memory_mib: int = 100_000) -> SimulatedHost:
    """A host with these limits."""
    return SimulatedHost(uuid4(), name, 16, 2000, 65536, cpu_mhz, memory_mib, guests)


def address(host: SimulatedHost) -> HostAddress:
    """How a caller names the host."""
    return HostAddress(host.uuid, host.name, "192.0.2.1", "Simulator")
