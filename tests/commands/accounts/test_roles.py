"""Roles: rules decide from the next call on, in their order; the roles of the installation stay as they are."""

from typing import Any

import pytest

from tests.support.api.account_calls import PERSON, keyed, make_account, new_name, refusal
from tests.support.zones.world import DOMAIN_ADMIN, World


def make_role(world: World, **more: object) -> dict[str, Any]:
    """A new role for users."""
    sent = {"name": new_name("role"), **({} if "roleid" in more else {"type": "User"}), **more}
    return dict(world.client().call("createRole", **sent)["role"])


def add_rule(world: World, role: dict[str, Any], rule: str, permission: str) -> str:
    """A new rule's id."""
    sent = {"roleid": role["id"], "rule": rule, "permission": permission}
    return str(world.client().call("createRolePermission", **sent)["rolepermission"]["id"])


def test_rules_decide_in_their_order(world: World) -> None:
    """The first rule that matches decides; order, permission and removal hold from the next call on."""
    role = make_role(world)
    client = keyed(world, make_account(world, roleid=role["id"], accounttype=""))
    deny = add_rule(world, role, "listZ*", "deny")
    allow = add_rule(world, role, "*", "allow")
    assert client.get("listZones").status == 432
    world.client().call("updateRolePermission", roleid=role["id"], ruleorder=f"{allow},{deny}")
    assert [row["id"] for row in world.rows("listRolePermissions", roleid=role["id"])] == [allow, deny]
    assert client.get("listZones").status == 200
    world.client().call("updateRolePermission", roleid=role["id"], ruleid=allow, permission="deny")
    assert client.get("listUsers").status == 432
    world.client().call("deleteRolePermission", id=allow)
    assert (client.get("listUsers").status, client.get("listZones").status) == (432, 432)
    assert client.get("listApis").status == 200


def test_a_role_begins_with_the_rules_of_another(world: World) -> None:
    """A clone has type and rules of its model, and may be changed."""
    clone = make_role(world, roleid=world.id_of("roles", "Read-Only User - Default"))
    assert clone["type"] == "User"
    rules = world.rows("listRolePermissions", roleid=clone["id"])
    assert (rules[-1]["rule"], rules[-1]["permission"]) == ("*", "deny")
    changed = world.client().call("updateRole", id=clone["id"], name=new_name("role"), description="mine")["role"]
    assert changed["description"] == "mine"


def test_a_role_in_use_stays(world: World) -> None:
    """It is deleted, or given another type, when no account has it any more."""
    role = make_role(world)
    made = make_account(world, roleid=role["id"], accounttype="")
    assert refusal(world.client().get("deleteRole", id=role["id"]))[0] == 536
    assert refusal(world.client().get("updateRole", id=role["id"], type="DomainAdmin"))[0] == 536
    world.client().call("deleteAccount", id=made["id"])
    world.client().call("updateRole", id=role["id"], type="DomainAdmin")
    assert world.client().call("deleteRole", id=role["id"]) == {"success": True}
    for command in ("deleteRole", "updateRole"):
        assert refusal(world.client().get(command, id=role["id"]))[0] == 431


@pytest.mark.parametrize("name", ["Root Admin", "User", "Support Admin - Default"])
def test_roles_of_the_installation_stay(world: World, name: str) -> None:
    """They can be neither changed nor deleted."""
    role = world.id_of("roles", name)
    for command, more in (
        ("updateRole", {"id": role, "description": "x"}),
        ("deleteRole", {"id": role}),
        ("createRolePermission", {"roleid": role, "rule": "*", "permission": "allow"}),
    ):
        assert refusal(world.client().get(command, **more))[0] == 531


@pytest.mark.parametrize(
    ("command", "wrong", "parameter"),
    [
        ("createRole", {"name": "User"}, "name"),
        ("createRole", {"type": "Emperor"}, "type"),
        ("createRole", {"type": ""}, "type"),
        ("createRolePermission", {"rule": "list zones"}, "rule"),
        ("createRolePermission", {"permission": "maybe"}, "permission"),
        ("updateRolePermission", {"ruleorder": "9999999"}, "ruleorder"),
        ("updateRolePermission", {}, "ruleorder"),
    ],
)
def test_bad_roles_and_rules(world: World, command: str, wrong: dict[str, object], parameter: str) -> None:
    """Each mistake is told with its parameter."""
    good: dict[str, dict[str, object]] = {
        "createRole": {"name": new_name("role"), "type": "User"},
        "createRolePermission": {"rule": "*", "permission": "allow"},
        "updateRolePermission": {},
    }
    role = {} if command == "createRole" else {"roleid": make_role(world)["id"]}
    code, text = refusal(world.client().get(command, **{**good[command], **role, **wrong}))
    assert (code, parameter in text) == (431, True)


def test_a_restricted_admin_does_not_free_itself(world: World) -> None:
    """Who may change roles but not everything can neither widen its own role nor hand out a wider one."""
    role = make_role(world, type="Admin")
    for rule, permission in (("*Role*", "allow"), ("*Account*", "allow"), ("*", "deny")):
        add_rule(world, role, rule, permission)
    client = keyed(world, make_account(world, domain="ROOT", roleid=role["id"], accounttype=""))
    wider = {"roleid": role["id"], "rule": "deleteDomain", "permission": "allow"}
    assert client.get("createRolePermission", **wider).status == 200  # behind "* deny" it means nothing
    last = [row["id"] for row in world.rows("listRolePermissions", roleid=role["id"])]
    code, text = refusal(client.get("updateRolePermission", roleid=role["id"], ruleorder=",".join(last[::-1])))
    assert (code, "deleteDomain" in text) == (531, True)
    assert refusal(client.get("deleteRolePermission", id=last[2]))[0] == 531
    code, _ = refusal(client.get("createRole", name=new_name("role"), type="Admin"))
    assert code == 531
    own = world.id_of("accounts", "admin")
    assert refusal(client.get("updateAccount", id=own, newname="mine"))[0] == 531


def test_a_role_is_imported_with_its_rules(world: World) -> None:
    """In their order; with others if that is forced. Names may end with a space, and are no other names then."""
    name = f"{new_name('role')} "
    sent = {"name": name, "type": "User", "rules[0].rule": "list*", "rules[0].permission": "allow"}
    more = {"rules[1].rule": "update*", "rules[1].permission": "deny", "rules[1].description": "no"}
    role = world.client().call("importRole", **sent, **more)["role"]
    shown = [(row["rule"], row["permission"]) for row in world.rows("listRolePermissions", roleid=role["id"])]
    assert (role["name"], shown) == (name, [("list*", "allow"), ("update*", "deny")])
    for again in (name, name.strip(), name.upper()):
        assert refusal(world.client().get("importRole", **{**sent, "name": again}))[0] == 431
    changed = world.client().call("importRole", **sent, forced="true")["role"]
    shown = [(row["rule"], row["permission"]) for row in world.rows("listRolePermissions", roleid=role["id"])]
    assert (changed["id"], shown) == (role["id"], [("list*", "allow")])
    wrong = (
        {"rules[0].permission": "maybe"},
        {"rules[0].rule": "list zones"},
        {"rules[0].effect": "x"},
        {"name": " "},
    )
    for broken in wrong:
        assert refusal(world.client().get("importRole", **{**sent, **broken}, forced="true"))[0] in (430, 431)


def test_a_private_role_is_for_root_admins_alone(world: World) -> None:
    """Domain admins neither list it nor give it to accounts, until it is made public."""
    role = make_role(world, ispublic="false")
    sent = {"accounttype": 0, "roleid": role["id"], "domainid": world.id_of("domains", "customers"), **PERSON}
    admin = world.client(DOMAIN_ADMIN)
    assert (role["ispublic"], role["id"] in {row["id"] for row in world.rows("listRoles")}) == (False, True)
    assert world.rows("listRoles", DOMAIN_ADMIN, keyword=role["name"]) == []
    assert refusal(admin.get("createAccount", username=new_name(), **sent))[0] == 431
    changed = world.client().call("updateRole", id=role["id"], ispublic="true")["role"]
    assert (changed["ispublic"], world.names("listRoles", DOMAIN_ADMIN, keyword=role["name"])) == (
        True, [role["name"]],
    )  # fmt: skip
    assert admin.post("createAccount", username=new_name(), **sent).status == 200
