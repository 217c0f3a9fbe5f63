"""Roles of projects: who makes them, and what their rules keep from members of the project."""

from collections.abc import Iterator
from typing import Any

import pytest

from bulkdeploy.commands.accounts.project_roles import PROJECT_ROLE, PROJECT_RULE
from tests.commands.accounts.test_projects import make_project
from tests.support.api.account_calls import done, new_name, refusal
from tests.support.zones.world import DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World


class Restricted:
    """A project of USER with a role, which NEIGHBOUR has in it."""

    def __init__(self, world: World) -> None:
        self.world, self.project = world, make_project(world)["id"]
        self.role = self.call("createProjectRole", name="Tester", description="looks only")["projectrole"]
        self.join(projectroleid=self.role["id"])
        (vm,) = self.things("virtual_machines", "acme-2")
        self.vm = vm
        account = world.scalar("SELECT account_id FROM projects WHERE uuid = :id", id=self.project)
        world.change("UPDATE virtual_machines SET account_id = :account WHERE uuid = :id", account=account, id=vm)

    def things(self, table: str, name: str) -> list[str]:
        """Return the ids of things by their name."""
        return [self.world.id_of(table, name)]

    def call(self, command: str, **sent: object) -> dict[str, Any]:
        """Call a command for the project as its maker."""
        return self.world.client(USER).call(command, projectid=self.project, **sent)

    def join(self, account: str = "neighbour", **sent: object) -> None:
        """Add an account to the project."""
        answer = self.call("addAccountToProject", account=account, **sent)
        assert done(self.world, answer, USER) == {"success": True}

    def rule(self, rule: str, permission: str, role: str | None = None) -> dict[str, Any]:
        """Add a rule to the role."""
        sent = {"projectroleid": role or self.role["id"], "rule": rule, "permission": permission}
        return dict(self.call("createProjectRolePermission", **sent)["projectrolepermission"])

    def rules(self, by: str = NEIGHBOUR) -> list[tuple[str, str]]:
        """Return the rules of the role in their order."""
        sent = {"projectid": self.project, "projectroleid": self.role["id"]}
        return [
            (row["rule"], row["permission"]) for row in self.world.rows("listProjectRolePermissions", by, **sent)
        ]

    def may(self, command: str, by: str = NEIGHBOUR, **sent: object) -> bool:
        """Return whether a caller may call a command, which is refused with 531 otherwise."""
        answer = self.world.client(by).get(command, **sent)
        assert answer.status in (200, 531), answer
        return answer.status == 200


@pytest.fixture
def restricted(world: World) -> Iterator[Restricted]:
    """Yield a project with a role; its VM is given back at the end."""
    made = Restricted(world)
    yield made
    world.change(
        "UPDATE virtual_machines SET account_id = (SELECT id FROM accounts WHERE name = 'acme') WHERE uuid = :id",
        id=made.vm,
    )


def test_a_rule_denies_what_members_do_in_the_project(world: World, restricted: Restricted) -> None:
    """A denied list shows nothing of the project, a denied command acts on nothing of it, by project or by id.

    Calls for the member's own account are not restricted, nor are Admins of the project and admins above it.
    """
    project, vm = restricted.project, restricted.vm
    assert [row["id"] for row in world.rows("listVirtualMachines", NEIGHBOUR, id=vm)] == [vm]
    assert restricted.may("updateVirtualMachine", id=vm, displayname="before")
    restricted.rule("listVirtualMachines", "deny")
    restricted.rule("update*", "deny")
    restricted.rule("*", "allow")
    assert not restricted.may("listVirtualMachines", projectid=project)
    for sent in ({"id": vm}, {"ids": vm}, {"projectid": -1}, {"projectid": -1, "listall": "true"}):
        assert [row["id"] for row in world.rows("listVirtualMachines", NEIGHBOUR, **sent) if row["id"] == vm] == []
    assert not restricted.may("updateVirtualMachine", id=vm, displayname="after")
    assert restricted.may("listVirtualMachines")
    assert restricted.may("listVolumes", projectid=project)
    for by in (USER, DOMAIN_ADMIN):
        assert restricted.may("listVirtualMachines", by, projectid=project)
        assert restricted.may("updateVirtualMachine", by, id=vm, displayname=f"by {by}")
    answer = world.client(USER).call("updateProject", id=project, account="neighbour", roletype="Admin")
    done(world, answer, USER)
    assert restricted.may("listVirtualMachines", projectid=project)


def test_the_first_rule_decides_from_the_next_call_on(restricted: Restricted) -> None:
    """The order, the permission and the rules of a role can change; a role without rules denies nothing."""
    first, second = restricted.rule("list*", "deny"), restricted.rule("listVolumes", "allow")
    assert set(first) == {field.name for field in PROJECT_RULE.fields} - {"description"}
    assert not restricted.may("listVolumes", projectid=restricted.project)
    role = {"projectroleid": restricted.role["id"]}
    restricted.call("updateProjectRolePermission", ruleorder=f"{second['id']},{first['id']}", **role)
    assert restricted.may("listVolumes", projectid=restricted.project)
    restricted.call("updateProjectRolePermission", projectrolepermissionid=second["id"], permission="deny", **role)
    assert not restricted.may("listVolumes", projectid=restricted.project)
    restricted.call("deleteProjectRolePermission", id=second["id"])
    restricted.call("updateProjectRolePermission", projectrolepermissionid=first["id"], permission="allow", **role)
    assert restricted.rules(USER) == [("list*", "allow")]
    assert restricted.may("listVolumes", projectid=restricted.project)


def test_a_role_belongs_to_its_project(world: World, restricted: Restricted) -> None:
    """Its name is free in other projects; neither another project nor an account can have it or its rules."""
    rule, other = restricted.rule("listZones", "allow"), make_project(world)["id"]
    client = world.client(USER)
    twin = client.call("createProjectRole", projectid=other, name="Tester")["projectrole"]
    assert set(twin) == {field.name for field in PROJECT_ROLE.fields} - {"description"}
    refused = (
        ("createProjectRole", {"projectid": restricted.project, "name": "TESTER"}),
        ("updateProjectRole", {"projectid": other, "id": restricted.role["id"], "name": "x"}),
        ("deleteProjectRole", {"projectid": other, "id": restricted.role["id"]}),
        ("deleteProjectRolePermission", {"projectid": other, "id": rule["id"]}),
        ("createProjectRolePermission", _rule(other, restricted.role["id"])),
        ("createProjectRolePermission", _rule(restricted.project, restricted.role["id"], rule="listZones")),
        (
            "addAccountToProject",
            {"projectid": other, "account": "neighbour", "projectroleid": restricted.role["id"]},
        ),
    )
    for command, sent in refused:
        assert refusal(client.get(command, **sent))[0] == 431, command
    for command, sent in (
        ("updateRole", {"id": twin["id"], "name": new_name()}),
        ("createRolePermission", {"roleid": twin["id"], "rule": "*", "permission": "allow"}),
        ("deleteRolePermission", {"id": rule["id"]}),
        ("createRole", {"name": new_name(), "roleid": twin["id"]}),
    ):
        assert refusal(world.client().get(command, **sent))[0] == 431, command
    assert "Tester" not in {row["name"] for row in world.rows("listRoles")}
    assert rule["id"] not in {row["id"] for row in world.rows("listRolePermissions")}
    client.call("updateProjectRole", projectid=other, id=twin["id"], name="Viewer", description="reads")
    (row,) = world.rows("listProjectRoles", USER, projectid=other)
    assert (row["name"], row["description"]) == ("Viewer", "reads")


def test_only_managers_change_roles(world: World, restricted: Restricted) -> None:
    """Members read the roles of their project; strangers do not know that there are any."""
    assert [row["name"] for row in world.rows("listProjectRoles", NEIGHBOUR, projectid=restricted.project)] == [
        "Tester"
    ]
    assert not restricted.may("createProjectRole", projectid=restricted.project, name="mine")
    assert not restricted.may("deleteProjectRole", projectid=restricted.project, id=restricted.role["id"])
    stranger = world.client(RIVAL)
    assert refusal(stranger.get("listProjectRoles", projectid=restricted.project))[0] == 431


def test_a_role_in_use_stays(world: World, restricted: Restricted) -> None:
    """It can be deleted once no member has it, and goes with its project."""
    (row,) = world.rows(
        "listProjectAccounts", USER, projectid=restricted.project, projectroleid=restricted.role["id"]
    )
    assert (row["account"], row["projectroleid"]) == ("neighbour", restricted.role["id"])
    sent = {"projectid": restricted.project, "id": restricted.role["id"]}
    assert refusal(world.client(USER).get("deleteProjectRole", **sent))[0] == 536
    restricted.call("deleteAccountFromProject", account="neighbour")
    restricted.call("deleteProjectRole", id=restricted.role["id"])
    assert world.rows("listProjectRoles", USER, projectid=restricted.project) == []


def test_an_invitation_carries_the_role(world: World, restricted: Restricted) -> None:
    """An invited account has the role after it has accepted."""
    restricted.rule("listVolumes", "deny")
    restricted.call("deleteAccountFromProject", account="neighbour")
    world.client().call("updateConfiguration", name="project.invite.required", value="true")
    try:
        restricted.join(projectroleid=restricted.role["id"])
        world.client(NEIGHBOUR).call("updateProjectInvitation", projectid=restricted.project)
    finally:
        world.client().call("updateConfiguration", name="project.invite.required", value="false")
    assert not restricted.may("listVolumes", projectid=restricted.project)
    assert restricted.may("listSnapshots", projectid=restricted.project)


def test_a_promised_role_stays(world: World, restricted: Restricted) -> None:
    """A role cannot be deleted while an invitation promises the role.

    An invitation that expired does not keep the role. If the invitation becomes valid again, the invited account
    cannot join without the role.
    """
    restricted.call("deleteAccountFromProject", account="neighbour")
    world.client().call("updateConfiguration", name="project.invite.required", value="true")
    try:
        restricted.join(projectroleid=restricted.role["id"])
    finally:
        world.client().call("updateConfiguration", name="project.invite.required", value="false")
    sent = {"projectid": restricted.project, "id": restricted.role["id"]}
    code, why = refusal(world.client(USER).get("deleteProjectRole", **sent))
    assert (code, "invitations" in why) == (536, True), why
    made = "UPDATE project_invitations SET created = created {} interval '1 year' WHERE state = 'Pending'"
    world.change(made.format("-"))
    restricted.call("deleteProjectRole", id=restricted.role["id"])
    world.change(made.format("+"))
    invited = world.client(NEIGHBOUR)
    code, why = refusal(invited.get("updateProjectInvitation", projectid=restricted.project))
    assert (code, "role" in why) == (431, True), why
    assert not restricted.may("listVolumes", projectid=restricted.project)
    invited.call("updateProjectInvitation", projectid=restricted.project, accept="false")


def test_roles_and_rules_are_limited(world: World, restricted: Restricted) -> None:
    """A project has at most 50 roles, and a role at most 200 rules; a deleted one makes place for another."""
    world.change(
        "INSERT INTO roles (name, project_id, role_type) SELECT 'role ' || n, p.id, 'User'"
        " FROM projects p, generate_series(1, 48) n WHERE p.uuid = :id",
        id=restricted.project,
    )
    world.change(
        "INSERT INTO role_rules (role_id, rule, permission, sort_order) SELECT r.id, 'list' || n, 'deny', n"
        " FROM roles r, generate_series(1, 199) n WHERE r.uuid = :id",
        id=restricted.role["id"],
    )
    last = restricted.call("createProjectRole", name="last")["projectrole"]["id"]
    rule = restricted.rule("listHosts", "deny")["id"]
    client = world.client(USER)
    for command, sent, most in (
        ("createProjectRole", {"projectid": restricted.project, "name": "more"}, "50 roles"),
        ("createProjectRolePermission", _rule(restricted.project, restricted.role["id"], "listZones"), "200 rules"),
    ):
        code, why = refusal(client.get(command, **sent))
        assert (code, most in why) == (431, True), why
    restricted.call("deleteProjectRole", id=last)
    restricted.call("createProjectRole", name="more")
    restricted.call("deleteProjectRolePermission", id=rule)
    restricted.rule("listZones", "deny")


def _rule(project: str, role: str, rule: str = "listHosts") -> dict[str, str]:
    return {"projectid": project, "projectroleid": role, "rule": rule, "permission": "allow"}
