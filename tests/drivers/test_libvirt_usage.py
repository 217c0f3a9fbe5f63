"""The usage of pools as a daemon reports it, with the daemon inside libvirt that is made for tests."""

from uuid import UUID, uuid4

import pytest

from bulkdeploy.domain.virtual_machines.usage import PoolUsage

libvirt = pytest.importorskip("libvirt", reason="needs pip install 'bulkdeploy[libvirt]'")


def test_a_pool_is_measured_that_an_older_pool_serves() -> None:
    """A pool is found by its uuid or, if an older pool of the host has its folder, by that folder."""
    from bulkdeploy.drivers.libvirt.usage import read_pools

    connection = libvirt.open("test:///default")
    (older,) = connection.listAllStoragePools()
    size, served, missing = PoolUsage(0, older.info()[1]), uuid4(), uuid4()
    pools = {UUID(older.UUIDString()): "", served: "/default-pool", missing: "/missing"}
    assert read_pools(connection, pools) == {UUID(older.UUIDString()): size, served: size}
    older.destroy()
    assert read_pools(connection, pools) == {}
