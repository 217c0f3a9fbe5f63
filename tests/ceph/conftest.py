"""Three hosts and a Ceph for the run; without them the modules here are skipped."""

from collections.abc import Iterator

import pytest

from tests.kvm.conftest import bridged, made_bridged_hosts, made_hosts
from tests.support.hypervisors.ceph_cluster import CephCluster, ceph_cluster
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts

__all__ = ["bridged", "made_bridged_hosts", "made_hosts"]


@pytest.fixture(scope="session")
def made_ceph() -> Iterator[CephCluster]:
    """A Ceph that lasts for the run."""
    with ceph_cluster() as made:
        yield made


@pytest.fixture
def ceph(made_ceph: CephCluster) -> Iterator[CephCluster]:
    """The Ceph without images."""
    yield made_ceph
    made_ceph.clear()


@pytest.fixture
def kvm_hosts(made_hosts: LibvirtHosts, ceph: CephCluster) -> Iterator[LibvirtHosts]:
    """Daemons without guests, which end before the images of Ceph are removed."""
    del ceph
    yield made_hosts
    made_hosts.clear()
