"""Commands of projects (one file: the commands of one noun)."""

from bulkdeploy.commands.accounts.responses import ACCOUNT_COUNTERS
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import ACCOUNTS_ONLY
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import OWNER, PAGING, SHOW_ICON
from bulkdeploy.declare.parameters import Needs, boolean, string, strings, uuid
from bulkdeploy.declare.response_fields import moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import PROJECT_ADMIN, PROJECT_REGULAR
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination, PermissionDenied, ResourceInUse, ResourceLimitExceeded
from bulkdeploy.services.accounts import projects as service
from bulkdeploy.services.accounts.projects import Membership, NewProject
from bulkdeploy.services.ownership import named_account, project_owner, require_domain
from bulkdeploy.store.accounts import projects
from bulkdeploy.store.rows.listing import Page

PROJECT = Response(
    "project",
    (
        text("id", "the project"),
        text("name", "the name of the project"),
        text("displaytext", "the description of the project"),
        text("state", "Active or Suspended"),
        text("domainid", "the domain of the project"),
        text("domain", "the domain's name"),
        text("projectaccountname", "the internal account that owns the objects of the project"),
        objects(
            "owner",
            "the accounts that manage the project",
            (text("account", "the name of the account"), text("accountid", "the account")),
        ),
        moment("created", "the date and time of creation"),
        *ACCOUNT_COUNTERS,
    ),
)


def list_projects(call: Call) -> Page:
    """Return the projects of the caller's account, or with ``listall`` or ``id`` all that the caller may see.

    Raises:
        InvalidParameter: the account does not exist.
        PermissionDenied: the account or the domain is outside the caller's reach.
    """
    details = call.arguments.get("details", ("all",))
    domain, account = call.ref("domainid"), call.text("account")
    lineage = None if domain is None else require_domain(call.connection, call.caller, domain)
    member_id = None
    if account is not None:
        member_id = named_account(call.connection, call.caller, account, domain).account_id
    elif domain is None and not call.flag("listall") and "id" not in call.arguments:
        member_id = call.caller.owner.account_id
    return projects.list_projects(
        call.connection,
        call.caller,
        call.arguments,
        paging(call),
        member_id=member_id,
        lineage=None if account is not None else lineage,
        recursive=call.flag("isrecursive"),
        with_counters=any(word != "min" for word in details),
    )


MEMBER = Response(
    "projectaccount",
    (
        text("projectid", "the project"),
        text("project", "the project's name"),
        text("accountid", "the account"),
        text("account", "the name of the account"),
        number("accounttype", "the account's type: 0 user, 1 root admin, 2 domain admin, 3 resource admin"),
        text("role", "Admin or Regular"),
        text("projectroleid", "the project role that restricts the account"),
        text("domainid", "the account's domain"),
        text("domain", "the domain's name"),
    ),
)
ROLES = (PROJECT_ADMIN, PROJECT_REGULAR)


def list_project_accounts(call: Call) -> Page:
    """Return the accounts of a project.

    Raises:
        InvalidParameter: the project was deleted.
        PermissionDenied: the caller may not see the project.
    """
    project = call.arguments["projectid"]
    project_owner(call.connection, call.caller, project.id)
    return projects.list_members(call.connection, project.id, call.arguments, paging(call))


def create_project(call: Call) -> JobTicket:
    """Create a project. The job's result is the project."""
    texts = (call.arguments["name"], call.text("displaytext"), call.text("account"))
    requested = NewProject(*texts, call.ref("domainid"), call.ref("accountid"))
    return service.create_project(call.connection, call.caller, requested)


def update_project(call: Call) -> JobTicket:
    """Change the name or description of a project, or the role of an account in it.

    Raises:
        InvalidCombination: roletype and swapowner are given together.
    """
    account, role, swap = call.text("account"), call.text("roletype"), call.flag("swapowner", default=True)
    if role is not None and call.arguments.get("swapowner"):
        raise InvalidCombination(
            ("roletype", "swapowner"), "With swapowner the account becomes Admin: leave out roletype"
        )
    member = None
    if account is not None:
        swap = swap and role is None
        member = Membership(account, PROJECT_ADMIN if swap else role or PROJECT_REGULAR, swap=swap)
    name, display_text = call.text("name"), call.text("displaytext")
    return service.update_project(
        call.connection, call.caller, call.arguments["id"], name=name, display_text=display_text, member=member
    )


def activate_project(call: Call) -> JobTicket:
    """Activate a suspended project. The job's result is the project."""
    return _set_state(call, active=True)


def suspend_project(call: Call) -> JobTicket:
    """Suspend a project. Jobs stop its VMs."""
    return _set_state(call, active=False)


def _set_state(call: Call, *, active: bool) -> JobTicket:
    queue = call.system.job_queue
    return service.set_state(call.connection, queue, call.caller, call.arguments["id"], active=active)


def delete_project(call: Call) -> JobTicket:
    """Delete a project, which must own nothing. With ``cleanup`` everything that it owns is deleted, too."""
    queue, project = call.system.job_queue, call.arguments["id"]
    removed = service.delete_projects(call.connection, queue, call.caller, [project], cleanup=call.flag("cleanup"))
    return service.deleted(call.connection, call.caller, project, removed)


def add_account_to_project(call: Call) -> JobTicket:
    """Add an account to a project, or invite the account if the settings require invitations."""
    role = call.text("roletype") or PROJECT_REGULAR
    member = Membership(call.arguments["account"], role, project_role=call.ref("projectroleid"))
    return service.add_account(call.connection, call.caller, call.arguments["projectid"], member)


def delete_account_from_project(call: Call) -> JobTicket:
    """Remove an account from a project."""
    project, account = call.arguments["projectid"], call.arguments["account"]
    return service.delete_account(call.connection, call.caller, project, account)


THE_PROJECT = uuid("id", Entity.PROJECT, "the project", required=True)
DETAILS = ("all", "resource", "min")

COMMANDS = (
    Command(
        name="listProjects",
        description="Lists projects with their limits and totals",
        handler=list_projects,
        shape=Shape.LIST,
        response=PROJECT,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.PROJECT, "only this project"),
            string("name", "only projects of this name"),
            string("displaytext", "only projects of this description"),
            string("state", "only projects in this state"),
            string("username", "only projects of accounts with a user of this name"),
            strings(
                "details",
                "the groups of fields that the response contains for each project; default: all",
                choices=DETAILS,
            ),
            SHOW_ICON,
            *OWNER,
            *PAGING,
        ),
        unsupported={"tags": "projects have no tags"},
    ),
    Command(
        name="listProjectAccounts",
        description="Lists the accounts of a project",
        handler=list_project_accounts,
        shape=Shape.LIST,
        response=MEMBER,
        errors=(PermissionDenied,),
        parameters=(
            uuid("projectid", Entity.PROJECT, "the project", required=True),
            string("account", "only the account of this name"),
            string("role", "only accounts with this role", choices=ROLES),
            uuid("projectroleid", Entity.PROJECT_ROLE, "only accounts with this role of the project"),
            *PAGING,
        ),
        unsupported={"userid": ACCOUNTS_ONLY},
    ),
    Command(
        name="createProject",
        description="Creates a project. Its member accounts own the objects of the project together.",
        handler=create_project,
        shape=Shape.JOB,
        response=PROJECT,
        changes_state=True,
        errors=(PermissionDenied, ResourceLimitExceeded),
        parameters=(
            string("name", "the name of the project, unique in the domain", required=True),
            string("displaytext", "the description of the project; default: the name"),
            string(
                "account",
                "the name of the account that manages the project; domainid names its domain. Default: the "
                "account of the caller",
            ),
            uuid(
                "accountid",
                Entity.ACCOUNT,
                "the id of the account that manages the project; used instead of account",
            ),
            uuid("domainid", Entity.DOMAIN, "the domain of the account or, if account is left out, of the project"),
        ),
        unsupported={"userid": ACCOUNTS_ONLY},
    ),
    Command(
        name="updateProject",
        description="Changes the name or description of a project, or the role of one of its accounts",
        handler=update_project,
        shape=Shape.JOB,
        response=PROJECT,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            THE_PROJECT,
            string("name", "the new name of the project"),
            string("displaytext", "the new description of the project"),
            string("account", "the name of an account in the domain of the project, whose role is changed"),
            boolean(
                "swapowner",
                "true (default): the account becomes the only manager, and former managers get the role Regular",
            ),
            string("roletype", "the new role of the account in the project", choices=ROLES),
        ),
        rules=(Needs("roletype", "account"),),
        unsupported={"userid": ACCOUNTS_ONLY},
    ),
    Command(
        name="activateProject",
        description="Activates a suspended project",
        handler=activate_project,
        shape=Shape.JOB,
        response=PROJECT,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_PROJECT,),
    ),
    Command(
        name="suspendProject",
        description="Suspends a project: its virtual machines are stopped, and nothing can be created for it",
        handler=suspend_project,
        shape=Shape.JOB,
        response=PROJECT,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_PROJECT,),
    ),
    Command(
        name="deleteProject",
        description="Deletes a project. The job ends when its virtual machines are expunged",
        handler=delete_project,
        shape=Shape.JOB_SUCCESS,
        changes_state=True,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(
            THE_PROJECT,
            boolean(
                "cleanup",
                "true: also delete all objects that the project owns; otherwise the project must own nothing",
            ),
        ),
    ),
    Command(
        name="addAccountToProject",
        description="Adds an account of its domain to a project, or invites it if project.invite.required is true",
        handler=add_account_to_project,
        shape=Shape.JOB_SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            uuid("projectid", Entity.PROJECT, "the project", required=True),
            string("account", "the name of the account", required=True),
            string("roletype", "the role of the account in the project; default: Regular", choices=ROLES),
            string("email", "accepted without effect: the account is added at once, and no invitation is sent"),
            uuid("projectroleid", Entity.PROJECT_ROLE, "the project role that restricts the account"),
        ),
    ),
    Command(
        name="deleteAccountFromProject",
        description="Removes an account from a project",
        handler=delete_account_from_project,
        shape=Shape.JOB_SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            uuid("projectid", Entity.PROJECT, "the project", required=True),
            string("account", "the name of the account", required=True),
        ),
    ),
)
