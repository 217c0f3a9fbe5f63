"""Rules of security groups: written and deleted."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, RowMapping, delete, insert, select, text

from bulkdeploy.domain.security_group_rules import Direction, Traffic
from bulkdeploy.store.filters import id_in
from bulkdeploy.store.tables.groups import security_group_rules, security_groups

Ends: TypeAlias = Sequence[tuple[str | None, int | None]]
"""Who is at the other end of each rule: a network, or a group by its internal id."""


def existing_rule(
    connection: Connection, group_id: int, direction: Direction, traffic: Traffic, ends: Ends
) -> str | None:
    """The other end of a rule that the group has already, in words; its row is locked by the caller."""
    rule = security_group_rules.c
    cidrs = [cidr for cidr, _ in ends if cidr is not None]
    peers = [peer for _, peer in ends if peer is not None]
    query = (
        select(rule.cidr, security_groups.c.name)
        .outerjoin(security_groups, security_groups.c.id == rule.peer_group_id)
        .where(
            rule.security_group_id == group_id,
            rule.direction == direction.value,
            rule.protocol == traffic.protocol.value,
            rule.start_port.is_not_distinct_from(traffic.start_port),
            rule.end_port.is_not_distinct_from(traffic.end_port),
            rule.icmp_type.is_not_distinct_from(traffic.icmp_type),
            rule.icmp_code.is_not_distinct_from(traffic.icmp_code),
            rule.cidr.in_(cidrs) | id_in(rule.peer_group_id, peers),
        )
    )
    row = connection.execute(query.order_by(rule.id).limit(1)).first()
    return None if row is None else str(row.cidr or row.name)


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
    """All rules as zone files say them: those of a group that let through the same are one entry."""
    return [dict(row) for row in connection.execute(_READ, {"direction": direction.value}).mappings()]


def insert_rules(
    connection: Connection, group_id: int, direction: Direction, traffic: Traffic, ends: Ends
) -> list[UUID]:
    """Write one rule per end; ends that are named twice count once."""
    rows = [
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
        for cidr, peer in dict.fromkeys(ends)
    ]
    made = insert(security_group_rules).values(rows).returning(security_group_rules.c.uuid)
    return list(connection.execute(made).scalars())


def place_of(connection: Connection, rule_id: int) -> RowMapping | None:
    """The direction of a rule, and the ``id``, ``uuid`` and ``name`` of its group; None: there is no such rule."""
    group = security_groups.c
    query = (
        select(security_group_rules.c.direction, group.id, group.uuid, group.name)
        .join(security_groups, group.id == security_group_rules.c.security_group_id)
        .where(security_group_rules.c.id == rule_id)
    )
    return connection.execute(query).mappings().first()


def delete_rule(connection: Connection, rule_id: int) -> bool:
    """Whether the rule was there."""
    gone = delete(security_group_rules).where(security_group_rules.c.id == rule_id)
    return connection.execute(gone).rowcount == 1
