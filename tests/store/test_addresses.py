"""Addresses: unique under any race, returned, skipped when asked for by name, bound to pods."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, insert, text

from bulkdeploy.domain.errors import InsufficientAddresses
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.ledger.addresses import (
    Address,
    format_mac,
    release_addresses_of,
    take_addresses,
    take_mac_addresses,
    take_named_address,
)
from bulkdeploy.store.tables.networks import ip_ranges, networks, nics
from bulkdeploy.store.tables.topology import pods
from tests.store.hosts import make_hosts


def make_network(connection: Connection, first: int = 10, last: int = 19, *, gateway: str = "10.1.0.1") -> int:
    """The id of a network with one range, 10.1.0.``first`` to 10.1.0.``last``."""
    make_hosts(connection, 1, vms=1)
    zone, offering, admin = connection.execute(
        text(
            "SELECT (SELECT id FROM zones), (SELECT min(id) FROM network_offerings), a.id FROM accounts a"
            " WHERE name = 'admin'"
        )
    ).one()
    network = connection.execute(
        insert(networks)
        .values(
            name="n",
            display_text="n",
            zone_id=zone,
            network_offering_id=offering,
            guest_type="Shared",
            acl_type="Domain",
            account_id=admin,
            domain_id=1,
        )
        .returning(networks.c.id)
    ).scalar_one()
    add_range(connection, network, first, last, gateway=gateway)
    return int(network)


def add_range(
    connection: Connection,
    network: int,
    first: int,
    last: int,
    *,
    gateway: str = "10.1.0.1",
    pod: int | None = None,
) -> None:
    """Another range of the network."""
    connection.execute(
        insert(ip_ranges).values(
            network_id=network,
            pod_id=pod,
            start_ip=f"10.1.0.{first}",
            end_ip=f"10.1.0.{last}",
            next_ip=f"10.1.0.{first}",
            gateway=gateway,
            netmask="255.255.255.0",
        )
    )


def keep(connection: Connection, network: int, taken: list[Address]) -> list[int]:
    """Write a nic for each address, of a VM of its own; the VMs' ids."""
    vms = [int(str(uuid4().int)[:15]) for _ in taken]
    connection.execute(
        insert(nics),
        [
            {
                "vm_id": vm,
                "network_id": network,
                "ip_range_id": address.range_id,
                "ip_address": address.ip,
                "mac_address": str(uuid4()),
                "device_id": 0,
                "is_default": True,
            }
            for vm, address in zip(vms, taken, strict=True)
        ],
    )
    return vms


def take(connection: Connection, network: int, count: int) -> list[str]:
    """Take and keep ``count`` addresses."""
    taken = take_addresses(connection, network, "n", [None] * count)
    keep(connection, network, taken)
    return [address.ip for address in taken]


def test_addresses_are_taken_in_order_without_the_gateway(engine: Engine) -> None:
    """The range is handed out from its start; its gateway is not."""
    with engine.begin() as connection:
        network = make_network(connection, gateway="10.1.0.12")
        assert take(connection, network, 4) == ["10.1.0.10", "10.1.0.11", "10.1.0.13", "10.1.0.14"]


def test_returned_addresses_are_used_again_once(engine: Engine) -> None:
    """What a VM gave back is handed out before new ones, and only once."""
    with engine.begin() as connection:
        network = make_network(connection)
        vms = keep(connection, network, take_addresses(connection, network, "n", [None] * 3))
        for _ in range(2):
            release_addresses_of(connection, vms[1:2])
        assert take(connection, network, 2) == ["10.1.0.11", "10.1.0.13"]


def test_an_address_in_use_is_not_handed_out_though_it_is_listed_as_free(engine: Engine) -> None:
    """Deployments go on where that is wrong; the audit names the address, and heal mends it."""
    with engine.begin() as connection:
        network = make_network(connection)
        vms = keep(connection, network, take_addresses(connection, network, "n", [None] * 3))
        release_addresses_of(connection, vms[1:2])
        connection.execute(
            text(
                "INSERT INTO released_addresses (ip_range_id, ip_address)"
                " SELECT ip_range_id, ip_address FROM nics WHERE removed IS NULL"
            )
        )
        assert take(connection, network, 2) == ["10.1.0.11", "10.1.0.13"]


def test_a_named_address_is_given_once_and_skipped_later(engine: Engine) -> None:
    """An address above the cursor can be asked for; the cursor passes it by; returning it loses nothing."""
    with engine.begin() as connection:
        network = make_network(connection)
        named = take_named_address(connection, network, "10.1.0.12")
        assert named is not None
        (vm,) = keep(connection, network, [named])
        assert take_named_address(connection, network, "10.1.0.12") is None
        assert take_named_address(connection, network, "10.9.0.12") is None
        assert take(connection, network, 3) == ["10.1.0.10", "10.1.0.11", "10.1.0.13"]
        release_addresses_of(connection, [vm])
        assert take(connection, network, 2) == ["10.1.0.12", "10.1.0.14"]


def test_a_named_address_returned_before_the_cursor_came_is_not_doubled(engine: Engine) -> None:
    """Given back above the cursor, an address is found by the cursor and not listed as returned."""
    with engine.begin() as connection:
        network = make_network(connection, 10, 12)
        named = take_named_address(connection, network, "10.1.0.11")
        assert named is not None
        release_addresses_of(connection, keep(connection, network, [named]))
        assert take(connection, network, 3) == ["10.1.0.10", "10.1.0.11", "10.1.0.12"]


def test_a_network_that_runs_out_says_how_many_are_free(engine: Engine) -> None:
    """Too few addresses over all ranges: the refusal counts them."""
    with engine.begin() as connection:
        network = make_network(connection, 10, 12)
        add_range(connection, network, 20, 21)
        with pytest.raises(InsufficientAddresses) as refusal:
            take_addresses(connection, network, "n", [None] * 6)
        assert (refusal.value.requested, refusal.value.free) == (6, 5)


def test_ranges_of_a_pod_serve_that_pod(engine: Engine) -> None:
    """In a network with a range per pod each VM gets an address of its pod, in the order asked."""
    with engine.begin() as connection:
        network = make_network(connection, 10, 12)
        zone = connection.execute(text("SELECT id FROM zones")).scalar_one()
        first, second = connection.execute(
            insert(pods).returning(pods.c.id), [{"name": "x", "zone_id": zone}, {"name": "y", "zone_id": zone}]
        ).scalars()
        add_range(connection, network, 100, 109, pod=first)
        add_range(connection, network, 200, 209, pod=second)
        taken = take_addresses(connection, network, "n", [second, first, None, second])
        assert [address.ip for address in taken] == ["10.1.0.200", "10.1.0.100", "10.1.0.10", "10.1.0.201"]


def test_racing_takers_never_get_the_same_address(engine: Engine) -> None:
    """Eight threads empty a range together: every address is given exactly once."""
    with engine.begin() as connection:
        network = make_network(connection, 10, 249)
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda _: run_transaction(engine, lambda c: take(c, network, 5)), range(48)))
    assert sorted(ip for batch in batches for ip in batch) == sorted(f"10.1.0.{n}" for n in range(10, 250))


def test_mac_addresses_are_local_unicast_and_never_repeat(engine: Engine) -> None:
    """Generated MAC addresses are unique over calls and locally administered."""
    with engine.begin() as connection:
        macs = take_mac_addresses(connection, 100) + take_mac_addresses(connection, 100)
    assert len(set(macs)) == 200
    assert {int(mac[:2], 16) & 3 for mac in macs} == {2}
    assert format_mac(0x123456) == "1e:00:00:12:34:56"
