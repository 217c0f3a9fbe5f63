"""Addresses by DHCP in networks of libvirt's: tried on libvirt's own ``test:///default``, which keeps networks."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from bulkdeploy.drivers.libvirt.domain import Interface

libvirt = pytest.importorskip("libvirt", reason="libvirt's binding is not installed: make test-kvm")

NIC = Interface(uuid4(), "02:00:00:00:00:01", "network", "default", ip_address="192.168.122.20")


@pytest.fixture
def connection() -> Iterator[Any]:
    """A daemon that is none, with one network of 192.168.122.0/24, which has DHCP."""
    opened = libvirt.open("test:///default")
    yield opened
    opened.close()


def entries(connection: Any) -> set[tuple[str, str]]:
    """MAC and address of each reservation of the network."""
    definition = connection.networkLookupByName("default").XMLDesc()
    return set(re.findall(r"<host mac='([^']*)' ip='([^']*)'/>", definition))


def test_a_nic_gets_its_own_address(connection: Any) -> None:
    """Asked once or often; another address takes the place of the one before, another nic that of the first."""
    from bulkdeploy.drivers.libvirt.networks.leases import ensure_lease

    for _ in range(2):
        ensure_lease(connection, NIC)
    assert entries(connection) == {("02:00:00:00:00:01", "192.168.122.20")}
    ensure_lease(connection, replace(NIC, ip_address="192.168.122.21"))
    ensure_lease(connection, replace(NIC, mac_address="02:00:00:00:00:02"))
    assert entries(connection) == {("02:00:00:00:00:01", "192.168.122.21"), ("02:00:00:00:00:02", "192.168.122.20")}
    ensure_lease(connection, replace(NIC, mac_address="02:00:00:00:00:03", ip_address="192.168.122.21"))
    assert entries(connection) == {("02:00:00:00:00:03", "192.168.122.21"), ("02:00:00:00:00:02", "192.168.122.20")}


@pytest.mark.parametrize(
    "nic",
    [
        replace(NIC, ip_address="10.0.0.5"),
        replace(NIC, ip_address=None),
        replace(NIC, kind="bridge", source="cloudbr0"),
    ],
)
def test_other_nics_are_none_of_its(connection: Any, nic: Interface) -> None:
    """Of another subnet, without an address, or on a bridge, where addresses come from elsewhere."""
    from bulkdeploy.drivers.libvirt.networks.leases import ensure_lease

    ensure_lease(connection, nic)
    assert entries(connection) == set()
