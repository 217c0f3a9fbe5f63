"""The list query of security groups with rules and VMs, and the users of a group."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Text, cast, delete, func, select

from bulkdeploy.domain.networks.security_group_rules import Direction
from bulkdeploy.store.resource_tags import SECURITY_GROUP, add_tags
from bulkdeploy.store.rows.filters import (
    Arguments,
    Filters,
    by_id,
    filtered,
    id_in,
    keyword,
    linked,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.accounts import accounts
from bulkdeploy.store.tables.groups import security_group_rules, security_groups, vm_security_groups
from bulkdeploy.store.virtual_machines.group_members import members_of, vms_in_groups

FILTERS: Filters = {
    "id": by_id(security_groups.c.id),
    "securitygroupname": same_text(security_groups.c.name),
    "keyword": keyword(security_groups.c.name, security_groups.c.description),
    "virtualmachineid": linked(vm_security_groups, "security_group_id", security_groups.c.id, "vm_id"),
    "tags": tagged(SECURITY_GROUP, security_groups.c.id),
}

FIELDS: Fields = {"name": security_groups.c.name, "description": security_groups.c.description}


def list_security_groups(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one page of security groups by id."""
    group = security_groups.c
    query = (
        select(group.id.label("_id"), group.uuid.label("id"), group.name, group.description, *owner_columns())
        .select_from(with_owner(security_groups, group.account_id))
        .where(group.removed.is_(None), visibility.condition())
        .order_by(group.id)
    )
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    ids = [row["_id"] for row in rows]
    rules = _rules_of(connection, ids)
    vms = members_of(connection, vm_security_groups, "security_group_id", ids, visibility)
    for row in rows:
        row["ingressrule"] = rules[row["_id"], Direction.INGRESS]
        row["egressrule"] = rules[row["_id"], Direction.EGRESS]
        row["virtualmachineids"] = vms.get(row["_id"], [])
        row["virtualmachinecount"] = len(row["virtualmachineids"])
    add_tags(connection, SECURITY_GROUP, rows)
    return Page(rows, count)


def users_of(connection: Connection, group_ids: Collection[int]) -> dict[int, str]:
    """Return, for each group in use, a text that names a user: a VM, or a rule of another group.

    A destroyed VM uses its groups until it is expunged. Rules of these groups themselves are ignored.
    """
    rule = security_group_rules.c
    naming = (
        select(rule.peer_group_id, cast(func.min(cast(rule.uuid, Text)), Text).label("uuid"))
        .where(id_in(rule.peer_group_id, group_ids), ~id_in(rule.security_group_id, group_ids))
        .group_by(rule.peer_group_id)
    )
    found = {row.peer_group_id: f"rule {row.uuid} of another group names it" for row in connection.execute(naming)}
    return found | vms_in_groups(connection, vm_security_groups.c.security_group_id, group_ids)


def delete_rules(connection: Connection, group_ids: Collection[int]) -> None:
    """Delete all rules of these groups."""
    connection.execute(
        delete(security_group_rules).where(id_in(security_group_rules.c.security_group_id, group_ids))
    )


def _rules_of(connection: Connection, group_ids: Sequence[int]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return the rules of each group and direction; a rule's peer is a CIDR or a group with its account."""
    rule, peer = security_group_rules.c, security_groups.alias()
    query = (
        select(
            rule.security_group_id,
            rule.direction,
            rule.uuid.label("ruleid"),
            rule.protocol,
            rule.start_port.label("startport"),
            rule.end_port.label("endport"),
            rule.icmp_type.label("icmptype"),
            rule.icmp_code.label("icmpcode"),
            rule.cidr,
            peer.c.name.label("securitygroupname"),
            accounts.c.name.label("account"),
        )
        .select_from(
            security_group_rules.outerjoin(peer, peer.c.id == rule.peer_group_id).outerjoin(
                accounts, accounts.c.id == peer.c.account_id
            )
        )
        .where(id_in(rule.security_group_id, group_ids))
        .order_by(rule.id)
    )
    rules: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        fields = {name: value for name, value in row.items() if value is not None}
        rules[fields.pop("security_group_id"), fields.pop("direction")].append(fields)
    return rules
