"""What the simulated hypervisors are told after a load: every host, and the VMs that run already."""

from typing import Any

from sqlalchemy import Connection, Row, text


def simulator_hosts(connection: Connection) -> list[Row[Any]]:
    """Every living host: uuid, name, hypervisor, what it has (cores, MHz of one, MiB), limits as in the ledger."""
    return list(
        connection.execute(
            text(
                "SELECT h.uuid, h.name, h.hypervisor, h.cpu_cores, h.cpu_mhz, h.memory_mib, c.cpu_mhz_limit,"
                " c.memory_mib_limit, c.vms_limit FROM hosts h JOIN host_capacity c ON c.host_id = h.id"
                " WHERE h.removed IS NULL ORDER BY h.id"
            )
        )
    )


def simulator_guests(connection: Connection) -> list[Row[Any]]:
    """Every VM that an inventory brought and that runs, with its host and its volumes (three arrays in step)."""
    return list(
        connection.execute(
            text(
                "SELECT v.uuid, v.instance_name, v.cpu_number, v.cpu_mhz, v.memory_mib, h.uuid AS host_uuid,"
                " h.hypervisor, array_agg(o.uuid ORDER BY o.device_id) AS volume_uuids,"
                " array_agg(o.size_bytes ORDER BY o.device_id) AS volume_sizes,"
                " array_agg(p.uuid ORDER BY o.device_id) AS pool_uuids"
                " FROM deployments d JOIN virtual_machines v ON v.deployment_id = d.id"
                " JOIN hosts h ON h.id = v.host_id JOIN volumes o ON o.vm_id = v.id AND o.removed IS NULL"
                " JOIN storage_pools p ON p.id = o.pool_id"
                " WHERE d.plan -> 'load' IS NOT NULL AND v.state = 'Running' AND v.removed IS NULL"
                " GROUP BY v.id, h.id ORDER BY v.id"
            )
        )
    )
