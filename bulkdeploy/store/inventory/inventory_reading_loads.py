"""Reading back the VMs that an inventory brought and that still run, as the loads they came in."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.inventory import Load
from bulkdeploy.domain.inventory_catalog import Network, ServiceOffering, Template
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.store.inventory.inventory_reading import LeftOut, Owners

LOADS = """
    SELECT d.uuid, d.plan -> 'load' ->> 'name' AS name, d.plan -> 'load' -> 'hosts' AS hosts, v.account_id,
           v.cluster_id, s.name AS offering, t.name AS template, v.cpu_number, v.cpu_mhz, v.memory_mib,
           n.name AS network,
           (SELECT count(*) FROM virtual_machines x WHERE x.deployment_id = d.id AND x.removed IS NULL
              AND x.state = 'Running') AS running,
           ARRAY(SELECT g.name FROM vm_security_groups m JOIN security_groups g ON g.id = m.security_group_id
              WHERE m.vm_id = v.id AND g.removed IS NULL AND g.account_id = v.account_id
              ORDER BY g.id) AS security_groups,
           ARRAY(SELECT g.name FROM vm_affinity_groups m JOIN affinity_groups g ON g.id = m.affinity_group_id
              WHERE m.vm_id = v.id AND g.removed IS NULL AND g.account_id = v.account_id
              ORDER BY g.id) AS affinity_groups,
           ARRAY(SELECT h.name FROM hosts h WHERE h.cluster_id = v.cluster_id AND h.removed IS NULL
              AND d.plan -> 'load' -> 'hosts' ? h.name) AS present
    FROM deployments d
    JOIN LATERAL (SELECT * FROM virtual_machines f WHERE f.deployment_id = d.id AND f.removed IS NULL
                  AND f.state = 'Running' ORDER BY f.id LIMIT 1) v ON true
    JOIN service_offerings s ON s.id = v.service_offering_id
    JOIN templates t ON t.id = v.template_id
    LEFT JOIN nics c ON c.vm_id = v.id AND c.removed IS NULL AND c.is_default
    LEFT JOIN networks n ON n.id = c.network_id
    WHERE d.zone_id = :zone AND d.plan -> 'load' IS NOT NULL
    ORDER BY d.id
"""
"""Each load with its first VM that runs; the others of a load are alike."""


def read_loads(
    connection: Connection,
    zone_id: int,
    owners: Owners,
    offered: tuple[Collection[ServiceOffering], Collection[Template], Collection[Network]],
    left_out: LeftOut,
) -> dict[int, list[Load]]:
    """The loads by cluster id; VMs that were deployed by calls are no part of an inventory."""
    offerings = {one.name: one for one in offered[0]}
    templates = {one.name for one in offered[1] if one.kind is TemplateKind.TEMPLATE}
    networks = {one.name for one in offered[2]}
    defaults = [one.name for one in offered[2] if one.is_default]
    found: dict[int, list[Load]] = {}
    for row in connection.execute(text(LOADS), {"zone": zone_id}):
        known = row.offering in offerings and row.template in templates and row.network in networks
        if not known or row.account_id not in owners.names:
            left_out.reasons.append(
                f"load {row.name!r} ({row.uuid}): its account, offering, template or network is not described"
            )
            continue
        network = None if defaults == [row.network] else row.network
        found.setdefault(row.cluster_id, []).append(_load(row, owners, offerings[row.offering], network))
    return found


def _load(row: Row[Any], owners: Owners, offering: ServiceOffering, network: str | None) -> Load:
    return Load(
        name=row.name,
        account=owners.names[row.account_id],
        offering=row.offering,
        template=row.template,
        count=row.running,
        hosts=tuple(host for host in row.hosts if host in row.present),
        network=network,
        cpu_number=row.cpu_number if offering.is_custom else None,
        cpu_mhz=row.cpu_mhz if offering.is_custom and offering.cpu_mhz is None else None,
        memory_mib=row.memory_mib if offering.is_custom else None,
        security_groups=tuple(row.security_groups),
        affinity_groups=tuple(row.affinity_groups),
    )
