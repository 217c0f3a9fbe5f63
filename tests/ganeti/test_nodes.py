"""What operators say of nodes on a live cluster becomes the state of hosts: ``make test-ganeti``."""

from collections.abc import Iterator

import pytest

from bulkdeploy.drivers.errors import DriverError, HostDrained
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.hosts import HostAddress
from tests.ganeti.live import PATIENCE_S, address, gnt, needs_cluster, options

pytestmark = needs_cluster

HOSTS = [address(1), address(2), address(99)]


@pytest.fixture
def driver() -> Iterator[GanetiDriver]:
    """A driver of the cluster, whose node2 is as it was afterwards."""
    made = GanetiDriver.from_options(options())
    yield made
    made.close()
    gnt("gnt-node", "modify", "--force", "--offline=no", "--drained=no", "node2")


def look(driver: GanetiDriver, host: HostAddress) -> object:
    """What a look says of one host: its guests, or the kind of error."""
    answer = driver.look_at_hosts(HOSTS, timeout_s=PATIENCE_S)[HOSTS.index(host)]
    return type(answer) if isinstance(answer, DriverError) else answer


def test_drained_and_offline_nodes_are_told_apart(driver: GanetiDriver) -> None:
    """One takes no new guests, the other does not answer, and both come back; what is no node never answers."""
    _, second, unknown = HOSTS
    assert look(driver, second) == []
    gnt("gnt-node", "modify", "--drained=yes", "node2")
    assert look(driver, second) is HostDrained
    gnt("gnt-node", "modify", "--drained=no", "node2")
    gnt("gnt-node", "modify", "--offline=yes", "node2")
    assert look(driver, second) is DriverError
    gnt("gnt-node", "modify", "--force", "--offline=no", "node2")
    assert look(driver, second) == []
    assert look(driver, unknown) is DriverError
