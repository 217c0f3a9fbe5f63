"""Commands of project roles and their rules (one file: the commands of one noun)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bulkdeploy.commands.accounts.role_rules import PERMISSIONS, RULE, RULE_PARAMETERS
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import ExactlyOne, Needs, string, uuid, uuids
from bulkdeploy.declare.response_fields import flag, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.accounts import project_roles as service
from bulkdeploy.services.ownership import project_owner
from bulkdeploy.store.accounts import project_roles, roles
from bulkdeploy.store.rows.listing import Page, Paging

PROJECT_ROLE = Response(
    "projectrole",
    (
        text("id", "the role"),
        text("name", "the name of the role"),
        text("description", "the description of the role"),
        text("projectid", "the project"),
        flag("ispublic", "always true: all members of the project see it"),
    ),
)
PROJECT_RULE = Response(
    "projectrolepermission",
    (
        *(field for field in RULE.fields if field.name not in ("roleid", "rolename")),
        text("projectid", "the project"),
        text("projectroleid", "the role"),
        text("projectrolename", "the role's name"),
    ),
)


def list_project_roles(call: Call) -> Page:
    """List the roles of a project that the caller may see.

    Raises:
        InvalidParameter: the project was deleted.
        PermissionDenied: the caller may not see the project.
    """
    project = call.arguments["projectid"]
    project_owner(call.connection, call.caller, project.id)
    return project_roles.list_project_roles(call.connection, project.id, call.arguments, paging(call))


def list_project_role_permissions(call: Call) -> Page:
    """Return the rules of the roles of a project, in the order in which they are evaluated.

    Raises:
        InvalidParameter: the project was deleted.
        PermissionDenied: the caller may not see the project.
    """
    project = call.arguments["projectid"]
    project_owner(call.connection, call.caller, project.id)
    filters = {key: value for key, value in call.arguments.items() if key != "projectroleid"}
    if (role := call.ref("projectroleid")) is not None:
        filters["roleid"] = role
    page = roles.list_rules(call.connection, filters, Paging(limit=None), project_id=project.id)
    return replace(page, rows=[_rule_of(call, row) for row in page.rows])


def create_project_role(call: Call) -> Mapping[str, Any]:
    """Create a role of a project, and return the role."""
    project, name = call.arguments["projectid"], call.arguments["name"]
    role = service.create_project_role(call.connection, call.caller, project, name, call.text("description"))
    return project_roles.read_project_role(call.connection, role.id)


def update_project_role(call: Call) -> Mapping[str, Any]:
    """Change the name or description of a role of a project, and return the role."""
    project, role = call.arguments["projectid"], call.arguments["id"]
    service.update_project_role(call.connection, call.caller, project, role, call.arguments)
    return project_roles.read_project_role(call.connection, role.id)


def delete_project_role(call: Call) -> None:
    """Delete a role of a project."""
    service.delete_project_role(call.connection, call.caller, call.arguments["projectid"], call.arguments["id"])


def create_project_role_permission(call: Call) -> Mapping[str, Any]:
    """Add a rule to a role of a project, and return the rule."""
    rule = {name: call.arguments.get(name) for name in ("rule", "permission", "description")}
    project, role = call.arguments["projectid"], call.arguments["projectroleid"]
    return _rule_of(call, service.create_project_rule(call.connection, call.caller, project, role, rule))


def update_project_role_permission(call: Call) -> None:
    """Change the permission of one rule of a project's role, or the order of all its rules."""
    project, role = call.arguments["projectid"], call.arguments["projectroleid"]
    if order := call.arguments.get("ruleorder"):
        service.order_project_rules(call.connection, call.caller, project, role, order)
        return
    rule, permission = call.arguments["projectrolepermissionid"], call.arguments["permission"]
    service.set_project_permission(call.connection, call.caller, project, role, rule, permission)


def delete_project_role_permission(call: Call) -> None:
    """Delete a rule of a role of a project."""
    service.delete_project_rule(call.connection, call.caller, call.arguments["projectid"], call.arguments["id"])


def _rule_of(call: Call, row: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {"roleid": "projectroleid", "rolename": "projectrolename"}
    shown = {renamed.get(name, name): value for name, value in row.items()}
    return {**shown, "projectid": call.arguments["projectid"].uuid}


THE_PROJECT = uuid("projectid", Entity.PROJECT, "the project", required=True)
THE_ROLE = uuid("projectroleid", Entity.PROJECT_ROLE, "the role", required=True)

COMMANDS = (
    Command(
        name="listProjectRoles",
        description="Lists the roles of a project",
        handler=list_project_roles,
        shape=Shape.LIST,
        response=PROJECT_ROLE,
        errors=(PermissionDenied,),
        parameters=(
            THE_PROJECT,
            uuid("projectroleid", Entity.PROJECT_ROLE, "only this role"),
            string("name", "only roles of this name"),
            *PAGING,
        ),
    ),
    Command(
        name="listProjectRolePermissions",
        description="Lists the rules of the roles of a project; the first rule that matches an API decides",
        handler=list_project_role_permissions,
        shape=Shape.LIST,
        response=PROJECT_RULE,
        errors=(PermissionDenied,),
        parameters=(
            THE_PROJECT,
            uuid("projectroleid", Entity.PROJECT_ROLE, "only rules of this role"),
        ),
    ),
    Command(
        name="createProjectRole",
        description="Creates a role of a project. Its rules restrict Regular members with this role.",
        handler=create_project_role,
        shape=Shape.OBJECT,
        response=PROJECT_ROLE,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            THE_PROJECT,
            string("name", "the name of the role, unique in the project", required=True),
            string("description", "the description of the role"),
        ),
    ),
    Command(
        name="updateProjectRole",
        description="Changes the name or the description of a role of a project",
        handler=update_project_role,
        shape=Shape.OBJECT,
        response=PROJECT_ROLE,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            THE_PROJECT,
            uuid("id", Entity.PROJECT_ROLE, "the role", required=True),
            string("name", "the new name of the role"),
            string("description", "the new description of the role"),
        ),
    ),
    Command(
        name="deleteProjectRole",
        description=(
            "Deletes a role of a project. No member of the project and no pending invitation may have the role"
        ),
        handler=delete_project_role,
        shape=Shape.SUCCESS,
        changes_state=True,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(THE_PROJECT, uuid("id", Entity.PROJECT_ROLE, "the role", required=True)),
    ),
    Command(
        name="createProjectRolePermission",
        description="Adds a rule to a role of a project, after all existing rules",
        handler=create_project_role_permission,
        shape=Shape.OBJECT,
        response=PROJECT_RULE,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_PROJECT, THE_ROLE, *RULE_PARAMETERS),
    ),
    Command(
        name="updateProjectRolePermission",
        description="Changes the permission of one rule of a role of a project, or the order of all its rules",
        handler=update_project_role_permission,
        shape=Shape.SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            THE_PROJECT,
            THE_ROLE,
            uuids(
                "ruleorder",
                Entity.PROJECT_ROLE_PERMISSION,
                "the ids of all rules of the role, in the order of their evaluation",
            ),
            uuid("projectrolepermissionid", Entity.PROJECT_ROLE_PERMISSION, "the rule of the role"),
            string("permission", "the new permission of the rule, allow or deny", choices=PERMISSIONS),
        ),
        rules=(
            ExactlyOne(("ruleorder", "projectrolepermissionid")),
            Needs("projectrolepermissionid", "permission"),
            Needs("permission", "projectrolepermissionid"),
        ),
    ),
    Command(
        name="deleteProjectRolePermission",
        description="Deletes a rule of a role of a project",
        handler=delete_project_role_permission,
        shape=Shape.SUCCESS,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(THE_PROJECT, uuid("id", Entity.PROJECT_ROLE_PERMISSION, "the rule", required=True)),
    ),
)
