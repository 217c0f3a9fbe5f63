"""Roles and their rules: made, changed, put in order and deleted.

Roles that came with the installation stay as they are, Root Admin above all. Nobody makes a role that may more
than its own does. A change holds from the next call on: rules are read with every call.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Apis, Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.accounts.authority import check_name, require_rights
from bulkdeploy.store.accounts import roles
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.listing import Paging

PATTERN = re.compile(r"[A-Za-z0-9*]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewRole:
    """A role to make: of a type, or with type and rules of another; one of the two."""

    name: str
    role_type: str | None
    cloned: EntityRef | None
    description: str | None


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule to put behind all others of a role; ``permission`` is allow or deny."""

    pattern: str
    permission: str
    description: str | None


def create_role(connection: Connection, caller: Caller, apis: Apis, asked: NewRole) -> Mapping[str, Any]:
    """Make a role and answer it.

    Raises:
        InvalidParameter: a name that is taken or not possible, a deleted role.
        PermissionDenied: it could do more than the caller.
    """
    check_name("name", asked.name)
    if roles.is_role_name_taken(connection, asked.name):
        raise InvalidParameter("name", asked.name, "there is a role of this name already")
    cloned = asked.cloned
    source = None if cloned is None else _lock(connection, cloned.id, "roleid", str(cloned.uuid))
    columns = {
        "name": asked.name,
        "role_type": asked.role_type if source is None else source.role_type,
        "description": asked.description,
    }
    role_id = roles.insert_role(connection, columns, None if source is None else source.id)
    require_rights(caller, roles.rights_of(connection, role_id), apis, f"role {asked.name}")
    record_event(connection, caller, EventType.ROLE_CREATE, f"created role {asked.name}")
    return roles.read_role(connection, role_id)


def update_role(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Give a role another name, description or, while no account has it, type; and answer it.

    Raises:
        InvalidParameter: a name that is taken or not possible, a deleted role.
        PermissionDenied: it came with the installation, or may more than the caller.
        ResourceInUse: accounts have it, so that its type cannot change.
    """
    name, role_type = arguments.get("name"), arguments.get("type")
    if name is not None:
        check_name("name", name)
    with _changing(connection, caller, apis, ref, "id") as role:
        if name is not None and name.lower() != role.name.lower() and roles.is_role_name_taken(connection, name):
            raise InvalidParameter("name", name, "there is a role of this name already")
        if role_type not in (None, role.role_type):
            _require_unused(connection, role)
        given = {"name": name, "role_type": role_type, "description": arguments.get("description")}
        roles.update_role(connection, role.id, {key: value for key, value in given.items() if value is not None})
        record_event(connection, caller, EventType.ROLE_UPDATE, f"updated role {role.name}")
        return roles.read_role(connection, role.id)


def delete_role(connection: Connection, caller: Caller, apis: Apis, ref: EntityRef) -> None:
    """Delete a role that no account has.

    Raises:
        InvalidParameter, PermissionDenied: as for ``update_role``.
        ResourceInUse: accounts have it.
    """
    with _changing(connection, caller, apis, ref, "id") as role:
        _require_unused(connection, role)
        roles.remove_role(connection, role.id)
        record_event(connection, caller, EventType.ROLE_DELETE, f"deleted role {role.name}")


def create_rule(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, asked: NewRule
) -> Mapping[str, Any]:
    """Put a rule behind all others of a role, and answer it.

    Raises:
        InvalidParameter: a pattern that no API's name could match, a deleted role.
        PermissionDenied: the role came with the installation, or could do more than the caller.
    """
    if PATTERN.fullmatch(asked.pattern) is None:
        raise InvalidParameter("rule", asked.pattern, "it should be an API's name, * standing for any letters")
    with _changing(connection, caller, apis, ref, "roleid") as role:
        columns = {"rule": asked.pattern, "permission": asked.permission, "description": asked.description}
        rule_id = roles.insert_rule(connection, role.id, columns)
        text = f"role {role.name}: {asked.permission} {asked.pattern}"
        record_event(connection, caller, EventType.ROLE_PERMISSION_CREATE, text)
        return roles.list_rules(connection, {}, Paging(limit=1), rule_id=rule_id).rows[0]


def set_permission(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, rule: EntityRef, permission: str
) -> None:
    """Let one rule of a role allow or deny.

    Raises:
        InvalidParameter: the rule is not one of the role.
        PermissionDenied: as for ``create_rule``.
    """
    with _changing(connection, caller, apis, ref, "roleid") as role:
        if roles.role_of_rule(connection, rule.id) != role.id:
            raise InvalidParameter("ruleid", str(rule.uuid), f"it is no rule of role {role.name}")
        roles.set_permission(connection, rule.id, permission)
        text = f"role {role.name}: {permission} {rule.name}"
        record_event(connection, caller, EventType.ROLE_PERMISSION_UPDATE, text)


def order_rules(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, order: Sequence[EntityRef]
) -> None:
    """Put the rules of a role into another order: the first that matches decides.

    Raises:
        InvalidParameter: the order does not hold all rules of the role, each once.
        PermissionDenied: as for ``create_rule``.
    """
    ids = [rule.id for rule in order]
    with _changing(connection, caller, apis, ref, "roleid") as role:
        if sorted(ids) != sorted(roles.rule_ids(connection, role.id)):
            shown = ",".join(str(rule.uuid) for rule in order)
            raise InvalidParameter("ruleorder", shown, f"it should hold every rule of role {role.name} once")
        roles.order_rules(connection, ids)
        text = f"role {role.name}: rules in another order"
        record_event(connection, caller, EventType.ROLE_PERMISSION_UPDATE, text)


def delete_rule(connection: Connection, caller: Caller, apis: Apis, rule: EntityRef) -> None:
    """Remove a rule of a role.

    Raises:
        InvalidParameter: it was removed already.
        PermissionDenied: as for ``create_rule``.
    """
    role_id = roles.role_of_rule(connection, rule.id)
    if role_id is None:
        raise InvalidParameter("id", str(rule.uuid), "the rule was removed")
    role = _lock_changeable(connection, caller, apis, role_id, "id", str(rule.uuid))
    roles.delete_rule(connection, rule.id)
    require_rights(caller, roles.rights_of(connection, role.id), apis, f"role {role.name}")
    text = f"role {role.name}: removed the rule {rule.name}"
    record_event(connection, caller, EventType.ROLE_PERMISSION_DELETE, text)


@contextmanager
def _changing(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, parameter: str
) -> Iterator[Row[Any]]:
    """A role, locked, to be changed by a caller that has its rights, before and after."""
    role = _lock_changeable(connection, caller, apis, ref.id, parameter, str(ref.uuid))
    yield role
    require_rights(caller, roles.rights_of(connection, role.id), apis, f"role {role.name}")


def _lock_changeable(
    connection: Connection, caller: Caller, apis: Apis, role_id: int, parameter: str, value: str
) -> Row[Any]:
    role = _lock(connection, role_id, parameter, value)
    if role.is_default:
        raise PermissionDenied(f"Role {role.name} came with the installation and cannot be changed; clone it")
    require_rights(caller, roles.rights_of(connection, role.id), apis, f"role {role.name}")
    return role


def _lock(connection: Connection, role_id: int, parameter: str, value: str) -> Row[Any]:
    role = roles.lock_role(connection, role_id)
    if role is None:
        raise InvalidParameter(parameter, value, "the role was deleted")
    return role


def _require_unused(connection: Connection, role: Row[Any]) -> None:
    if roles.is_role_used(connection, role.id):
        raise ResourceInUse(f"Accounts have role {role.name}; give them another one first")
