"""Invitations to projects. If ``project.invite.required`` is true, an account joins a project by an invitation.

Lock order: the rows of ``services.accounts.projects``, the invitation's row, and then the row of the project's
role.
"""

from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.accounts import projects as service
from bulkdeploy.services.ownership import named_account, require_domain
from bulkdeploy.store.accounts import project_invitations as store
from bulkdeploy.store.accounts import projects
from bulkdeploy.store.accounts.domains import lock_domain
from bulkdeploy.store.accounts.owners import domain_place
from bulkdeploy.store.accounts.roles import lock_roles
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.jobs.events import record_event

TIMEOUT = "project.invite.timeout"


def timeout_s(connection: Connection) -> int:
    """Return the number of seconds after which an invitation expires."""
    return read_configuration(connection).number(TIMEOUT)


def answer_invitation(
    connection: Connection, caller: Caller, ref: EntityRef, account: str | None, *, accept: bool
) -> JobTicket:
    """Accept or decline an account's invitation to a project. An account that accepts joins the project.

    ``account`` names the invited account, which is in the project's domain. If it is None, the caller's account is
    used.

    Raises:
        InvalidParameter: there is no such account or pending invitation, or an accepted invitation has expired or
            contains a role that was deleted.
        PermissionDenied: the caller may not act for the account.
    """
    lock_domain(connection, projects.domains_of(connection, [ref.id])[ref.id])
    project = projects.lock_projects(connection, [ref.id]).get(ref.id)
    if project is None:
        raise InvalidParameter("projectid", str(ref.uuid), "the project was deleted")
    owner = caller.owner
    if account is not None:
        uuid, _ = domain_place(connection, project.domain_id)
        domain = EntityRef(Entity.DOMAIN, project.domain_id, uuid, "")
        require_domain(connection, caller, domain)
        owner = named_account(connection, caller, account, domain)
    invitation = store.lock_pending(connection, ref.id, owner.account_id, timeout_s=timeout_s(connection))
    if invitation is None:
        rule = f"account {owner.account_name} has no pending invitation to project {project.name}"
        raise InvalidParameter("projectid", str(ref.uuid), rule)
    if accept and invitation.state == store.EXPIRED:
        rule = f"the invitation of account {owner.account_name} to project {project.name} has expired"
        raise InvalidParameter("projectid", str(ref.uuid), rule)
    if accept and invitation.role_id is not None:
        _require_role(connection, project, invitation.role_id)
    store.answer(connection, invitation.id, store.COMPLETED if accept else store.DECLINED)
    if accept:
        projects.set_member(connection, ref.id, owner.account_id, invitation.role, role_id=invitation.role_id)
    verb = "accepted" if accept else "declined"
    text = f"account {owner.account_name} {verb} the invitation to project {project.name}"
    record_event(connection, caller, EventType.PROJECT_INVITATION_UPDATE, text)
    return service.succeeded(connection, caller, project, "UpdateProjectInvitation")


def delete_invitation(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Delete an invitation to a project that the caller manages.

    Raises:
        InvalidParameter: the invitation was deleted.
        PermissionDenied: the caller does not manage the project.
    """
    found = store.project_of(connection, ref.id)
    if found is None:
        raise InvalidParameter("id", str(ref.uuid), "the invitation was deleted")
    project = service.lock_managed(connection, caller, found)
    if not store.delete_invitation(connection, ref.id):
        raise InvalidParameter("id", str(ref.uuid), "the invitation was deleted")
    text = f"deleted an invitation to project {project.name}"
    record_event(connection, caller, EventType.PROJECT_INVITATION_REMOVE, text)
    return service.succeeded(connection, caller, project, "DeleteProjectInvitation")


def _require_role(connection: Connection, project: Row[Any], role_id: int) -> None:
    """Raise InvalidParameter if the role that an invitation promises was deleted.

    Without the role, the rules of the role would not restrict the new member.
    """
    if role_id not in lock_roles(connection, [role_id], project_id=project.id):
        rule = (
            f"the role that the invitation to project {project.name} promises was deleted; ask for a new invitation"
        )
        raise InvalidParameter("projectid", str(project.uuid), rule)
