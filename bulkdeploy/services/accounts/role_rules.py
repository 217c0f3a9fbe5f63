"""Operations on the rules of one locked role. The role is one of accounts or one of a project's members.

The callers check who may change the role, and record the events.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store.accounts import roles


def add_rule(
    connection: Connection, role: Row[Any], rule: roles.Rule, *, change_command: str, most: int | None = None
) -> int:
    """Append a rule to the rules of a role, and return the internal id of the rule.

    Args:
        connection: has an open transaction, which has locked the role.
        role: the row of the role.
        rule: the rule: ``rule`` (its pattern), ``permission`` (allow or deny) and ``description``.
        change_command: the command that changes a rule; errors name it.
        most: the maximum number of rules of the role, or None for no maximum.

    Raises:
        InvalidParameter: the role has a rule for this pattern, or ``most`` rules.
    """
    rules = roles.rules_of(connection, [role.id])[role.id]
    if any(existing["rule"] == rule["rule"] for existing in rules):
        problem = f"role {role.name} has a rule for it already; change that rule with {change_command}"
        raise InvalidParameter("rule", rule["rule"], problem)
    if most is not None and len(rules) >= most:
        problem = f"role {role.name} has {most} rules, and may not have more"
        raise InvalidParameter("rule", rule["rule"], problem)
    return roles.insert_rule(connection, role.id, rule)


def change_permission(
    connection: Connection, role: Row[Any], rule: EntityRef, permission: str, parameter: str
) -> None:
    """Change whether a rule allows or denies; ``parameter`` is the parameter that names the rule.

    Raises:
        InvalidParameter: the role does not have the rule.
    """
    if roles.role_of_rule(connection, rule.id) != role.id:
        raise InvalidParameter(parameter, str(rule.uuid), f"it is not a rule of role {role.name}")
    roles.set_permission(connection, rule.id, permission)


def change_order(connection: Connection, role: Row[Any], order: Sequence[EntityRef]) -> None:
    """Change the order of the rules of a role: the first that matches decides.

    Raises:
        InvalidParameter: the order does not contain each rule of the role once.
    """
    ids = [rule.id for rule in order]
    if sorted(ids) != sorted(roles.rule_ids(connection, role.id)):
        shown = ",".join(str(rule.uuid) for rule in order)
        raise InvalidParameter("ruleorder", shown, f"it must contain every rule of role {role.name} once")
    roles.order_rules(connection, ids)
