"""Whom a caller may create for and act on: ``services.ownership`` behind deploy and lifecycle calls."""

import pytest
from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.errors import BulkDeployError, InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.services.ownership import may_access, require_access, resolve_owner
from bulkdeploy.store.accounts.callers import caller_by_api_key
from bulkdeploy.store.accounts.owners import owners_by_id
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World

CALLERS = (ADMIN, DOMAIN_ADMIN, USER, NEIGHBOUR, RIVAL)
VM_OF = {
    "acme": "acme-1",
    "neighbour": "neighbour-1",
    "rival": "rival-1",
    "admin": "admin-1",
    "moon-account": "moon-1",
}
"""A VM of each owner."""


def caller(world: World, connection: Connection, username: str) -> Caller:
    """A user as the dispatcher hands it on."""
    holder = caller_by_api_key(connection, world.client(username).api_key)
    assert holder is not None
    return holder.caller


def owner(world: World, connection: Connection, account: str) -> Owner:
    """An account as an owner."""
    account_id = int(world.scalar("SELECT id FROM accounts WHERE name = :name", name=account))
    return owners_by_id(connection, [account_id])[account_id]


def domain_id(world: World, name: str) -> int:
    """The internal id of a domain."""
    return int(world.scalar("SELECT id FROM domains WHERE name = :name", name=name))


@pytest.mark.parametrize("username", CALLERS)
@pytest.mark.parametrize("account", sorted(VM_OF))
def test_who_may_act_on_a_thing_finds_it_by_id(world: World, username: str, account: str) -> None:
    """Acting on a thing and finding it in a list are one right: nobody has one without the other."""
    vm = world.id_of("virtual_machines", VM_OF[account])
    with world.engine.connect() as connection:
        who, whose = caller(world, connection, username), owner(world, connection, account)
        allowed = may_access(connection, who, whose)
        answer = world.client(username).get("listVirtualMachines", id=vm)
        found = [row["name"] for row in answer.body.get("virtualmachine", [])]
        assert (answer.status, found) == ((200, [VM_OF[account]]) if allowed else (431, []))
        if allowed:
            assert require_access(connection, who, whose.account_id, "it") == whose
        else:
            with pytest.raises(PermissionDenied, match=f"{username} does not have permission to operate with"):
                require_access(connection, who, whose.account_id, "it")


@pytest.mark.parametrize(
    ("username", "account", "domain", "project", "expected"),
    [
        (USER, None, None, None, "acme"),
        (ADMIN, None, None, None, "admin"),
        (ADMIN, "ACME", "acme", None, "acme"),
        (DOMAIN_ADMIN, "acme", "acme", None, "acme"),
        (USER, "acme", "acme", None, "acme"),
        (USER, None, None, "moon", "moon-account"),
        (USER, None, "acme", "moon", "moon-account"),
        (ADMIN, None, "acme", "moon", "moon-account"),
        (ADMIN, None, "rivals", "moon", InvalidParameter),
        (ADMIN, "acme", None, "moon", InvalidCombination),
        (RIVAL, None, "acme", "moon", PermissionDenied),
        (DOMAIN_ADMIN, None, None, "moon", "moon-account"),
        (ADMIN, "acme", None, None, InvalidCombination),
        (ADMIN, None, "acme", None, InvalidCombination),
        (ADMIN, "acme", "acme", "moon", InvalidCombination),
        (ADMIN, "nobody", "acme", None, InvalidParameter),
        (ADMIN, "moon-account", "acme", None, InvalidParameter),
        (USER, "nobody", "acme", None, PermissionDenied),
        (USER, "neighbour", "acme", None, PermissionDenied),
        (DOMAIN_ADMIN, "rival", "rivals", None, PermissionDenied),
        (DOMAIN_ADMIN, "admin", "ROOT", None, PermissionDenied),
        (RIVAL, None, None, "moon", PermissionDenied),
    ],
)
def test_an_owner_is_named_by_who_may(
    world: World,
    username: str,
    account: str | None,
    domain: str | None,
    project: str | None,
    expected: str | type[BulkDeployError],
) -> None:
    """A call creates for the caller, for the account named with its domain, or for the project; or is refused.

    A domain beside a project says nothing more, as Ansible's modules send it, and must be the project's.
    """
    domain_number = None if domain is None else domain_id(world, domain)
    project_number = None if project is None else int(world.scalar("SELECT id FROM projects"))
    with world.engine.connect() as connection:
        who = caller(world, connection, username)
        if isinstance(expected, str):
            found = resolve_owner(connection, who, account, domain_number, project_number)
            assert found.account_name == expected
        else:
            with pytest.raises(expected):
                resolve_owner(connection, who, account, domain_number, project_number)


def test_nothing_is_created_for_a_deleted_account(fresh_world: World) -> None:
    """An account that was deleted cannot be created for, even by its name."""
    fresh_world.change("UPDATE accounts SET removed = now() WHERE name = 'acme'")
    with fresh_world.engine.connect() as connection:
        who = caller(fresh_world, connection, ADMIN)
        with pytest.raises(InvalidParameter, match="Unable to find account by name acme"):
            resolve_owner(connection, who, "acme", domain_id(fresh_world, "acme"), None)
