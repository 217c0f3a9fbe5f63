"""Physical capacity of CloudStack's hosts, which list calls multiply with the over-commit of clusters."""

from collections.abc import Iterable

from bulkdeploy.cloudstack.client import Row
from bulkdeploy.domain.units import MIB

ROUNDING = 1 + 2**-22
"""CloudStack multiplies capacities as Java floats, which have 24 bits."""


def cores_of(row: Row, cpu_factor: float) -> int:
    """Return the physical cores of a host.

    ``cpunumber`` of 4.18 contains the over-commit of the cluster (HostJoinDaoImpl.java:189), that of 4.20 does not.
    ``cpuwithoverprovisioning`` contains it in all releases.
    """
    if not row.get("cpuwithoverprovisioning"):
        return int(row["cpunumber"])
    return round(float(row["cpuwithoverprovisioning"]) / cpu_factor / int(row["cpuspeed"]))


def memory_mib_of(row: Row, memory_factor: float) -> int:
    """Return the physical memory of a host in MiB.

    ``memorytotal`` contains the over-commit of the cluster (HostJoinDaoImpl.java:184 of 4.20), as
    ``memorywithoverprovisioning`` does.
    """
    total = float(row.get("memorywithoverprovisioning") or row["memorytotal"])
    return int(total / memory_factor * ROUNDING) // MIB


def overcommit_of(row: Row, clusters: Iterable[Row]) -> tuple[float, float]:
    """Return the over-commit of CPU and memory in a host's cluster."""
    cluster = next((one for one in clusters if one["id"] == row.get("clusterid")), {})
    return float(cluster.get("cpuovercommitratio") or 1), float(cluster.get("memoryovercommitratio") or 1)
