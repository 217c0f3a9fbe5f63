"""Simulated machines are what their urls say."""

from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.inventory import list_hosts
from tests.drivers.subjects import PATIENCE_S, Caller, address, new_guest


def machine(uuid: UUID, url: str) -> NewHost:
    """A machine that is to be a host with this uuid."""
    return NewHost(uuid, "KVM", HostAccess(url), HostPromise(Decimal("2.5"), Decimal(1), 7))


def test_a_host_is_known_once_it_was_admitted(simulator: SimulatorDriver, control: Connection) -> None:
    """It has what its url says, promises that times over-commit, and takes guests; asked anew, it may have more."""
    uuid, url = uuid4(), "http://rack1/row2/h7?cpu_cores=3&cpu_mhz=1001&memory_mib=4096"
    model = simulator.admit_host(machine(uuid, url), timeout_s=PATIENCE_S)
    assert (model.name, model.cpu_cores, model.cpu_mhz, model.memory_mib) == ("rack1-row2-h7", 3, 1001, 4096)
    assert model.ip_address.startswith("127.")
    (known,) = [use.host for use in list_hosts(control)]
    assert (known.cpu_mhz_limit, known.memory_mib_limit, known.guests_limit) == (7507, 4096, 7)
    Caller(simulator).run(address(known), new_guest())
    simulator.admit_host(machine(uuid, f"{url}0"), timeout_s=PATIENCE_S)
    (use,) = list_hosts(control)
    assert (use.host.memory_mib, use.guests_used) == (40960, 1)


@pytest.mark.parametrize("query", ["cores=4", "cpu_cores=0", "cpu_cores=1e3", "memory_mib=", "cpu_mhz=99999999999"])
def test_no_host_is_made_of_nonsense(simulator: SimulatorDriver, control: Connection, query: str) -> None:
    """A size that no host can have is refused for good, and nothing is known afterwards."""
    with pytest.raises(DriverError) as caught:
        simulator.admit_host(machine(uuid4(), f"http://a/b?{query}"), timeout_s=PATIENCE_S)
    assert not caught.value.transient
    assert list_hosts(control) == []


def test_a_pool_is_as_large_as_its_url_says(simulator: SimulatorDriver) -> None:
    """1 TiB where nothing is said."""
    assert simulator.pool_size_bytes("nfs://server/export", timeout_s=PATIENCE_S) == 1024**4
    assert simulator.pool_size_bytes("nfs://server/export?size_gib=5", timeout_s=PATIENCE_S) == 5 * 1024**3
