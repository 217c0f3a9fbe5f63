"""Permissions for networks: who gives and takes them, what they open, and what they leave closed."""

from collections.abc import Iterator

import pytest

from bulkdeploy.store.deployments.deployment_facts import read_networks
from tests.support.api.callers import refused
from tests.support.zones.world import ADMIN, USER, World, open_world

OWNER, OTHER = USER, "neighbour"


@pytest.fixture
def own_world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """Open a world that the test may change."""
    with open_world(request, populated_database) as made:
        yield made


def named(world: World, caller: str, **parameters: str) -> set[str]:
    """Return the names of the networks that a caller is shown."""
    return set(world.names("listNetworks", caller, **parameters))


def usable(world: World, account: str) -> bool:
    """Return whether VMs of an account may be in the network."""
    with world.engine.connect() as connection:
        (facts,) = [one for one in read_networks(connection) if one.name == "acme-isolated"]
    account_id = world.scalar("SELECT id FROM accounts WHERE name = :name", name=account)
    return account_id in facts.shared_with


def test_a_permission_opens_a_network_to_an_account(own_world: World) -> None:
    """The account sees the network by networkfilter Shared and All, and may use it, until it is taken back."""
    world = own_world
    network, other = world.id_of("networks", "acme-isolated"), world.id_of("accounts", OTHER)
    for parameters in ({"accountids": other}, {"accounts": OTHER.upper()}):
        world.client(OWNER).call("createNetworkPermissions", networkid=network, **parameters)
        world.client(OWNER).call("createNetworkPermissions", networkid=network, **parameters)
        (row,) = world.rows("listNetworkPermissions", OWNER, networkid=network)
        assert (row["account"], row["accountid"], row["networkid"]) == (OTHER, other, network)
        shown = {
            word: "acme-isolated" in named(world, OTHER, networkfilter=word)
            for word in ("Account", "Shared", "All")
        }
        assert (shown, usable(world, OTHER)) == ({"Account": False, "Shared": True, "All": True}, True)
        assert "acme-isolated" not in named(world, OWNER, networkfilter="Shared")
        world.client(OWNER).call("removeNetworkPermissions", networkid=network, **parameters)
        assert ("acme-isolated" in named(world, OTHER), usable(world, OTHER)) == (False, False)
    world.client(ADMIN).call("createNetworkPermissions", networkid=network, accounts=f"{OTHER},{OWNER}")
    assert [row["account"] for row in world.rows("listNetworkPermissions", networkid=network)] == [OTHER]
    world.client(OWNER).call("resetNetworkPermissions", networkid=network)
    assert world.rows("listNetworkPermissions", networkid=network) == []
    events = world.client(OWNER).call("listEvents", type="NETWORK.PERMISSION.UPDATE")["event"]
    assert len(events) == 8


def test_who_may_not_and_what_is_not_shared(own_world: World) -> None:
    """Foreign callers, accounts of other domains, unknown ones, networks of domains and of projects are refused."""
    world = own_world
    network, wide = world.id_of("networks", "acme-isolated"), world.id_of("networks", "customers-wide")
    rival = world.id_of("accounts", "rival")
    for caller, parameters, parameter in (
        (OWNER, {"networkid": network, "accountids": rival}, "accountids"),
        (OWNER, {"networkid": network, "accountids": "nobody"}, "accountids"),
        (OWNER, {"networkid": network, "accounts": "rival"}, "accounts"),
        (ADMIN, {"networkid": wide, "accounts": OTHER}, "networkid"),
        (OTHER, {"networkid": network, "accounts": OTHER}, "networkid"),
    ):
        failure = refused(world.client(caller), "createNetworkPermissions", **parameters)
        assert (failure.errorcode, parameter in failure.errortext) == (431, True), failure
    world.client(OWNER).call("createNetworkPermissions", networkid=network, accounts=OTHER)
    for command in ("createNetworkPermissions", "resetNetworkPermissions", "removeNetworkPermissions"):
        parameters = {} if command.startswith("reset") else {"accounts": OTHER}
        assert refused(world.client(OTHER), command, networkid=network, **parameters).errorcode == 531
    assert world.client(OTHER).get("listNetworkPermissions", networkid=network).status == 531
    moon = "(SELECT id FROM accounts WHERE name = 'moon-account')"
    world.change(f"UPDATE networks SET account_id = {moon} WHERE name = 'acme-isolated'")
    failure = refused(world.client(ADMIN), "createNetworkPermissions", networkid=network, accounts=OTHER)
    assert "belongs to a project" in failure.errortext
