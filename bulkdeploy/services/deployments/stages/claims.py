"""Stage of a deployment: each planned VM claims its host and pools in the ledger.

The ledger checks the capacity again.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from sqlalchemy import Connection

from bulkdeploy.placement.model import Ints
from bulkdeploy.services.deployments.deploying_calls import DeployingCall
from bulkdeploy.store.ledger.ledger import Thresholds, claim_hosts, claim_pools


def claim(connection: Connection, calls: Sequence[DeployingCall]) -> None:
    """Write the claims of all placed VMs: one on a host for each VM, and one on a pool for each volume.

    Raises:
        TransactionConflict: another transaction claimed the capacity since the plan; the whole transaction must be
            repeated.
    """
    planned = [kind for each in calls for kind in each.planned or ()]
    placed = [(part, part.plan) for each in calls for part in each.parts if part.plan is not None]
    if not placed:
        return
    specs, counts = [part.spec for part, _ in placed], [part.count for part, _ in placed]
    claim_hosts(
        connection,
        np.concatenate([plan.host_ids for _, plan in placed]),
        [uuid for part, _ in placed for uuid in part.uuids],
        account_id=_of_each([spec.owner.account_id for spec in specs], counts),
        cpu_mhz=_of_each([spec.cpu_number * spec.cpu_mhz for spec in specs], counts),
        memory_mib=_of_each([spec.memory_mib for spec in specs], counts),
        thresholds=reduce(Thresholds.joined, (kind.thresholds for kind in planned)),
    )
    pools: list[int] = []
    sizes: list[int] = []
    volumes: list[str] = []
    for part, plan in placed:
        for position, disk in enumerate(part.spec.disks):
            pools += plan.pool_ids[:, position].tolist()
            sizes += [disk.size_bytes] * part.count
            volumes += part.volume_uuids[position]
    if volumes:
        claim_pools(connection, planned[0].pool_limits, pools, sizes, volumes)


def _of_each(values: Sequence[int], counts: Sequence[int]) -> int | Ints:
    """Return an array that repeats each value by its count, or a single number if all values are equal."""
    return values[0] if len(set(values)) == 1 else np.repeat(values, counts)
