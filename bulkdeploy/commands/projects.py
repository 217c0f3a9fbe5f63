"""listProjects."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.counter_fields import ACCOUNT_COUNTERS
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import moment, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.ownership import named_account, require_domain
from bulkdeploy.store import projects
from bulkdeploy.store.listing import Page

PROJECT = Response(
    "project",
    (
        text("id", "the project"),
        text("name", "its name"),
        text("displaytext", "its description"),
        text("state", "Active or Suspended"),
        text("domainid", "its domain"),
        text("domain", "the domain's name"),
        text("projectaccountname", "the account behind it"),
        objects(
            "owner",
            "who manages it",
            (text("account", "the account's name"), text("accountid", "the account")),
        ),
        moment("created", "when it was made"),
        *ACCOUNT_COUNTERS,
    ),
)


def list_projects(call: Call) -> Page:
    """The projects of the caller's account; with ``listall`` or ``id`` all that the caller may see.

    Raises:
        InvalidParameter: there is no such account.
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
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
    )


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
            *OWNER,
            *PAGING,
        ),
    ),
)
