"""Projects: who makes, manages, suspends and deletes them, and who is in them."""

from typing import Any

import pytest

from bulkdeploy.commands.accounts.projects import MEMBER
from tests.support.api.account_calls import done, make_account, new_name, refusal
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World


def make_project(world: World, by: str = USER, **more: object) -> dict[str, Any]:
    """A new project of the caller's account."""
    answer = world.client(by).call("createProject", **{"name": new_name("project"), "displaytext": "ours", **more})
    made = done(world, answer, by)["project"]
    assert answer["id"] == made["id"]
    return dict(made)


def test_a_project_is_its_makers(world: World) -> None:
    """Its account manages it; it has limits of its own and a group named default."""
    made = make_project(world)
    assert (made["state"], made["displaytext"], made["owner"][0]["account"]) == ("Active", "ours", "acme")
    limits = world.rows("listResourceLimits", USER, projectid=made["id"])
    assert {row["project"] for row in limits} == {made["name"]}
    assert [row["name"] for row in world.rows("listSecurityGroups", USER, projectid=made["id"])] == ["default"]
    assert refusal(world.client(USER).get("createProject", name=made["name"]))[0] == 431


def test_a_project_of_another_account(world: World) -> None:
    """An admin names the account by its id, or a domain alone, whose project it then manages itself."""
    account, domain = world.id_of("accounts", "acme"), world.id_of("domains", "rivals")
    for sent, owner, domain_id in (
        ({"accountid": account}, "acme", world.id_of("domains", "acme")),
        ({"domainid": domain}, "admin", domain),
    ):
        answer = world.client().call("createProject", name=new_name(), **sent)
        made = done(world, answer, ADMIN)["project"]
        assert (made["owner"][0]["account"], made["domainid"]) == (owner, domain_id)
    both = {"accountid": account, "account": "acme", "domainid": world.id_of("domains", "acme")}
    assert refusal(world.client().get("createProject", name=new_name(), **both))[0] == 431
    assert refusal(world.client(USER).get("createProject", name=new_name(), domainid=domain))[0] == 431


def test_members_come_and_go(world: World) -> None:
    """A member sees the project, may not manage it, and is out when it is taken out."""
    made = make_project(world)
    assert world.client(NEIGHBOUR).get("listProjects", id=made["id"]).status == 431
    sent = {"projectid": made["id"], "account": "neighbour"}
    assert done(world, world.client(USER).call("addAccountToProject", **sent), USER) == {"success": True}
    members = {
        row["account"]: row["role"] for row in world.rows("listProjectAccounts", NEIGHBOUR, projectid=made["id"])
    }
    assert members == {"acme": "Admin", "neighbour": "Regular"}
    for narrowed in ({"account": "ACME"}, {"role": "admin"}, {"keyword": "cm"}):
        (row,) = world.rows("listProjectAccounts", NEIGHBOUR, projectid=made["id"], **narrowed)
        assert set(row) == {field.name for field in MEMBER.fields} - {"projectroleid"}
    again = {**sent, "roletype": "Admin"}
    assert done(world, world.client(USER).call("addAccountToProject", **again), USER) == {"success": True}
    (row,) = world.rows("listProjectAccounts", NEIGHBOUR, projectid=made["id"], account="neighbour")
    assert row["role"] == "Regular"
    for command in ("updateProject", "suspendProject", "activateProject", "deleteProject"):
        assert refusal(world.client(NEIGHBOUR).get(command, id=made["id"]))[0] == 531
    for command in ("addAccountToProject", "deleteAccountFromProject"):
        assert refusal(world.client(NEIGHBOUR).get(command, projectid=made["id"], account="acme"))[0] == 531
    world.client(USER).call("deleteAccountFromProject", **sent)
    assert refusal(world.client(NEIGHBOUR).get("listProjectAccounts", projectid=made["id"]))[0] == 431


def test_a_project_always_has_an_admin(world: World) -> None:
    """The last Admin neither goes nor steps down; a new one may take over."""
    made = make_project(world)
    client, project = world.client(USER), made["id"]
    assert refusal(client.get("deleteAccountFromProject", projectid=project, account="acme"))[0] == 431
    assert refusal(client.get("updateProject", id=project, account="acme", roletype="Regular"))[0] == 431
    changed = done(world, client.call("updateProject", id=project, account="neighbour"), USER)["project"]
    assert [owner["account"] for owner in changed["owner"]] == ["neighbour"]
    assert refusal(client.get("updateProject", id=project, displaytext="mine"))[0] == 531


@pytest.mark.parametrize("by", [USER, DOMAIN_ADMIN, ADMIN])
def test_suspended_projects_make_nothing(world: World, by: str) -> None:
    """Nothing is deployed in a suspended project until it is active again."""
    project = world.id_of("projects", "moon")
    assert done(world, world.client(by).call("suspendProject", id=project), by)["project"]["state"] == "Suspended"
    deploy = {
        "zoneid": world.id_of("zones", "small"),
        "serviceofferingid": world.id_of("service_offerings", "Small"),
        "templateid": world.id_of("templates", "Debian 12"),
        "networkids": world.id_of("networks", "guests"),
        "projectid": project,
    }
    assert refusal(world.client(USER).get("deployVirtualMachine", **deploy))[0] == 531
    assert done(world, world.client(by).call("activateProject", id=project), by)["project"]["state"] == "Active"
    assert world.client(USER).get("deployVirtualMachine", **deploy).status == 200


def test_a_project_with_things_needs_cleanup(world: World) -> None:
    """What it owns is named; with cleanup the project is gone at once and its VMs by jobs."""
    made = make_project(world)
    assert done(world, world.client(USER).call("deleteProject", id=made["id"]), USER) == {"success": True}
    assert refusal(world.client(USER).get("deleteProject", id=made["id"]))[0] == 431
    project = world.id_of("projects", "moon")
    code, text = refusal(world.client(USER).get("deleteProject", id=project))
    assert (code, "vms" in text) == (536, True)
    answer = world.client(USER).call("deleteProject", id=project, cleanup="true")
    assert world.client(USER).call("queryAsyncJobResult", jobid=answer["jobid"])["jobstatus"] == 0
    assert world.client(USER).get("listProjects", id=project).status == 431


def test_projects_are_limited_and_may_be_closed_to_users(world: World) -> None:
    """A limit of projects binds, and allow.user.create.projects says whether users make any."""
    made = make_account(world)
    owner = {"account": made["name"], "domainid": made["domainid"]}
    world.client().call("updateResourceLimit", resourcetype=5, max=1, **owner)
    make_project(world, ADMIN, **owner)
    assert refusal(world.client().get("createProject", name=new_name("project"), **owner))[0] == 535
    world.client().call("updateConfiguration", name="allow.user.create.projects", value="false")
    assert refusal(world.client(RIVAL).get("createProject", name=new_name("project")))[0] == 531
    assert not world.client(RIVAL).call("listCapabilities")["capability"]["allowusercreateprojects"]
