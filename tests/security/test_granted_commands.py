"""What callers who are no root administrators see of other users, accounts and hosts if a role allows it."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.responses import Field
from bulkdeploy.domain.accounts.accounts import RoleType
from tests.support.api.account_calls import PASSWORD, PERSON, can_log_in, keyed, make_account, new_name, refusal
from tests.support.api.api_client import ApiClient
from tests.support.zones.world import DOMAIN_ADMIN, USER, World

OF_PLACES = frozenset(
    {
        *("hostid", "hostname", "hosts", "clusterid", "clustername", "clusters", "podid", "podname", "pods"),
        *("storageid", "storage", "pools", "storagepools", "capacity", "capacitytotal", "capacityused"),
        *("capacityallocated", "cpuallocated", "memoryallocated", "disksizeallocated", "losthostid", "fromhostid"),
        *("consumerid", "consumername", "physicalnetworkid", "broadcastdomainrange"),
    }
)
"""Fields that name hosts, clusters, pods and pools, or say how full they are."""

ABOUT_PLACES = (
    *("Cluster", "Host", "Pod", "StoragePool", "StorageMaintenance", "StorageUnit", "Capacity", "Allocations"),
    *("Zone", "PhysicalNetwork", "VlanIpRange", "TrafficType", "NetworkServiceProvider", "Infrastructure"),
    *("Unmanaged", "unmanage", "OutOfBandManagement"),
)
"""Parts of the names of commands that exist to show or change places: who allows them allows to see places."""

AMONG_THEM_FOR_USERS = ("calculateCapacity", "listZones")
"""Commands with such a name that can also be of use to users."""


def fields_for_users(fields: Iterable[Field]) -> Iterator[Field]:
    """Yield the fields at any depth that callers whose role is of type User see."""
    for field in fields:
        if RoleType.USER in field.roles:
            yield field
            if field.name != "jobresult":
                yield from fields_for_users(field.fields)


def shows_places_by_purpose(name: str) -> bool:
    """Return whether a command exists to show or change places."""
    return name not in AMONG_THEM_FOR_USERS and any(part in name for part in ABOUT_PLACES)


@pytest.mark.parametrize("name", sorted(name for name in find_commands() if not shows_places_by_purpose(name)))
def test_commands_for_users_show_no_places(name: str) -> None:
    """No field that names a host, cluster, pod or pool, or its capacity, is shown to users by such a command."""
    command: Command = find_commands()[name]
    fields = [field for response in (command.response, command.instead) if response for field in response.fields]
    assert {field.name for field in fields_for_users(fields)} & OF_PLACES == set()


def opened(world: World, *, domain: str = "acme", role_type: str = "User") -> tuple[ApiClient, dict[str, Any]]:
    """Make an account whose role allows every command, and a client with its user's keys."""
    role = world.client().call("createRole", name=new_name("role"), type=role_type)["role"]
    world.client().call("createRolePermission", roleid=role["id"], rule="*", permission="allow")
    made = make_account(world, domain=domain, roleid=role["id"], accounttype="")
    return keyed(world, made), made


def test_calculate_capacity_shows_no_hosts(world: World) -> None:
    """A user whose role allows calculateCapacity learns how many VMs fit, and no name or id of a host."""
    client, _ = opened(world)
    answer = client.get(
        "calculateCapacity",
        zoneid=world.id_of("zones", "small"),
        serviceofferingid=world.id_of("service_offerings", "Small"),
        templateid=world.id_of("templates", "Debian 12"),
        networkids=world.id_of("networks", "guests"),
    )
    found = answer.body["remainingcapacity"]
    assert found["count"] > 0
    hosts = world.rows("listHosts", type="Routing")
    shown = orjson.dumps(answer.body).decode()
    assert not [host["name"] for host in hosts if host["name"] in shown or host["id"] in shown]
    assert {"hosts", "before", "after"}.isdisjoint(found)


@pytest.fixture
def colleagues(world: World) -> tuple[ApiClient, dict[str, Any], dict[str, Any]]:
    """A client of a user, the user itself, and another user of the same account."""
    account = make_account(world)
    own = account["user"][0]
    other = world.client().call(
        "createUser", account=account["name"], domainid=account["domainid"], username=new_name(), **PERSON
    )["user"]
    return keyed(world, account), own, other


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("getUserKeys", {}),
        ("registerUserKeys", {}),
        ("updateUser", {"firstname": "Mallory"}),
        ("updateUser", {"password": "a new long password", "currentpassword": PASSWORD}),
        ("updateUser", {"userapikey": "k" * 30, "usersecretkey": "s" * 30}),
    ],
)
def test_users_do_not_act_as_their_colleagues(
    world: World,
    colleagues: tuple[ApiClient, dict[str, Any], dict[str, Any]],
    command: str,
    more: dict[str, str],
) -> None:
    """A plain user cannot read or set the keys, password or names of another user of its account."""
    client, own, other = colleagues
    keys = world.client().call("registerUserKeys", id=other["id"])["userkeys"]
    code, shown = refusal(client.get(command, id=other["id"], **more))
    assert (code, keys["secretkey"] in shown) == (531, False)
    assert world.client().call("getUserKeys", id=other["id"])["userkeys"] == keys
    assert can_log_in(world, other["username"], "customers/acme")
    if command != "getUserKeys":
        assert client.get(command, id=own["id"], **more).status == 200


def test_users_do_not_act_on_colleagues_whatever_their_role_allows(world: World) -> None:
    """Even a role of type User that allows everything does not let a user lock, disable or delete a colleague."""
    _, made = opened(world)
    other = world.client().call(
        "createUser", account=made["name"], domainid=made["domainid"], username=new_name(), **PERSON
    )["user"]
    client = keyed(world, made)
    for command in ("disableUser", "lockUser", "deleteUser", "enableUser"):
        assert refusal(client.get(command, id=other["id"]))[0] == 531
    assert can_log_in(world, other["username"], "customers/acme")


def test_administrators_act_on_users_of_their_domain(world: World) -> None:
    """A domain administrator still gives keys to a user below it."""
    account = make_account(world)
    assert world.client(DOMAIN_ADMIN).get("registerUserKeys", id=account["user"][0]["id"]).status == 200


def test_an_api_key_shows_no_user_of_another_account(world: World) -> None:
    """GetUser finds a user by its API key only for callers that may see the user."""
    client, made = opened(world, domain="rivals")
    other = world.client(USER).api_key
    code, shown = refusal(client.get("getUser", userapikey=other))
    assert (code, USER in shown) == (431, False)
    assert client.call("getUser", userapikey=client.api_key)["user"]["account"] == made["name"]


@pytest.mark.parametrize(
    ("command", "noun", "table"),
    [
        ("listVolumes", "volume", "volumes"),
        ("listVirtualMachines", "virtualmachine", "virtual_machines"),
        ("listSnapshots", "snapshot", None),
    ],
)
def test_ids_do_not_stand_for_listall(world: World, command: str, noun: str, table: str | None) -> None:
    """An administrator that lists things of others by ``ids`` sees them only with ``listall``, or by one ``id``."""
    client = world.client()
    theirs = [row["id"] for row in client.call(command, listall="true").get(noun, ()) if row.get("account") == USER]
    if not theirs:
        assert table is None
        return
    assert not client.call(command, ids=",".join(theirs)).get(noun)
    assert len(client.call(command, ids=",".join(theirs), listall="true")[noun]) == len(theirs)
    assert client.call(command, id=theirs[0])[noun][0]["id"] == theirs[0]
