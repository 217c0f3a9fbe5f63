"""Affinity groups, security groups, key pairs, user data and instance groups: made, shown, deleted, by whom."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.support.api.api_client import ApiFailure
from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDAs3LyV9oXbyyHP2K9cJ6k/+/WbwtxbYbEIsrgoCwkc acme-laptop"


@dataclass(frozen=True, slots=True)
class Noun:
    """How one kind of thing is made, listed and deleted."""

    create: str
    delete: str
    list: str
    parameters: Mapping[str, str]
    event: str
    deleted_by: str = "id"


NOUNS = (
    Noun(
        "createAffinityGroup",
        "deleteAffinityGroup",
        "listAffinityGroups",
        {"type": "Host Anti-Affinity", "description": "apart"},
        "AG",
    ),
    Noun("createSecurityGroup", "deleteSecurityGroup", "listSecurityGroups", {"description": "web"}, "SG"),
    Noun("createSSHKeyPair", "deleteSSHKeyPair", "listSSHKeyPairs", {}, "KEYPAIR", "name"),
    Noun("registerSSHKeyPair", "deleteSSHKeyPair", "listSSHKeyPairs", {"publickey": KEY}, "KEYPAIR", "name"),
    Noun(
        "registerUserData", "deleteUserData", "listUserData", {"userdata": "aGVsbG8", "params": "a,b"}, "USER.DATA"
    ),
    Noun("createInstanceGroup", "deleteInstanceGroup", "listInstanceGroups", {}, "VMGROUP"),
)
each_noun = pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.create)


@each_noun
def test_what_is_made_is_shown_once_and_then_deleted(owned_world: World, noun: Noun) -> None:
    """Made under a name that its owner has once; others neither find nor delete it; deleted, it is gone."""
    world, name = owned_world, f"cycle of {noun.create}"
    made = change(world, noun.create, USER, name=name, **noun.parameters)
    private = made.pop("privatekey", None)
    assert (private is not None) == (noun.create == "createSSHKeyPair")
    assert (made["name"], made["account"], made["domain"]) == (name, "acme", "acme")
    assert world.rows(noun.list, USER, id=made["id"]) == [made]
    again = refusal(world, noun.create, USER, name=name, **noun.parameters)
    assert (again.status, name in again.errortext) == (431, True)
    assert refusal(world, noun.list, NEIGHBOUR, id=made["id"]).status == 431
    by = {"id": made["id"]} if noun.deleted_by == "id" else {"name": name}
    for stranger in (NEIGHBOUR, RIVAL):
        assert refusal(world, noun.delete, stranger, **by).status == 431
    assert change(world, noun.delete, USER, **by) == {"success": True}
    assert world.rows(noun.list, USER, id=made["id"]) == []
    assert refusal(world, noun.delete, USER, **by).status == 431
    kinds = [row["type"] for row in world.rows("listEvents", USER) if name in row["description"]]
    assert len(kinds) == 2
    assert all(noun.event in kind for kind in kinds)
    change(world, noun.create, USER, name=name, **noun.parameters)


@each_noun
def test_things_are_made_for_others_by_who_may(owned_world: World, noun: Noun) -> None:
    """An admin makes them for accounts below, a member for its project; nobody for strangers, or in two names."""
    world, name = owned_world, f"for others by {noun.create}"
    acme = {"account": "acme", "domainid": world.id_of("domains", "acme")}
    moon = {"projectid": world.id_of("projects", "moon")}
    for by, owner, shown in ((DOMAIN_ADMIN, acme, ("acme", None)), (USER, moon, (None, "moon"))):
        made = change(world, noun.create, by, name=name, **noun.parameters, **owner)
        assert (made.get("account"), made.get("project")) == shown
    for by, owner, status in ((NEIGHBOUR, acme, 531), (RIVAL, moon, 431), (ADMIN, {"account": "acme"}, 431)):
        assert refusal(world, noun.create, by, name=f"{name} 2", **noun.parameters, **owner).status == status
    assert refusal(world, noun.create, ADMIN, name=name, **noun.parameters, **acme, **moon).status == 431


@each_noun
def test_one_of_many_at_once_gets_the_name(owned_world: World, noun: Noun) -> None:
    """Six calls for one name at the same moment make one thing; the others hear that the name is taken."""
    world = owned_world
    client = world.client(USER)

    def make(_: int) -> int:
        try:
            client.call(noun.create, name=f"race of {noun.create}", **noun.parameters)
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(make, range(6))) == [200, 431, 431, 431, 431, 431]


def test_nothing_is_made_for_a_disabled_account(owned_world: World) -> None:
    """An account that is disabled gets nothing new, whoever asks."""
    world = owned_world
    world.change(
        "INSERT INTO accounts (name, domain_id, account_type, role_id, state)"
        " VALUES ('asleep', 1, 0, 4, 'disabled')"
    )
    owner = {"account": "asleep", "domainid": world.id_of("domains", "ROOT")}
    for noun in NOUNS:
        failure = refusal(world, noun.create, ADMIN, name="x", **noun.parameters, **owner)
        assert (failure.status, "asleep" in failure.errortext) == (531, True)


@pytest.mark.parametrize(
    ("command", "parameters", "text"),
    [
        ("createAffinityGroup", {"name": "x", "type": "close"}, "host anti-affinity"),
        ("createAffinityGroup", {"name": "x", "type": "explicitdedication"}, "dedicating"),
        ("createAffinityGroup", {"name": "x"}, "missing parameter type"),
        ("createAffinityGroup", {"name": "", "type": "host affinity"}, "name"),
        ("createAffinityGroup", {"name": "x" * 256, "type": "host affinity"}, "255"),
        ("deleteAffinityGroup", {}, "id, name"),
        ("deleteAffinityGroup", {"name": "nobody's"}, "nobody's"),
        ("deleteSecurityGroup", {"name": "default"}, "default"),
        ("registerSSHKeyPair", {"name": "x", "publickey": "ssh-rsa AAAA"}, "ssh-ed25519"),
        ("registerUserData", {"name": "x", "userdata": "!"}, "base64"),
        ("registerUserData", {"name": "x", "userdata": "aGk=", "params": "a b"}, "separated by commas"),
        ("deleteUserData", {"id": "1-2"}, "id"),
    ],
)
def test_bad_input_is_refused_by_name(
    owned_world: World, command: str, parameters: dict[str, str], text: str
) -> None:
    """A value that breaks a rule is a parameter error whose text names what would be accepted."""
    failure = refusal(owned_world, command, USER, **parameters)
    assert (failure.status, text in failure.errortext) == (431, True), failure.errortext


def test_a_private_key_sent_by_mistake_is_not_repeated(owned_world: World) -> None:
    """What was sent as a public key is not shown in the refusal: it may be a secret."""
    failure = refusal(owned_world, "registerSSHKeyPair", USER, name="oops", publickey="-----BEGIN SECRET-----")
    assert (failure.status, "SECRET" in failure.errortext) == (431, False)


def test_groups_in_use(owned_world: World) -> None:
    """A security group that a VM is in is not deleted; affinity and instance groups let their VMs go."""
    world = owned_world
    ids = {}
    for noun in NOUNS:
        if "Group" in noun.create:
            ids[noun.delete] = change(world, noun.create, USER, name="in use", **noun.parameters)["id"]
    world.deploy("user-of-groups", "acme", "acme", group="in use", affinitygroupnames="in use")
    world.change(
        "INSERT INTO vm_security_groups SELECT v.id, g.id FROM virtual_machines v, security_groups g"
        " WHERE v.name = 'user-of-groups' AND g.name = 'in use'"
    )
    failure = refusal(world, "deleteSecurityGroup", USER, id=ids["deleteSecurityGroup"])
    assert (failure.status, failure.cserrorcode) == (536, 4375)
    assert world.id_of("virtual_machines", "user-of-groups") in failure.errortext
    (vm,) = world.rows("listVirtualMachines", USER, name="user-of-groups")
    assert [group["name"] for group in vm["affinitygroup"]] == ["in use"]
    change(world, "deleteAffinityGroup", USER, id=ids["deleteAffinityGroup"])
    (vm,) = world.rows("listVirtualMachines", USER, name="user-of-groups")
    assert vm["affinitygroup"] == []
    (vm,) = world.rows("listVirtualMachines", USER, name="user-of-groups")
    assert vm["groupid"] == ids["deleteInstanceGroup"]
    renamed = change(world, "updateInstanceGroup", USER, id=vm["groupid"], name="renamed")
    assert renamed["name"] == "renamed"
    change(world, "deleteInstanceGroup", USER, id=vm["groupid"])
    (vm,) = world.rows("listVirtualMachines", USER, name="user-of-groups")
    assert "groupid" not in vm


def test_a_new_name_is_taken_by_one(owned_world: World) -> None:
    """Renaming a group to a name that its owner has is refused; security groups are renamed by root admins only."""
    world = owned_world
    for create, update, by in (
        ("createInstanceGroup", "updateInstanceGroup", USER),
        ("createSecurityGroup", "updateSecurityGroup", ADMIN),
    ):
        one = change(world, create, USER, name="one")
        change(world, create, USER, name="two")
        assert refusal(world, update, by, id=one["id"], name="two").status == 431
        assert change(world, update, by, id=one["id"], name="three")["name"] == "three"
        assert change(world, update, by, id=one["id"])["name"] == "three"
    assert refusal(world, "updateSecurityGroup", USER, id=one["id"], name="four").status == 432
