"""Health checks connect to guests in listed networks only, and never to machines of the service."""

from ipaddress import IPv4Address

import pytest

from bulkdeploy.security.guest_networks import GuestNetworks

EVERYWHERE = ["0.0.0.0/0", "::/0"]


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.8.9.10",
            "169.254.169.254",
            str(IPv4Address(0)),
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
        ),
        *("::1", "::", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.20.0.1", "64:ff9b::7f00:1"),
    ],
)
def test_special_addresses_are_never_connected_to(address: str) -> None:
    """A network that contains them allows them no more."""
    assert GuestNetworks.read(EVERYWHERE).connectable([address]) == frozenset()


def test_guests_are_connected_to_in_listed_networks() -> None:
    """Without networks none is; servers of the service are none."""
    addresses = ["10.20.0.1", "10.20.0.2", "10.21.0.1", "fd00::1"]
    assert GuestNetworks().connectable(addresses) == frozenset()
    listed = GuestNetworks.read(["10.20.0.0/16", "fd00::/64"], own_hosts=["10.20.0.2", "no-such-host.invalid"])
    assert listed.connectable(addresses) == {"10.20.0.1", "fd00::1"}


def test_this_machine_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel knows the machine's own addresses."""
    monkeypatch.setattr("bulkdeploy.security.guest_networks.is_own", lambda address: str(address) == "10.20.0.3")
    assert GuestNetworks.read(["10.20.0.0/16"]).connectable(["10.20.0.3", "10.20.0.4"]) == {"10.20.0.4"}
