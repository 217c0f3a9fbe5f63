"""Rows of roles and their rules: the list queries, inserts, updates and deletes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, text, update

from bulkdeploy.domain.accounts.accounts import Rights, RoleType
from bulkdeploy.domain.accounts.permissions import rules_of as rule_set
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.database.default_rows import ALLOW, ROOT_ADMIN_ROLE_ID
from bulkdeploy.store.rows.filters import Arguments, Filters, always, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page
from bulkdeploy.store.rows.live_rows import Fields, lock_live, reader
from bulkdeploy.store.tables.accounts import accounts, role_rules, roles

FILTERS: Filters = {
    "id": by_id(roles.c.id),
    "name": same_text(roles.c.name),
    "keyword": keyword(roles.c.name, roles.c.description),
    "state": always("enabled"),
    "type": same_text(roles.c.role_type),
}

FIELDS: Fields = {
    "name": roles.c.name,
    "type": roles.c.role_type,
    "description": roles.c.description,
    "ispublic": roles.c.is_public,
}

OF_ACCOUNTS = roles.c.project_id.is_(None)
"""The condition of roles that accounts have. Other roles belong to projects."""

ACCOUNTS = accounts.c.role_id
"""What accounts hang on a role by."""

Rule = Mapping[str, str | None]
"""One rule of a role: ``rule``, ``permission`` and ``description``."""


def list_roles(connection: Connection, arguments: Arguments, paging: Paging, *, with_admins: bool) -> Page:
    """Return one page of roles, ordered by id.

    Without ``with_admins``, Admin roles and private roles are omitted.
    """
    query = select(*_columns()).where(roles.c.removed.is_(None), OF_ACCOUNTS).order_by(roles.c.id)
    if not with_admins:
        query = query.where(roles.c.role_type != RoleType.ADMIN.value, roles.c.is_public)
    return fetch_page(connection, filtered(query, FILTERS, arguments), paging)


def _columns() -> tuple[ColumnElement[Any], ...]:
    role = roles.c
    return (
        role.uuid.label("id"),
        role.name,
        role.role_type.label("type"),
        role.description,
        role.is_default.label("isdefault"),
        role.is_public.label("ispublic"),
        role.created,
    )


def read_role(connection: Connection, role_id: int) -> dict[str, Any]:
    """Return one live role with the same fields as in lists."""
    query = select(*_columns()).where(roles.c.id == role_id)
    return dict(connection.execute(query).mappings().one())


def list_rules(
    connection: Connection,
    arguments: Arguments,
    paging: Paging,
    *,
    rule_id: int | None = None,
    project_id: int | None = None,
) -> Page:
    """Return one page of the rules of live roles, in the order in which they are evaluated.

    With ``project_id``, these are the rules of a project's roles, otherwise of account roles. ``rule_id`` selects
    one rule.
    """
    rule = role_rules.c
    query = (
        select(
            rule.uuid.label("id"),
            rule.rule,
            rule.permission,
            rule.description,
            roles.c.uuid.label("roleid"),
            roles.c.name.label("rolename"),
        )
        .join(roles, roles.c.id == rule.role_id)
        .where(roles.c.removed.is_(None), roles.c.project_id.is_not_distinct_from(project_id))
        .order_by(rule.role_id, rule.sort_order, rule.id)
    )
    if rule_id is not None:
        query = query.where(rule.id == rule_id)
    filters: Filters = {"roleid": by_id(rule.role_id), "keyword": keyword(rule.rule, rule.description)}
    return fetch_page(connection, filtered(query, filters, arguments), paging)


def lock_role(connection: Connection, role_id: int) -> Row[Any] | None:
    """Lock a live role and return its row, or None. Changes of the role's rules require this lock."""
    return lock_roles(connection, [role_id]).get(role_id)


def lock_roles(
    connection: Connection, role_ids: Iterable[int], *, project_id: int | None = None
) -> dict[int, Row[Any]]:
    """Lock live roles of accounts or of a project, and return their rows by internal id."""
    return lock_live(connection, roles, role_ids, roles.c.project_id.is_not_distinct_from(project_id))


def rights_of(connection: Connection, role_ids: Collection[int]) -> dict[int, Rights]:
    """Return the current rights of roles by the role's id."""
    types = connection.execute(select(roles.c.id, roles.c.role_type).where(id_in(roles.c.id, role_ids)))
    rules = rules_of(connection, role_ids)
    return {
        row.id: Rights(
            RoleType(row.role_type),
            rule_set((str(rule["rule"]), rule["permission"] == ALLOW) for rule in rules[row.id]),
        )
        for row in types
    }


def role_of_rule(connection: Connection, rule_id: int) -> int | None:
    """Return the id of the role to which a rule belongs, or None if the rule was deleted."""
    return connection.execute(select(role_rules.c.role_id).where(role_rules.c.id == rule_id)).scalar()


def lock_role_names(connection: Connection) -> set[str]:
    """Return the names of all live roles in lower case, without surrounding spaces.

    Other transactions that call this function wait until this transaction ends.
    """
    # The root admin role always exists, so its lock protects the names of all roles.
    lock_role(connection, ROOT_ADMIN_ROLE_ID)
    names = connection.execute(select(roles.c.name).where(roles.c.removed.is_(None), OF_ACCOUNTS)).scalars()
    return {name.strip().lower() for name in names}


def find_role(connection: Connection, name: str) -> EntityRef | None:
    """Return the live role with this name, ignoring case, or None if there is none."""
    query = select(roles.c.id, roles.c.uuid, roles.c.name).where(
        same_text(roles.c.name)(name), roles.c.removed.is_(None), OF_ACCOUNTS
    )
    found = connection.execute(query).one_or_none()
    return None if found is None else EntityRef(Entity.ROLE, found.id, found.uuid, found.name)


def read_roles(connection: Connection) -> list[dict[str, Any]]:
    """Return all roles with their rules, in the format of zone files."""
    rows = _read_all(connection)
    rules = rules_of(connection, [row["_id"] for row in rows])
    return [{**row, "rules": rules[row["_id"]]} for row in rows]


_read_all = reader(Entity.ROLE, {**FIELDS, "isdefault": roles.c.is_default})


def rules_of(connection: Connection, role_ids: Iterable[int]) -> dict[int, list[Rule]]:
    """Return the rules of roles by the role's id, each in its order."""
    rule = role_rules.c
    query = select(rule.role_id, rule.rule, rule.permission, rule.description).where(id_in(rule.role_id, role_ids))
    found: dict[int, list[Rule]] = defaultdict(list)
    for row in connection.execute(query.order_by(rule.role_id, rule.sort_order, rule.id)).mappings():
        said = {name: row[name] for name in ("rule", "permission", "description") if row[name] is not None}
        found[row["role_id"]].append(said)
    return found


def set_rules(connection: Connection, rules: Mapping[int, Sequence[Rule]]) -> None:
    """Replace the rules of locked roles by these rules, in this order."""
    connection.execute(delete(role_rules).where(id_in(role_rules.c.role_id, rules)))
    rows = [
        {"role_id": role_id, "sort_order": order, "description": None, **rule}
        for role_id, given in rules.items()
        for order, rule in enumerate(given)
    ]
    if rows:
        connection.execute(insert(role_rules).values(rows))


def remove_roles(connection: Connection, role_ids: Collection[int]) -> None:
    """Mark locked roles removed, and delete their rules."""
    connection.execute(delete(role_rules).where(id_in(role_rules.c.role_id, role_ids)))
    connection.execute(update(roles).where(id_in(roles.c.id, role_ids)).values(removed=func.now()))


def insert_rule(connection: Connection, role_id: int, rule: Rule) -> int:
    """Insert a new last rule of a locked role, and return the rule's id."""
    last = select(func.coalesce(func.max(role_rules.c.sort_order), -1) + 1).where(role_rules.c.role_id == role_id)
    made = insert(role_rules).values(role_id=role_id, sort_order=last.scalar_subquery(), **rule)
    return int(connection.execute(made.returning(role_rules.c.id)).scalar_one())


def set_permission(connection: Connection, rule_id: int, permission: str) -> None:
    """Set the permission of one rule of a locked role: allow or deny."""
    connection.execute(update(role_rules).where(role_rules.c.id == rule_id).values(permission=permission))


def rule_ids(connection: Connection, role_id: int) -> list[int]:
    """Return the ids of a role's rules, in their order."""
    query = select(role_rules.c.id).where(role_rules.c.role_id == role_id)
    return list(connection.execute(query.order_by(role_rules.c.sort_order, role_rules.c.id)).scalars())


_ORDER = text(
    "UPDATE role_rules r SET sort_order = new.position"
    " FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY AS new(id, position) WHERE r.id = new.id"
)


def order_rules(connection: Connection, ids: Sequence[int]) -> None:
    """Set the order of the rules of a locked role."""
    connection.execute(_ORDER, {"ids": int_array(ids)})


def delete_rule(connection: Connection, rule_id: int) -> None:
    """Remove a rule of a locked role."""
    connection.execute(delete(role_rules).where(role_rules.c.id == rule_id))
