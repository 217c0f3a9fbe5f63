"""The physical capacity of CloudStack's hosts.

List commands return capacities that are multiplied with the over-commit factors of the host's cluster.
"""

from collections.abc import Iterable

from bulkdeploy.cloudstack.client import Row
from bulkdeploy.domain.units import MIB

ROUNDING = 1 + 2**-22
"""Compensates CloudStack's rounding: it multiplies capacities as Java floats, which have 24 bits."""


def cores_of(row: Row, cpu_factor: float) -> int:
    """Return the number of physical cores of a host.

    The result is computed from ``cpuwithoverprovisioning``, which includes the over-commit factor in all releases.
    ``cpunumber`` includes it in 4.18 (HostJoinDaoImpl.java:189) but not in 4.20.
    """
    if not row.get("cpuwithoverprovisioning"):
        return int(row["cpunumber"])
    return round(float(row["cpuwithoverprovisioning"]) / cpu_factor / int(row["cpuspeed"]))


def memory_mib_of(row: Row, memory_factor: float) -> int:
    """Return the physical memory of a host in MiB.

    ``memorytotal`` and ``memorywithoverprovisioning`` both include the over-commit factor of the cluster
    (HostJoinDaoImpl.java:184 of 4.20).
    """
    total = float(row.get("memorywithoverprovisioning") or row["memorytotal"])
    return int(total / memory_factor * ROUNDING) // MIB


def overcommit_of(row: Row, clusters: Iterable[Row]) -> tuple[float, float]:
    """Return the over-commit factors of CPU and memory of the host's cluster; 1 if unknown."""
    cluster = next((one for one in clusters if one["id"] == row.get("clusterid")), {})
    return float(cluster.get("cpuovercommitratio") or 1), float(cluster.get("memoryovercommitratio") or 1)
