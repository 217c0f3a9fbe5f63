"""listProjectInvitations, updateProjectInvitation and deleteProjectInvitation."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import ACCOUNTS_ONLY
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import EVERY_ID, Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.accounts import project_invitations as service
from bulkdeploy.services.accounts.projects import require_managed
from bulkdeploy.store.accounts import project_invitations as store
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.rows.visibility import Visibility

INVITATION = Response(
    "projectinvitation",
    (
        text("id", "the invitation"),
        text("projectid", "the project"),
        text("project", "the project's name"),
        text("domainid", "the project's domain"),
        text("domain", "the domain's name"),
        text("domainpath", "the domain's path"),
        text("account", "the invited account"),
        text("state", ", ".join(store.STATES)),
    ),
)


def list_invitations(call: Call) -> Page:
    """Return the invitations to a project, or of all accounts that the caller may see.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach, or the caller does not
            manage the project.
    """
    project = call.ref("projectid")
    shown: Visibility | int
    if project is not None and project.id != EVERY_ID:
        require_managed(call.connection, call.caller, [project])
        shown = project.id
    else:
        shown = visible(call)
    timeout_s = service.timeout_s(call.connection)
    return store.list_invitations(call.connection, shown, call.arguments, paging(call), timeout_s=timeout_s)


def update_invitation(call: Call) -> JobTicket:
    """Accept or decline an invitation to a project for an account."""
    accept = call.flag("accept", default=True)
    project, account = call.arguments["projectid"], call.text("account")
    return service.answer_invitation(call.connection, call.caller, project, account, accept=accept)


def delete_invitation(call: Call) -> JobTicket:
    """Delete an invitation to a project."""
    return service.delete_invitation(call.connection, call.caller, call.arguments["id"])


COMMANDS = (
    Command(
        name="listProjectInvitations",
        description="Lists invitations of accounts to projects",
        handler=list_invitations,
        shape=Shape.LIST,
        response=INVITATION,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.PROJECT_INVITATION, "only this invitation"),
            uuid("projectid", Entity.PROJECT, "only invitations to this project, which the caller manages"),
            boolean("activeonly", "only invitations that can be accepted"),
            string("state", "only invitations in this state", choices=store.STATES),
            *OWNER,
            *PAGING,
        ),
        unsupported={"userid": ACCOUNTS_ONLY},
    ),
    Command(
        name="updateProjectInvitation",
        description="Accepts an invitation to a project, so that the invited account joins it, or declines it",
        handler=update_invitation,
        shape=Shape.JOB_SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            uuid("projectid", Entity.PROJECT, "the project", required=True),
            string(
                "account",
                "the name of the invited account, in the domain of the project; default: the account of the caller",
            ),
            boolean("accept", "true (default): accept the invitation; false: decline it"),
        ),
        unsupported={
            "token": "invitations are not sent by e-mail, so that they have no tokens",
            "userid": ACCOUNTS_ONLY,
        },
    ),
    Command(
        name="deleteProjectInvitation",
        description="Deletes an invitation to a project that the caller manages",
        handler=delete_invitation,
        shape=Shape.JOB_SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(uuid("id", Entity.PROJECT_INVITATION, "the invitation", required=True),),
    ),
)
