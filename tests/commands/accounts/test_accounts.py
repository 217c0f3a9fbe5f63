"""Accounts and users: who makes, changes, disables and deletes whom, and what that does at once."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api.account_calls import (
    PASSWORD,
    PERSON,
    can_log_in,
    done,
    keyed,
    make_account,
    new_name,
    refusal,
)
from tests.support.api.accounts import costly_hashes
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, USER, World

PATH = "customers/acme"


@pytest.fixture(scope="module")
def hers(world: World) -> dict[str, Any]:
    """An ordinary account."""
    return make_account(world)


def test_an_account_comes_with_a_user_who_can_log_in(world: World) -> None:
    """The account is called as its user, and has the role of its type and a group named default."""
    made = make_account(world, accounttype=2, timezone="Europe/Berlin", networkdomain="a.example")
    (user,) = made["user"]
    assert (made["name"], made["accounttype"], made["rolename"]) == (user["username"], 2, "Domain Admin")
    assert (made["state"], made["networkdomain"], user["timezone"]) == ("enabled", "a.example", "Europe/Berlin")
    assert can_log_in(world, user["username"], PATH)
    groups = world.client().call("listSecurityGroups", account=made["name"], domainid=made["domainid"])
    assert [group["name"] for group in groups["securitygroup"]] == ["default"]


def test_passwords_are_hashes_and_keys_are_encrypted(world: World) -> None:
    """Neither passwords nor secret keys can be read in the database, and no answer has a password.

    To try a password costs 64 MiB of memory, three times over, as the library recommends.
    """
    with costly_hashes():
        made = make_account(world)
    user = made["user"][0]["id"]
    secret = world.client().call("registerUserKeys", id=user)["userkeys"]["secretkey"]
    kept = "SELECT password_hash || encode(secret_key_encrypted, 'escape') FROM users u JOIN api_keys k"
    row = world.scalar(f"{kept} ON k.user_id = u.id WHERE u.uuid = :id", id=user)
    assert row.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert secret not in row
    assert PASSWORD not in row + str(made)
    assert can_log_in(world, made["name"], PATH)


def test_a_role_wins_over_a_type(world: World) -> None:
    """Terraform's provider sends both, the type as 0 where nobody gave one."""
    (role,) = world.rows("listRoles", name="Domain Admin")
    made = make_account(world, roleid=role["id"], accounttype=0)
    assert (made["accounttype"], made["rolename"]) == (2, "Domain Admin")


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"accounttype": 9}, "accounttype"),
        ({"accounttype": 5}, "accounttype"),
        ({"accounttype": ""}, "roleid"),
        ({"username": " "}, "username"),
        ({"username": "acme"}, "account"),
        ({"account": "other-account", "username": "ACME"}, "username"),
        ({"password": "  "}, "password"),
        ({"timezone": "Europe"}, "timezone"),
        ({"networkdomain": "-x"}, "networkdomain"),
        ({"accounttype": 1}, "domainid"),
    ],
)
def test_what_an_account_cannot_be(world: World, wrong: dict[str, object], parameter: str) -> None:
    """Every rule is told with its parameter, and no account is made."""
    before = world.scalar("SELECT count(*) FROM accounts")
    sent = {"username": new_name(), "accounttype": 0, "domainid": world.id_of("domains", "acme"), **PERSON, **wrong}
    code, text = refusal(world.client().get("createAccount", **sent))
    assert (code, world.scalar("SELECT count(*) FROM accounts")) == (431, before)
    assert parameter in text
    assert PASSWORD not in text


@pytest.mark.parametrize("kind", [1, 3])
def test_callers_grant_no_rights_they_lack(world: World, kind: int) -> None:
    """A domain admin makes neither root nor resource admins."""
    sent = {"username": new_name(), "accounttype": kind, **PERSON}
    code, text = refusal(world.client(DOMAIN_ADMIN).get("createAccount", **sent))
    assert (code, "may not administer" in text) == (531, True)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("updateUser", {"password": "taken over"}),
        ("registerUserKeys", {}),
        ("getUserKeys", {}),
        ("disableUser", {}),
        ("lockUser", {}),
        ("deleteUser", {}),
    ],
)
def test_a_domain_admin_of_root_is_no_root_admin(world: World, command: str, more: dict[str, object]) -> None:
    """Its domain has root admins in it, but whoever has more rights is not its to take over."""
    if not world.client().call("listAccounts", name="root-domain-admin", listall="true"):
        make_account(world, domain="ROOT", accounttype=2, username="root-domain-admin")
    admin = world.id_of("users", "admin", "username")
    code, text = refusal(world.client("root-domain-admin").get(command, id=admin, **more))
    assert (code, "may not administer account admin" in text) == (531, True)


def test_locking_keeps_out_and_enabling_lets_in(world: World) -> None:
    """Keys, sessions and passwords of a locked or disabled account are worth nothing until it is enabled."""
    made = make_account(world)
    name, domain = made["name"], made["domainid"]
    client = keyed(world, made)
    calls: list[Callable[[], dict[str, Any]]] = [
        lambda: world.client().call("lockAccount", account=name, domainid=domain),
        lambda: done(world, world.client().call("disableAccount", id=made["id"], lock="true")),
        lambda: done(world, world.client().call("disableAccount", id=made["id"], lock="false")),
    ]
    for call in calls:
        assert call()["account"]["state"] in ("locked", "disabled")
        assert client.get("listZones").status == 401
        assert not can_log_in(world, name, PATH)
        assert world.client().call("enableAccount", account=name, domainid=domain)["account"]["state"] == "enabled"
        assert client.get("listZones").status == 200


def test_disabling_stops_the_virtual_machines(world: World) -> None:
    """Each running VM of a disabled account gets a job that stops it; locking leaves them alone."""
    rival = world.id_of("accounts", "rival")
    world.change("UPDATE virtual_machines SET state = 'Running' WHERE name = 'rival-1'")
    jobs = "SELECT count(*) FROM async_jobs WHERE kind = 'stop_virtual_machine'"
    world.client().call("disableAccount", id=rival, lock="true")
    assert world.scalar(jobs) == 0
    world.client().call("disableAccount", id=rival, lock="false")
    assert world.scalar(jobs) == 1
    world.client().call("enableAccount", id=rival)


def test_names_roles_and_network_domains_change(world: World) -> None:
    """An account is renamed and gets another role, which decides what it may from the next call on."""
    made = make_account(world)
    client = keyed(world, made)
    assert client.get("listHosts").status == 432
    changed = world.client().call(
        "updateAccount",
        id=made["id"],
        newname=f"{made['name']}-new",
        roleid=world.id_of("roles", "Resource Admin"),
        networkdomain="b.example",
    )["account"]
    assert (changed["name"], changed["accounttype"]) == (f"{made['name']}-new", 3)
    assert changed["networkdomain"] == "b.example"
    assert client.get("listHosts").status == 200
    assert refusal(world.client().get("updateAccount", id=made["id"], newname="ACME"))[0] == 431


@pytest.mark.parametrize("command", ["disableAccount", "deleteAccount"])
def test_callers_cannot_lock_themselves_out(world: World, command: str) -> None:
    """The default admin's account and the caller's own stay."""
    for by, account in ((ADMIN, "admin"), (DOMAIN_ADMIN, "customers-admin")):
        sent = {"id": world.id_of("accounts", account), "lock": "true"}
        assert refusal(world.client(by).get(command, **sent))[0] == 431


def test_users_are_added_and_deleted(world: World, hers: dict[str, Any]) -> None:
    """A second user works with the account's things until it is deleted, and its name is free then."""
    sent = {"username": new_name(), "account": hers["name"], "domainid": hers["domainid"], **PERSON}
    for _ in range(2):
        user = world.client(DOMAIN_ADMIN).call("createUser", **sent)["user"]
        assert user["account"] == hers["name"]
        assert can_log_in(world, user["username"], PATH)
        assert "username" in refusal(world.client().get("createUser", **sent))[1]
        assert world.client(DOMAIN_ADMIN).call("deleteUser", id=user["id"]) == {"success": True}
        assert not can_log_in(world, user["username"], PATH)
        assert refusal(world.client().get("deleteUser", id=user["id"]))[0] == 431


def test_disabled_users_are_kept_out(world: World) -> None:
    """DisableUser and lockUser shut out one user; enableUser forgets failed logins too."""
    made = make_account(world)
    user = made["user"][0]
    assert done(world, world.client().call("disableUser", id=user["id"]))["user"]["state"] == "disabled"
    assert not can_log_in(world, user["username"], PATH)
    assert world.client().call("enableUser", id=user["id"])["user"]["state"] == "enabled"
    assert world.client().call("lockUser", id=user["id"])["user"]["state"] == "locked"
    assert not can_log_in(world, user["username"], PATH)
    world.change("UPDATE users SET failed_logins = 9 WHERE uuid = :id", id=user["id"])
    assert world.client().call("enableUser", id=user["id"])["user"]["state"] == "enabled"
    assert can_log_in(world, user["username"], PATH)


def test_the_own_password_needs_the_current_one(world: World) -> None:
    """Wrong ones count as failed logins do, so a stolen session cannot guess; admins above need none."""
    made = make_account(world)
    user, client = made["user"][0], keyed(world, made)
    new = {"id": user["id"], "password": "another password"}
    for more in ({}, {"currentpassword": "wrong"}):
        code, text = refusal(client.get("updateUser", **new, **more))
        assert (code, "currentpassword" in text) == (431, True)
    assert world.scalar("SELECT failed_logins FROM users WHERE uuid = :id", id=user["id"]) == 1
    client.call("updateUser", **new, currentpassword=PASSWORD)
    assert not can_log_in(world, user["username"], PATH)
    assert can_log_in(world, user["username"], PATH, "another password")
    sessions = "SELECT count(*) FROM sessions s JOIN users u ON u.id = s.user_id WHERE u.uuid = :id"
    assert world.scalar(sessions, id=user["id"]) == 1
    world.client(DOMAIN_ADMIN).call("updateUser", id=user["id"], password=PASSWORD, firstname="Other")
    assert world.scalar(sessions, id=user["id"]) == 0


def test_users_of_one_account_do_not_become_each_other(world: World) -> None:
    """A user changes neither a colleague's password, even with the current one, nor a stranger's."""
    made, other = make_account(world), make_account(world)
    colleague = {**PERSON, "username": new_name(), "account": made["name"], "domainid": made["domainid"]}
    theirs, client = world.client().call("createUser", **colleague)["user"]["id"], keyed(world, made)
    for more in ({}, {"currentpassword": PASSWORD}):
        assert refusal(client.get("updateUser", id=theirs, password="taken over", **more))[0] == 531
    stranger = {"id": other["user"][0]["id"], "password": "taken over", "currentpassword": "a guess"}
    code, text = refusal(client.get("updateUser", **stranger))
    assert (code, other["name"] in text) == (431, False)
    assert world.scalar("SELECT failed_logins FROM users WHERE uuid = :id", id=stranger["id"]) == 0


def test_guessing_the_current_password_locks_it_and_not_the_keys(world: World) -> None:
    """After as many wrong guesses as logins may fail the right one is refused as well; keys go on signing."""
    made = make_account(world)
    client = keyed(world, made)
    sent = {"id": made["user"][0]["id"], "password": "new", "currentpassword": "wrong"}
    guesses = [*[sent] * 6, {**sent, "currentpassword": PASSWORD}]
    assert {client.get("updateUser", **guess).status for guess in guesses} <= {429, 431}
    assert client.get("listZones").status == 200


def test_new_keys_void_the_old_ones(world: World) -> None:
    """Only the last keys work, and getUserKeys answers them."""
    made = make_account(world)
    first = keyed(world, made)
    second = keyed(world, made)
    assert (first.get("listZones").status, second.get("listZones").status) == (401, 200)
    user = made["user"][0]["id"]
    answered = second.call("getUserKeys", id=user)["userkeys"]
    assert answered == {"apikey": second.api_key, "secretkey": second.secret_key}
    assert "secretkey" not in str(second.call("listUsers"))
    chosen = {"userapikey": new_name("key"), "usersecretkey": new_name("secret")}
    world.client().call("updateUser", id=user, **chosen)
    assert (second.get("listZones").status, world.client().call("getUserKeys", id=user)["userkeys"]["apikey"]) == (
        401,
        chosen["userapikey"],
    )


@pytest.mark.parametrize("command", ["getUserKeys", "registerUserKeys", "updateUser"])
def test_users_are_not_each_others(world: World, hers: dict[str, Any], command: str) -> None:
    """A user of the same domain is somebody else, and as good as nobody."""
    code, text = refusal(world.client(USER).get(command, id=hers["user"][0]["id"], firstname="x"))
    assert (code, "entity does not exist" in text) == (431, True)


def test_deleting_leaves_nothing_behind(world: World) -> None:
    """Logins, keys, groups, keys, networks and limits are gone with the answer; the name is free again."""
    name = new_name()
    for _ in range(2):
        made = make_account(world, username=name)
        client = keyed(world, made)
        world.client().call("updateResourceLimit", account=name, domainid=made["domainid"], resourcetype=0, max=3)
        answer = world.client(DOMAIN_ADMIN).call("deleteAccount", id=made["id"])
        assert done(world, answer, DOMAIN_ADMIN) == {"success": True}
        assert client.get("listZones").status == 401
        assert not can_log_in(world, name, PATH)
        assert world.names("listAccounts", id=made["id"]) == []
        left = "SELECT (SELECT count(*) FROM security_groups g WHERE g.account_id = a.id AND g.removed IS NULL)"
        left += " + (SELECT count(*) FROM resource_limits l WHERE l.owner_id = a.id AND l.owner_kind = 'account')"
        assert world.scalar(f"{left} FROM accounts a WHERE uuid = :id", id=made["id"]) == 0
        assert refusal(world.client().get("deleteAccount", id=made["id"]))[0] == 431


def test_who_alone_manages_a_project_is_not_deleted(world: World) -> None:
    """The project would belong to nobody."""
    code, text = refusal(world.client().get("deleteAccount", id=world.id_of("accounts", "acme")))
    assert (code, "moon" in text) == (536, True)
