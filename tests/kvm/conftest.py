"""Three hosts for the run, and the smallest guest that there is; without them the modules here are skipped."""

import os
from collections.abc import Iterator

import pytest

from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, libvirt_hosts
from tests.support.hypervisors.libvirt_networks import bridged_hosts


@pytest.fixture(scope="session")
def made_hosts() -> Iterator[LibvirtHosts]:
    """Daemons that last for the run."""
    with libvirt_hosts(3) as made:
        yield made


@pytest.fixture
def kvm_hosts(made_hosts: LibvirtHosts) -> Iterator[LibvirtHosts]:
    """Daemons without guests, volumes and pools."""
    yield made_hosts
    made_hosts.clear()


@pytest.fixture(scope="session")
def made_bridged_hosts() -> Iterator[LibvirtHosts]:
    """Two daemons of root's with bridges, joined."""
    if os.geteuid() != 0:
        pytest.skip("bridges and filters need root")
    with bridged_hosts(2) as made:
        yield made


@pytest.fixture
def bridged(made_bridged_hosts: LibvirtHosts) -> Iterator[LibvirtHosts]:
    """The two, without guests, volumes and pools."""
    yield made_bridged_hosts
    made_bridged_hosts.clear()
