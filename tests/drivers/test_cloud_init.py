"""The network configuration of guests; tests/cloud_init tries what cloud-init's renderers make of it."""

from uuid import UUID, uuid4

from bulkdeploy.drivers.cloud_init import network_config
from bulkdeploy.drivers.guests import NicSpec

DEFAULT = NicSpec(
    uuid4(), "02:00:00:00:00:0A", "10.0.0.5", UUID(int=1), None, netmask="255.255.255.0", gateway="10.0.0.1",
    dns=("192.0.2.53",), mtu=1450, is_default=True,
)  # fmt: skip
OTHER = NicSpec(
    uuid4(), "02:00:00:00:00:0b", "172.16.0.5", UUID(int=2), None, netmask="255.255.0.0", gateway="172.16.0.1"
)
DYNAMIC = NicSpec(uuid4(), "02:00:00:00:00:0c", None, UUID(int=3), None)


def test_only_the_default_network_has_a_gateway() -> None:
    """Two default routes would make one of the networks unreachable."""
    first, second, third = network_config((DEFAULT, OTHER, DYNAMIC))["config"]
    assert first["subnets"] == [
        {"type": "static", "address": "10.0.0.5/24", "gateway": "10.0.0.1", "dns_nameservers": ["192.0.2.53"]}
    ]
    assert second["subnets"] == [{"type": "static", "address": "172.16.0.5/16"}]
    assert third["subnets"] == [{"type": "dhcp4"}]
    assert (first["mtu"], "mtu" in second) == (1450, False)


def test_interfaces_are_found_by_mac_address_or_by_the_name_that_the_host_chose() -> None:
    """Never by both: the interface of a container has no permanent MAC address."""
    by_address = network_config((DEFAULT, OTHER))["config"]
    assert [(one["name"], one["mac_address"]) for one in by_address] == [
        ("eth0", "02:00:00:00:00:0a"),
        ("eth1", "02:00:00:00:00:0b"),
    ]
    by_name = network_config((DEFAULT, OTHER), {DEFAULT.uuid: "eth3", OTHER.uuid: "eth0"})["config"]
    assert [one["name"] for one in by_name] == ["eth3", "eth0"]
    assert not any("mac_address" in one for one in by_name)
