"""Commands of roles and their rules (one file: the commands of one noun)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.accounts.role_rules import PERMISSIONS, RULE, RULE_PARAMETERS
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.constant_fields import OF_ROLES
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.registry import every_api
from bulkdeploy.declare.binding import Binder
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Change, Noun, Values, by
from bulkdeploy.declare.parameters import ExactlyOne, Needs, boolean, mapping, string, uuid, uuids
from bulkdeploy.declare.response_fields import flag, moment, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import ROLE_NAME
from bulkdeploy.domain.accounts.accounts import ADMINS, ROOT_ADMIN_ONLY, Caller, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ParameterError, PermissionDenied, ResourceInUse
from bulkdeploy.services.accounts import roles as service
from bulkdeploy.store.accounts import roles
from bulkdeploy.store.rows.listing import Page

TYPES = tuple(kind.value for kind in RoleType)

ROLE = Response(
    "role",
    (
        text("id", "the role"),
        text("name", "the name of the role"),
        text("type", "Admin, ResourceAdmin, DomainAdmin or User"),
        text("description", "the description of the role"),
        flag("isdefault", "whether the object was created by the installation"),
        flag("ispublic", "whether users other than root admins can see the role and assign it to accounts"),
        moment("created", "the date and time of creation"),
        *OF_ROLES,
    ),
)


def list_roles(call: Call) -> Page:
    """Return the roles of accounts. Callers who are not root admins do not see Admin roles."""
    return roles.list_roles(call.connection, call.arguments, paging(call), with_admins=call.caller.is_root_admin)


def list_role_permissions(call: Call) -> Page:
    """Return the rules of roles in the order in which they are evaluated."""
    return roles.list_rules(call.connection, call.arguments, paging(call))


def create_role(call: Call) -> Mapping[str, Any]:
    """Create a role, and return the role."""
    (role,) = service.create_roles(call.connection, call.caller, every_api(), [call.arguments])
    return roles.read_role(call.connection, role.id)


def update_role(call: Call) -> Mapping[str, Any]:
    """Change the fields of a role, and return the role."""
    role = call.arguments["id"]
    service.update_roles(call.connection, call.caller, every_api(), [(role, call.arguments)])
    return roles.read_role(call.connection, role.id)


def delete_role(call: Call) -> None:
    """Delete a role."""
    service.delete_roles(call.connection, call.caller, every_api(), [call.arguments["id"]])


def create_role_permission(call: Call) -> Mapping[str, Any]:
    """Add a rule to a role after its existing rules, and return the rule."""
    rule = {name: call.arguments.get(name) for name in ("rule", "permission", "description")}
    return service.create_rule(call.connection, call.caller, every_api(), call.arguments["roleid"], rule)


def update_role_permission(call: Call) -> None:
    """Change the permission of one rule of a role, or the order of all its rules."""
    role, order = call.arguments["roleid"], call.arguments.get("ruleorder")
    if order:
        service.order_rules(call.connection, call.caller, every_api(), role, order)
        return
    rule, permission = call.arguments["ruleid"], call.arguments["permission"]
    service.set_permission(call.connection, call.caller, every_api(), role, rule, permission)


def delete_role_permission(call: Call) -> None:
    """Remove a rule from a role."""
    service.delete_rule(call.connection, call.caller, every_api(), call.arguments["id"])


def import_role(call: Call) -> Mapping[str, Any]:
    """Create a role with rules.

    With ``forced``, an existing role with this name gets the rules. Return the role.

    Raises:
        InvalidParameter: a rule is not valid, or a role has the name and ``forced`` is not given.
    """
    given = with_rules(call.arguments)
    known = roles.find_role(call.connection, call.arguments["name"]) if call.flag("forced") else None
    if known is None:
        (known,) = service.create_roles(call.connection, call.caller, every_api(), [given])
    else:
        service.update_roles(call.connection, call.caller, every_api(), [(known, given)])
    return roles.read_role(call.connection, known.id)


PUBLICITY = boolean(
    "ispublic",
    "whether users other than root admins can see the role and assign it to accounts; initial value: true",
)

CREATE = Command(
    name="createRole",
    description="Creates a role without rules, or with the rules of another role",
    handler=create_role,
    shape=Shape.OBJECT,
    response=ROLE,
    roles=ROOT_ADMIN_ONLY,
    authorized=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        string("name", "the name of the role, unique among roles", required=True, rule=ROLE_NAME),
        string("type", "the type of the role", choices=TYPES),
        uuid("roleid", Entity.ROLE, "the role whose type and rules are copied"),
        string("description", "the description of the role"),
        PUBLICITY,
    ),
    rules=(ExactlyOne(("type", "roleid")),),
)

UPDATE = Command(
    name="updateRole",
    description="Changes the name and description of a role, and its type while no account has the role",
    handler=update_role,
    shape=Shape.OBJECT,
    response=ROLE,
    roles=ROOT_ADMIN_ONLY,
    authorized=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(PermissionDenied, ResourceInUse),
    parameters=(
        uuid("id", Entity.ROLE, "the role", required=True),
        string("name", "the new name of the role", rule=ROLE_NAME),
        string("type", "the new type of the role", choices=TYPES),
        string("description", "the new description of the role"),
        PUBLICITY,
    ),
)

CREATE_RULE = Command(
    name="createRolePermission",
    description="Adds a rule to a role, after all existing rules",
    handler=create_role_permission,
    shape=Shape.OBJECT,
    response=RULE,
    roles=ROOT_ADMIN_ONLY,
    authorized=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        uuid("roleid", Entity.ROLE, "the role", required=True),
        *RULE_PARAMETERS,
    ),
)

IMPORT = replace(
    CREATE,
    name="importRole",
    description=(
        "Creates a role with the given rules. With forced=true, an existing role with this name gets the rules"
    ),
    handler=import_role,
    errors=(PermissionDenied, ResourceInUse),
    parameters=(
        *(replace(one, required=one.name in ("name", "type")) for one in CREATE.parameters if one.name != "roleid"),
        replace(
            mapping(
                "rules",
                "the rules in the order of their evaluation: rule, permission and description",
                tuple((one.name, None) for one in RULE_PARAMETERS),
            ),
            required=True,
        ),
        boolean("forced", "replace an existing role with this name; default false"),
    ),
    rules=(),
)

COMMANDS = (
    Command(
        name="listRoles",
        description="Lists the roles that accounts may have; Admin roles only to root admins",
        handler=list_roles,
        shape=Shape.LIST,
        response=ROLE,
        roles=ADMINS,
        authorized=ADMINS,
        parameters=(
            uuid("id", Entity.ROLE, "only this role"),
            string("name", "only roles of this name"),
            string("type", "only roles of this type", choices=TYPES),
            string("state", "only roles in this state; all roles are enabled", choices=("enabled", "disabled")),
            *PAGING,
        ),
    ),
    Command(
        name="listRolePermissions",
        description="Lists the rules of roles; the first that matches an API decides",
        handler=list_role_permissions,
        shape=Shape.LIST,
        response=RULE,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        parameters=(uuid("roleid", Entity.ROLE, "only rules of this role"), *PAGING),
    ),
    CREATE,
    IMPORT,
    UPDATE,
    Command(
        name="deleteRole",
        description="Deletes a role that no account has",
        handler=delete_role,
        shape=Shape.SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(uuid("id", Entity.ROLE, "the role", required=True),),
    ),
    CREATE_RULE,
    Command(
        name="updateRolePermission",
        description="Changes the permission of one rule of a role, or the order of all its rules",
        handler=update_role_permission,
        shape=Shape.SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(
            uuid("roleid", Entity.ROLE, "the role", required=True),
            uuids(
                "ruleorder",
                Entity.ROLE_PERMISSION,
                "the ids of all rules of the role, in the order of their evaluation",
            ),
            uuid("ruleid", Entity.ROLE_PERMISSION, "the rule of the role"),
            string("permission", "the new permission of the rule, allow or deny", choices=PERMISSIONS),
        ),
        rules=(
            ExactlyOne(("ruleorder", "ruleid")),
            Needs("ruleid", "permission"),
            Needs("permission", "ruleid"),
        ),
    ),
    Command(
        name="deleteRolePermission",
        description="Removes a rule from a role",
        handler=delete_role_permission,
        shape=Shape.SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(PermissionDenied,),
        parameters=(uuid("id", Entity.ROLE_PERMISSION, "the rule", required=True),),
    ),
)


RULES = Binder(replace(CREATE_RULE, parameters=RULE_PARAMETERS))


def with_rules(given: Values) -> Values:
    """Return the values of a role with validated rules, as createRolePermission validates them.

    Raises:
        InvalidParameter: a rule is not valid.
    """
    known = {parameter.name for parameter in RULE_PARAMETERS}
    bound = []
    for rule in given.get("rules", ()):
        if unknown := sorted(rule.keys() - known):
            raise InvalidParameter("rules", unknown[0], f"must have the keys {', '.join(sorted(known))}")
        try:
            bound.append(RULES.bind(rule, None, lambda _: {}))
        except ParameterError as error:
            raise InvalidParameter("rules", None, str(error)) from error
    return {**given, "rules": bound} if "rules" in given else given


def create_roles(connection: Connection, caller: Caller, batch: Sequence[Values]) -> Sequence[EntityRef]:
    """Create the roles of a zone file with their rules, and return them."""
    return service.create_roles(connection, caller, every_api(), [with_rules(given) for given in batch])


def update_roles(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change roles so that they match the entries of a zone file."""
    bound = [(role, with_rules(given)) for role, given in changes]
    service.update_roles(connection, caller, every_api(), bound)


def _same_rules(rules: Iterable[Mapping[str, str]]) -> list[tuple[str, str, str]]:
    return [
        (rule.get("rule", ""), rule.get("permission", "").lower(), rule.get("description", "")) for rule in rules
    ]


NOUNS = (
    Noun(
        section="roles",
        entity=Entity.ROLE,
        create=CREATE,
        create_many=create_roles,
        update=UPDATE,
        update_many=update_roles,
        more=(mapping("rules", "the rules in the order of their evaluation: rule, permission and description"),),
        read=roles.read_roles,
        key=by("name"),
        compare={"rules": _same_rules},
        exports=lambda row: not row["isdefault"],
    ),
)
