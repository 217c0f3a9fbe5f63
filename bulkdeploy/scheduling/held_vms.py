"""The VMs on the hosts of a zone, in the form that ``placement.host_loss`` needs."""

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.placement.host_loss import HeldVms
from bulkdeploy.placement.model import Ints, PlacementRequest
from bulkdeploy.store.ledger.placed_vms import count_alike_vms_on_hosts


def held_vms(connection: Connection, zone_id: int) -> HeldVms:
    """Return the VMs that have a claim on a host of the zone, grouped by size and host tags."""
    kinds: dict[PlacementRequest, int] = {}
    lines: list[tuple[int, int, int]] = []
    for row in count_alike_vms_on_hosts(connection, zone_id):
        request = PlacementRequest(
            count=1,
            cpu_number=row.cpu_number,
            cpu_mhz=row.cpu_mhz,
            memory_mib=row.memory_mib,
            hypervisor=row.hypervisor,
            host_tags=frozenset(row.host_tags) | ({row.template_tag} if row.template_tag else set()),
        )
        lines.append((row.host_id, kinds.setdefault(request, len(kinds)), row.vms))
    columns: Ints = np.array(lines, dtype=np.int64).reshape(len(lines), 3)
    return HeldVms(tuple(kinds), *columns.T)
