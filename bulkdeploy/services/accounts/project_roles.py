"""Roles of projects: rules that restrict what Regular members of a project may call for the project.

A call must be allowed by the role of the caller's account and, if it concerns something of a project, by the
caller's role in that project. The first rule that matches the API decides; if no rule matches, the call is allowed.
Members of the role Admin and admins above the project are not restricted.

Lock order: the rows of ``services.accounts.projects``, and then the role's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.accounts.authority import check_name
from bulkdeploy.services.accounts.project_invitations import timeout_s
from bulkdeploy.services.accounts.projects import lock_managed
from bulkdeploy.services.accounts.role_rules import add_rule, change_order, change_permission
from bulkdeploy.store.accounts import project_roles, roles
from bulkdeploy.store.accounts.project_invitations import has_pending_invitation
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, parents_in_use

MOST_ROLES = 50
"""The roles that a project may have. Users create them without any other limit."""
MOST_RULES = 200
"""The rules that a role of a project may have. Each call of a member reads and parses all rules of its roles."""


def create_project_role(
    connection: Connection, caller: Caller, project: EntityRef, name: str, description: str | None
) -> EntityRef:
    """Create a role of a project that the caller manages.

    Raises:
        InvalidParameter: the project was deleted, has a role of this name, or has ``MOST_ROLES`` roles.
        PermissionDenied: the caller does not manage the project.
    """
    row = lock_managed(connection, caller, project, "projectid")
    _check_name(connection, row, name)
    if project_roles.count_project_roles(connection, project.id) >= MOST_ROLES:
        raise InvalidParameter("name", name, f"project {row.name} has {MOST_ROLES} roles, and may not have more")
    made = project_roles.insert_project_role(connection, project.id, name, description)
    text = f"created role {name} of project {row.name}"
    record_event(connection, caller, EventType.PROJECT_ROLE_CREATE, text)
    return made


def update_project_role(
    connection: Connection, caller: Caller, project: EntityRef, ref: EntityRef, given: Arguments
) -> None:
    """Change the name or the description of a role.

    Raises:
        InvalidParameter: the project does not have the role, or another role has the name.
        PermissionDenied: the caller does not manage the project.
    """
    row, role = _lock_role(connection, caller, project, ref, "id")
    name = given.get("name")
    if name is not None and name.lower() != role.name.lower():
        _check_name(connection, row, name)
    change_rows(connection, [(ref, columns_of(roles.FIELDS, given))])
    text = f"updated role {role.name} of project {row.name}"
    record_event(connection, caller, EventType.PROJECT_ROLE_UPDATE, text)


def delete_project_role(connection: Connection, caller: Caller, project: EntityRef, ref: EntityRef) -> None:
    """Delete a role that no member of the project has and no pending invitation promises.

    Raises:
        InvalidParameter: the project does not have the role.
        PermissionDenied: the caller does not manage the project.
        ResourceInUse: a member has the role, or gets the role by accepting an invitation.
    """
    row, role = _lock_role(connection, caller, project, ref, "id")
    if parents_in_use(connection, project_roles.MEMBERS, [role.id]):
        raise ResourceInUse(f"Members of project {row.name} have role {role.name}; remove them first")
    if has_pending_invitation(connection, row.id, role.id, timeout_s=timeout_s(connection)):
        raise ResourceInUse(
            f"Pending invitations to project {row.name} promise role {role.name}; delete the invitations first"
        )
    roles.remove_roles(connection, [role.id])
    text = f"deleted role {role.name} of project {row.name}"
    record_event(connection, caller, EventType.PROJECT_ROLE_DELETE, text)


def create_project_rule(
    connection: Connection, caller: Caller, project: EntityRef, ref: EntityRef, rule: roles.Rule
) -> Mapping[str, Any]:
    """Append a rule to the rules of a project role, and return the fields of the rule.

    Raises:
        InvalidParameter: the project does not have the role, or the role already has the rule or ``MOST_RULES``
            rules.
        PermissionDenied: the caller does not manage the project.
    """
    row, role = _lock_role(connection, caller, project, ref, "projectroleid")
    rule_id = add_rule(connection, role, rule, change_command="updateProjectRolePermission", most=MOST_RULES)
    text = f"role {role.name} of project {row.name}: {rule['permission']} {rule['rule']}"
    record_event(connection, caller, EventType.PROJECT_ROLE_PERMISSION_CREATE, text)
    return roles.list_rules(connection, {}, Paging(limit=1), rule_id=rule_id, project_id=project.id).rows[0]


def set_project_permission(
    connection: Connection, caller: Caller, project: EntityRef, ref: EntityRef, rule: EntityRef, permission: str
) -> None:
    """Change whether a rule allows or denies.

    Raises:
        InvalidParameter: the role does not have the rule, or the project does not have the role.
        PermissionDenied: the caller does not manage the project.
    """
    row, role = _lock_role(connection, caller, project, ref, "projectroleid")
    change_permission(connection, role, rule, permission, "projectrolepermissionid")
    text = f"role {role.name} of project {row.name}: {permission} {rule.name}"
    record_event(connection, caller, EventType.PROJECT_ROLE_PERMISSION_UPDATE, text)


def order_project_rules(
    connection: Connection, caller: Caller, project: EntityRef, ref: EntityRef, order: Sequence[EntityRef]
) -> None:
    """Change the order of the rules of a role.

    Raises:
        InvalidParameter: the order does not contain each rule of the role once.
        PermissionDenied: the caller does not manage the project.
    """
    row, role = _lock_role(connection, caller, project, ref, "projectroleid")
    change_order(connection, role, order)
    text = f"role {role.name} of project {row.name}: rules in another order"
    record_event(connection, caller, EventType.PROJECT_ROLE_PERMISSION_UPDATE, text)


def delete_project_rule(connection: Connection, caller: Caller, project: EntityRef, rule: EntityRef) -> None:
    """Delete a rule of a role of a project.

    Raises:
        InvalidParameter: no role of the project has the rule.
        PermissionDenied: the caller does not manage the project.
    """
    row = lock_managed(connection, caller, project, "projectid")
    role_id = roles.role_of_rule(connection, rule.id)
    role = None if role_id is None else roles.lock_roles(connection, [role_id], project_id=row.id).get(role_id)
    if role is None:
        raise InvalidParameter("id", str(rule.uuid), f"it is not a rule of a role of project {row.name}")
    roles.delete_rule(connection, rule.id)
    text = f"role {role.name} of project {row.name}: removed the rule {rule.name}"
    record_event(connection, caller, EventType.PROJECT_ROLE_PERMISSION_DELETE, text)


def _lock_role(
    connection: Connection, caller: Caller, project: EntityRef, ref: EntityRef, parameter: str
) -> tuple[Row[Any], Row[Any]]:
    """Lock a project that the caller manages and one of its roles, and return the rows of both.

    Raises InvalidParameter if the project does not have the role.
    """
    row = lock_managed(connection, caller, project, "projectid")
    role = roles.lock_roles(connection, [ref.id], project_id=row.id).get(ref.id)
    if role is None:
        raise InvalidParameter(parameter, str(ref.uuid), f"it is not a role of project {row.name}")
    return row, role


def _check_name(connection: Connection, project: Row[Any], name: str) -> None:
    check_name("name", name)
    if project_roles.is_name_taken(connection, project.id, name):
        raise InvalidParameter("name", name, f"project {project.name} has a role of this name already")
