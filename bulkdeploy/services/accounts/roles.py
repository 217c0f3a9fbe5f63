"""Operations on roles and their rules: create, update, reorder and delete.

Roles that the installation created, such as Root Admin, cannot be changed. A caller cannot create a role that
permits more than the caller's own role. A change applies from the next call on, because rules are read with every
call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Apis, Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.services.accounts.authority import require_rights
from bulkdeploy.services.accounts.role_rules import add_rule, change_order, change_permission
from bulkdeploy.services.live_entities import given_refs, lock_entities
from bulkdeploy.store.accounts import roles
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Paging
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows, parents_in_use


def create_roles(connection: Connection, caller: Caller, apis: Apis, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create roles. A role is created with a type, or as a copy of another role's type and rules.

    If ``rules`` are given, they replace the copied rules.

    Raises:
        InvalidParameter: a name is already used, or the copied role was deleted.
        PermissionDenied: a role would permit more than the caller's role.
    """
    sources = lock_entities(connection, given_refs(batch, "roleid"), "roleid")
    cloned = roles.rules_of(connection, sources)
    taken = roles.lock_role_names(connection)
    for given in batch:
        _take(taken, given["name"])
    rows = [columns_of(roles.FIELDS, given) for given in batch]
    rules: list[Sequence[roles.Rule]] = []
    for row, given in zip(rows, batch, strict=True):
        source = given.get("roleid")
        if source is not None:
            row["role_type"] = sources[source.id]["role_type"]
        rules.append(given.get("rules", () if source is None else cloned[source.id]))
    made = insert_rows(connection, Entity.ROLE, rows)
    roles.set_rules(connection, {role.id: own for role, own in zip(made, rules, strict=True)})
    _require_rights(connection, caller, apis, {role.id: role.name for role in made})
    record_events(
        connection, caller, (Happened(EventType.ROLE_CREATE, f"created role {role.name}") for role in made)
    )
    return made


def update_roles(connection: Connection, caller: Caller, apis: Apis, changes: Sequence[Change]) -> None:
    """Change the names, descriptions, ``rules`` or types of roles.

    The type can change only while no account has the role.

    Raises:
        InvalidParameter: a name is already used, or a role was deleted.
        PermissionDenied: a role was created by the installation, or permits more than the caller's role.
        ResourceInUse: accounts have the role, so its type cannot change.
    """
    locked = _lock_changeable(connection, caller, apis, [ref for ref, _ in changes], "id")
    pairs = [(locked[ref.id], given) for ref, given in changes]
    renamed = [given for role, given in pairs if given.get("name", role.name).lower() != role.name.lower()]
    taken = roles.lock_role_names(connection) if renamed else set()
    for given in renamed:
        _take(taken, given["name"])
    retyped = [role for role, given in pairs if given.get("type", role.role_type) != role.role_type]
    _require_unused(connection, retyped)
    change_rows(connection, [(ref, columns_of(roles.FIELDS, given)) for ref, given in changes])
    roles.set_rules(connection, {ref.id: given["rules"] for ref, given in changes if "rules" in given})
    _require_rights(connection, caller, apis, {role.id: role.name for role in locked.values()})
    texts = (f"updated role {role.name}" for role, _ in pairs)
    record_events(connection, caller, (Happened(EventType.ROLE_UPDATE, text) for text in texts))


def delete_roles(connection: Connection, caller: Caller, apis: Apis, refs: Sequence[EntityRef]) -> None:
    """Delete roles that no account has.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``update_roles``.
        ResourceInUse: an account has one of the roles.
    """
    locked = _lock_changeable(connection, caller, apis, refs, "id")
    _require_unused(connection, list(locked.values()))
    roles.remove_roles(connection, locked)
    texts = (f"deleted role {role.name}" for role in locked.values())
    record_events(connection, caller, (Happened(EventType.ROLE_DELETE, text) for text in texts))


def create_rule(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, rule: roles.Rule
) -> Mapping[str, Any]:
    """Append a rule to the rules of a role, and return the fields of the rule.

    Raises:
        InvalidParameter: the role was deleted, or already has a rule for the same pattern.
        PermissionDenied: the role was created by the installation, or would permit more than the caller's role.
    """
    with _changing(connection, caller, apis, ref, "roleid") as role:
        rule_id = add_rule(connection, role, rule, change_command="updateRolePermission")
        text = f"role {role.name}: {rule['permission']} {rule['rule']}"
        record_event(connection, caller, EventType.ROLE_PERMISSION_CREATE, text)
        return roles.list_rules(connection, {}, Paging(limit=1), rule_id=rule_id).rows[0]


def set_permission(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, rule: EntityRef, permission: str
) -> None:
    """Set whether one rule of a role allows or denies its API commands.

    Raises:
        InvalidParameter: the role does not have the rule.
        PermissionDenied: under the same conditions as ``create_rule``.
    """
    with _changing(connection, caller, apis, ref, "roleid") as role:
        change_permission(connection, role, rule, permission, "ruleid")
        text = f"role {role.name}: {permission} {rule.name}"
        record_event(connection, caller, EventType.ROLE_PERMISSION_UPDATE, text)


def order_rules(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, order: Sequence[EntityRef]
) -> None:
    """Change the order of a role's rules. The first rule that matches a command decides.

    Raises:
        InvalidParameter: the order does not contain each rule of the role once.
        PermissionDenied: under the same conditions as ``create_rule``.
    """
    with _changing(connection, caller, apis, ref, "roleid") as role:
        change_order(connection, role, order)
        text = f"role {role.name}: rules in another order"
        record_event(connection, caller, EventType.ROLE_PERMISSION_UPDATE, text)


def delete_rule(connection: Connection, caller: Caller, apis: Apis, rule: EntityRef) -> None:
    """Remove a rule of a role.

    Raises:
        InvalidParameter: the rule was removed already.
        PermissionDenied: under the same conditions as ``create_rule``.
    """
    role_id = roles.role_of_rule(connection, rule.id)
    if role_id is None:
        raise InvalidParameter("id", str(rule.uuid), "the rule was removed")
    with _changing(connection, caller, apis, EntityRef(Entity.ROLE, role_id, rule.uuid, ""), "id") as role:
        roles.delete_rule(connection, rule.id)
        text = f"role {role.name}: removed the rule {rule.name}"
        record_event(connection, caller, EventType.ROLE_PERMISSION_DELETE, text)


@contextmanager
def _changing(
    connection: Connection, caller: Caller, apis: Apis, ref: EntityRef, parameter: str
) -> Iterator[Row[Any]]:
    """Lock a role and yield its row for a change.

    The caller must have the role's rights before and after the change.
    """
    role = _lock_changeable(connection, caller, apis, [ref], parameter)[ref.id]
    yield role
    _require_rights(connection, caller, apis, {role.id: role.name})


def _lock_changeable(
    connection: Connection, caller: Caller, apis: Apis, refs: Sequence[EntityRef], parameter: str
) -> dict[int, Row[Any]]:
    locked = roles.lock_roles(connection, [ref.id for ref in refs])
    for ref in refs:
        if ref.id not in locked:
            raise InvalidParameter(parameter, str(ref.uuid), "the role was deleted")
        role = locked[ref.id]
        if role.is_default:
            raise PermissionDenied(f"Role {role.name} is a default role and cannot be changed; clone it")
    _require_rights(connection, caller, apis, {role.id: role.name for role in locked.values()})
    return locked


def _require_rights(connection: Connection, caller: Caller, apis: Apis, names: Mapping[int, str]) -> None:
    for role_id, rights in roles.rights_of(connection, names).items():
        require_rights(caller, rights, apis, f"role {names[role_id]}")


def _take(taken: set[str], name: str) -> None:
    """Add a name to the used names of roles.

    Raises:
        InvalidParameter: another role has the name. Case and surrounding spaces are ignored.
    """
    if name.strip().lower() in taken:
        raise InvalidParameter("name", name, "another role has this name already")
    taken.add(name.strip().lower())


def _require_unused(connection: Connection, changed: Sequence[Row[Any]]) -> None:
    used = parents_in_use(connection, roles.ACCOUNTS, [role.id for role in changed]) if changed else ()
    for role in changed:
        if role.id in used:
            raise ResourceInUse(f"Role {role.name} is in use by accounts; assign another role to them first")
