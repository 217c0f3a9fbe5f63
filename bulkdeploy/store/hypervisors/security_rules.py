"""The security group rules of VMs, and the running guests that do not have their current rules."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.networks.security_group_rules import Direction, Protocol, Rule, Traffic
from bulkdeploy.store.database.arrays import int_array

_RULES = (
    " rules AS (SELECT security_group_id, direction, protocol, start_port, end_port, icmp_type, icmp_code, cidr"
    "   FROM security_group_rules WHERE cidr IS NOT NULL"
    "  UNION SELECT r.security_group_id, r.direction, r.protocol, r.start_port, r.end_port, r.icmp_type,"
    "   r.icmp_code, host(n.ip_address) || CASE family(n.ip_address) WHEN 4 THEN '/32' ELSE '/128' END"
    "   FROM security_group_rules r JOIN vm_security_groups m ON m.security_group_id = r.peer_group_id"
    "   JOIN nics n ON n.vm_id = m.vm_id AND num_nulls(n.removed) = 1 AND n.ip_address IS NOT NULL)"
)
"""Every rule with the network at its other end; a group there is the addresses of its VMs."""

_RULES_OF = text(
    f"WITH{_RULES} SELECT DISTINCT v.uuid, r.direction, r.protocol, r.start_port, r.end_port, r.icmp_type,"  # noqa: S608 - no input
    " r.icmp_code, r.cidr FROM virtual_machines v JOIN vm_security_groups m ON m.vm_id = v.id"
    " LEFT JOIN rules r ON r.security_group_id = m.security_group_id WHERE v.uuid = ANY(CAST(:guests AS uuid[]))"
)


def rules_of(connection: Connection, guest_uuids: Collection[UUID]) -> dict[UUID, frozenset[Rule]]:
    """Return the rules of these VMs by uuid. VMs without security groups are omitted."""
    found: dict[UUID, set[Rule]] = defaultdict(set)
    for row in connection.execute(_RULES_OF, {"guests": list(guest_uuids)}):
        rules = found[row.uuid]
        if row.direction is not None:
            traffic = Traffic(Protocol(row.protocol), row.start_port, row.end_port, row.icmp_type, row.icmp_code)
            rules.add(Rule(Direction(row.direction), traffic, row.cidr))
    return {uuid: frozenset(rules) for uuid, rules in found.items()}


_OUTDATED = text(
    f"WITH{_RULES},"  # noqa: S608 - no input
    " running AS (SELECT v.id, v.uuid, v.updated, h.uuid AS host_uuid, h.name AS host_name, h.ip_address,"
    "   h.hypervisor, h.url FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
    "   WHERE v.removed IS NULL AND v.state = 'Running' AND h.hypervisor = ANY(:hypervisors) AND h.state = 'Up'),"
    " digests AS (SELECT g.security_group_id,"
    "   md5(coalesce(string_agg(r::text, ' ' ORDER BY r::text), '')) AS digest"
    "   FROM (SELECT DISTINCT security_group_id FROM vm_security_groups) g LEFT JOIN rules r"
    "   ON r.security_group_id = g.security_group_id GROUP BY g.security_group_id),"
    " wanted AS (SELECT m.vm_id, md5(string_agg(d.digest, ' ' ORDER BY d.security_group_id)) AS digest"
    "   FROM running v JOIN vm_security_groups m ON m.vm_id = v.id JOIN digests d"
    "   ON d.security_group_id = m.security_group_id GROUP BY m.vm_id)"
    " SELECT v.*, w.digest, coalesce(f.version, 0) AS version FROM running v JOIN wanted w ON w.vm_id = v.id"
    " LEFT JOIN guest_filters f ON f.vm_id = v.id"
    " WHERE (f.digest, f.vm_updated) IS DISTINCT FROM (w.digest, v.updated) ORDER BY v.id"
)


def outdated(connection: Connection, hypervisors: Collection[str]) -> Sequence[Row[Any]]:
    """Return the running VMs on Up hosts of these hypervisors whose guests do not have their current rules.

    VMs that were started or moved since their rules were applied are included. The columns are id, uuid, updated,
    host_uuid, host_name, ip_address, hypervisor, url, the digest of the current rules, and the version of the
    record.
    """
    return connection.execute(_OUTDATED, {"hypervisors": list(hypervisors)}).all()


_NOTE = text(
    "INSERT INTO guest_filters AS f (vm_id, digest, vm_updated, version)"
    " SELECT v, d, u, n + 1 FROM unnest(CAST(:vms AS bigint[]), CAST(:digests AS text[]),"
    "   CAST(:moments AS timestamptz[]), CAST(:versions AS bigint[])) AS given (v, d, u, n) ORDER BY v"
    " ON CONFLICT (vm_id) DO UPDATE SET vm_updated = excluded.vm_updated,"
    " digest = CASE WHEN f.version = excluded.version - 1 THEN excluded.digest END, version = f.version + 1"
)
_FORGET = text(
    "DELETE FROM guest_filters f WHERE NOT EXISTS (SELECT FROM virtual_machines v WHERE v.id = f.vm_id"
    " AND v.removed IS NULL)"
)


def note_filters(connection: Connection, given: Sequence[Row[Any]]) -> None:
    """Record that the current rules were applied to these VMs, which are rows of ``outdated``.

    If another process applied rules to a VM meanwhile, the order is unknown, and the VM remains outdated.
    """
    connection.execute(
        _NOTE,
        {
            "vms": int_array([vm.id for vm in given]),
            "digests": [vm.digest for vm in given],
            "moments": [vm.updated for vm in given],
            "versions": int_array([vm.version for vm in given]),
        },
    )
    connection.execute(_FORGET)
