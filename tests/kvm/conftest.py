"""Three hosts for the run, and the smallest guest that there is; without them the modules here are skipped."""

from collections.abc import Iterator

import pytest

from tests.support.libvirt_hosts import LibvirtHosts, libvirt_hosts


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
