"""moveUser."""

import pytest

from tests.support.api.api_client import ApiFailure
from tests.support.zones.world import DOMAIN_ADMIN, USER, World


def make_account(world: World, name: str, domain: str) -> str:
    """Make an account of a user, and return its id."""
    person = {"email": "a@example.org", "firstname": "A", "lastname": "B", "password": "a long password"}
    domain_id = world.id_of("domains", domain)
    call = world.client().call("createAccount", username=name, accounttype=0, domainid=domain_id, **person)
    return str(call["account"]["id"])


def test_a_user_moves_with_its_keys_inside_its_domain(fresh_world: World) -> None:
    """The user acts for its new account with the keys that it had; accounts of other domains are refused."""
    make_account(fresh_world, "mover", "acme")
    foreign = make_account(fresh_world, "foreign", "ROOT")
    user = fresh_world.id_of("users", "mover", "username")
    assert fresh_world.names("listAccounts", "mover") == ["mover"]
    with pytest.raises(ApiFailure, match="another one"):
        fresh_world.client().call("moveUser", id=user, accountid=foreign)
    with pytest.raises(ApiFailure):
        fresh_world.client(USER).call("moveUser", id=user, account=USER)
    for account in (USER, "mover", USER):
        fresh_world.client(DOMAIN_ADMIN).call("moveUser", id=user, account=account)
        assert fresh_world.names("listAccounts", "mover") == [account]
