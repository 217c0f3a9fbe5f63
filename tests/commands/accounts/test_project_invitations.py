"""Invitations to projects: who sees, accepts, declines and deletes them, and when they expire."""

from collections.abc import Iterator

import pytest

from bulkdeploy.commands.accounts.project_invitations import INVITATION
from tests.commands.accounts.test_projects import make_project
from tests.support.api.account_calls import done, refusal
from tests.support.zones.world import DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World


@pytest.fixture
def project(world: World) -> Iterator[str]:
    """Yield a project of USER that NEIGHBOUR is invited to, while invitations are required."""
    world.client().call("updateConfiguration", name="project.invite.required", value="true")
    made = make_project(world)["id"]
    invite(world, made)
    yield made
    for name, value in (("required", "false"), ("timeout", "86400")):
        world.client().call("updateConfiguration", name=f"project.invite.{name}", value=value)


def invite(world: World, project: str) -> None:
    """Invite the account neighbour."""
    answer = world.client(USER).call("addAccountToProject", projectid=project, account="neighbour")
    assert done(world, answer, USER) == {"success": True}


def states(world: World, project: str, by: str = USER, **more: object) -> list[str]:
    """Return the states of the invitations to a project."""
    return [row["state"] for row in world.rows("listProjectInvitations", by, projectid=project, **more)]


def test_an_invited_account_joins_by_accepting(world: World, project: str) -> None:
    """The project is not the account's before; the invitation is shown to both sides and to nobody else."""
    assert world.client().call("listCapabilities")["capability"]["projectinviterequired"]
    invitations = world.rows("listProjectInvitations", NEIGHBOUR, listall="true")
    (row,) = [one for one in invitations if one["projectid"] == project]
    assert set(row) == {field.name for field in INVITATION.fields}
    assert (row["projectid"], row["account"], row["state"]) == (project, "neighbour", "Pending")
    assert row["id"] in {one["id"] for one in world.rows("listProjectInvitations", DOMAIN_ADMIN, listall="true")}
    assert row["id"] not in {one["id"] for one in world.rows("listProjectInvitations", RIVAL, listall="true")}
    assert world.rows("listProjects", NEIGHBOUR, id=project) == []
    assert refusal(world.client(NEIGHBOUR).get("listProjectInvitations", projectid=project))[0] == 531
    assert refusal(world.client(NEIGHBOUR).get("listVirtualMachines", projectid=project))[0] == 531
    assert refusal(world.client(RIVAL).get("updateProjectInvitation", projectid=project))[0] == 431
    invite(world, project)
    assert states(world, project) == ["Pending"]
    wrong = world.client(NEIGHBOUR).get("updateProjectInvitation", projectid=project, account="acme")
    assert refusal(wrong)[0] == 531
    answer = world.client(NEIGHBOUR).call("updateProjectInvitation", projectid=project)
    assert done(world, answer, NEIGHBOUR) == {"success": True}
    assert states(world, project) == ["Completed"]
    assert states(world, project, activeonly="true") == []
    members = {row["account"]: row["role"] for row in world.rows("listProjectAccounts", USER, projectid=project)}
    assert members == {"acme": "Admin", "neighbour": "Regular"}
    assert refusal(world.client(NEIGHBOUR).get("updateProjectInvitation", projectid=project))[0] == 431


def test_a_declined_invitation_can_be_repeated(world: World, project: str) -> None:
    """An account that declined is no member; it can be invited once more, and its admin accept for it."""
    world.client(NEIGHBOUR).call("updateProjectInvitation", projectid=project, accept="false")
    assert states(world, project) == ["Declined"]
    assert world.rows("listProjects", NEIGHBOUR, id=project) == []
    invite(world, project)
    assert states(world, project, state="pending") == ["Pending"]
    sent = {"projectid": project, "account": "neighbour", "accept": "true"}
    answer = world.client(DOMAIN_ADMIN).call("updateProjectInvitation", **sent)
    assert done(world, answer, DOMAIN_ADMIN) == {"success": True}
    assert [row["id"] for row in world.rows("listProjects", NEIGHBOUR, id=project)] == [project]


def test_an_invitation_expires(world: World, project: str) -> None:
    """After project.invite.timeout it is Expired and can only be declined; a new one can be accepted."""
    world.client().call("updateConfiguration", name="project.invite.timeout", value="60")
    world.change("UPDATE project_invitations SET created = now() - interval '61 seconds'")
    assert states(world, project) == ["Expired"]
    code, text = refusal(world.client(NEIGHBOUR).get("updateProjectInvitation", projectid=project))
    assert (code, "expired" in text) == (431, True)
    invite(world, project)
    world.client(NEIGHBOUR).call("updateProjectInvitation", projectid=project)
    assert states(world, project) == ["Completed"]


def test_who_manages_the_project_deletes_its_invitations(world: World, project: str) -> None:
    """The invited account may not; a deleted invitation cannot be accepted, and goes with its project."""
    (row,) = world.rows("listProjectInvitations", USER, projectid=project)
    assert refusal(world.client(NEIGHBOUR).get("deleteProjectInvitation", id=row["id"]))[0] == 531
    assert refusal(world.client(RIVAL).get("deleteProjectInvitation", id=row["id"]))[0] == 431
    answer = world.client(USER).call("deleteProjectInvitation", id=row["id"])
    assert done(world, answer, USER) == {"success": True}
    assert refusal(world.client(NEIGHBOUR).get("updateProjectInvitation", projectid=project))[0] == 431
    invite(world, project)
    world.client(USER).call("deleteProject", id=project)
    assert world.scalar("SELECT count(*) FROM project_invitations") == world.scalar(
        "SELECT count(*) FROM project_invitations i JOIN projects p ON p.id = i.project_id WHERE p.removed IS NULL"
    )
