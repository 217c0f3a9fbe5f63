"""Rows of security group rules: inserts and deletes."""

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from sqlalchemy import Connection, delete, select, text

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.networks.security_group_rules import Direction, Protocol, Traffic
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.groups import security_group_rules, security_groups

End: TypeAlias = tuple[str | None, int | None]
"""Who is at the other end of a rule: a network, or a group by its internal id."""


def read_ends(
    connection: Connection, direction: Direction, group_ids: Collection[int]
) -> dict[tuple[int, Traffic], dict[End, str]]:
    """Return the peers of the rules of groups and their shown texts, by group and allowed traffic.

    A peer is a pair of a CIDR and a group's internal id, one of which is None.
    """
    rule = security_group_rules.c
    query = (
        select(security_group_rules, security_groups.c.name)
        .outerjoin(security_groups, security_groups.c.id == rule.peer_group_id)
        .where(id_in(rule.security_group_id, group_ids), rule.direction == direction.value)
        .order_by(rule.id)
    )
    found: dict[tuple[int, Traffic], dict[End, str]] = {}
    for row in connection.execute(query):
        traffic = Traffic(Protocol(row.protocol), row.start_port, row.end_port, row.icmp_type, row.icmp_code)
        ends = found.setdefault((row.security_group_id, traffic), {})
        ends[row.cidr, row.peer_group_id] = row.cidr or row.name
    return found


_READ = text(
    "SELECT min(r.id) AS _id, min(r.uuid::text)::uuid AS _uuid, r.security_group_id AS securitygroupid, r.protocol,"
    " r.start_port AS startport, r.end_port AS endport, r.icmp_type AS icmptype, r.icmp_code AS icmpcode,"
    " coalesce(array_agg(r.cidr ORDER BY r.id) FILTER (WHERE r.cidr IS NOT NULL), '{}') AS cidrlist,"
    " coalesce(jsonb_agg(jsonb_build_object('account', a.name, 'group', p.name) ORDER BY r.id)"
    "  FILTER (WHERE p.id IS NOT NULL), '[]') AS usersecuritygrouplist"
    " FROM security_group_rules r JOIN security_groups g ON g.id = r.security_group_id AND g.removed IS NULL"
    " LEFT JOIN security_groups p ON p.id = r.peer_group_id LEFT JOIN accounts a ON a.id = p.account_id"
    " WHERE r.direction = :direction"
    " GROUP BY r.security_group_id, r.protocol, r.start_port, r.end_port, r.icmp_type, r.icmp_code ORDER BY 1"
)


def read_rules(direction: Direction, connection: Connection) -> list[dict[str, Any]]:
    """Return all rules in the format of zone files. Rules of a group for the same traffic form one entry."""
    return [dict(row) for row in connection.execute(_READ, {"direction": direction.value}).mappings()]


def rows_of(group_id: int, direction: Direction, traffic: Traffic, ends: Iterable[End]) -> list[dict[str, Any]]:
    """Return the rows of a group's rules for this traffic, one for each peer."""
    return [
        {
            "security_group_id": group_id,
            "direction": direction.value,
            "protocol": traffic.protocol.value,
            "start_port": traffic.start_port,
            "end_port": traffic.end_port,
            "icmp_type": traffic.icmp_type,
            "icmp_code": traffic.icmp_code,
            "cidr": cidr,
            "peer_group_id": peer,
        }
        for cidr, peer in ends
    ]


def groups_of(connection: Connection, direction: Direction, rule_ids: Collection[int]) -> dict[int, EntityRef]:
    """Return the groups of rules of one direction, by the rules' internal ids.

    Rules that do not exist are omitted.
    """
    group = security_groups.c
    query = (
        select(security_group_rules.c.id.label("rule_id"), group.id, group.uuid, group.name)
        .join(security_groups, group.id == security_group_rules.c.security_group_id)
        .where(id_in(security_group_rules.c.id, rule_ids), security_group_rules.c.direction == direction.value)
    )
    return {
        row.rule_id: EntityRef(Entity.SECURITY_GROUP, row.id, row.uuid, row.name)
        for row in connection.execute(query)
    }


def delete_rules(connection: Connection, rule_ids: Collection[int]) -> set[int]:
    """Delete rules, and return the internal ids of those that existed."""
    rule = security_group_rules.c
    gone = delete(security_group_rules).where(id_in(rule.id, rule_ids)).returning(rule.id)
    return set(connection.execute(gone).scalars())
