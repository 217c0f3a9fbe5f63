"""The storage units of Ganeti nodes, as ``gnt-node list-storage`` and related commands handle them.

The types are Ganeti's: ``lvm-vg``, ``lvm-pv``, ``file``, ``sharedfile``. Source: Ganeti's doc/rapi.rst, version
3.0.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from bulkdeploy.domain.units import MIB
from bulkdeploy.drivers.abilities.storage_units import StorageUnit
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.ganeti.rapi import JobFailed, Rapi, failure, path_of
from bulkdeploy.drivers.records import Pool

VOLUME_GROUP, PHYSICAL_VOLUME = "lvm-vg", "lvm-pv"
MODIFIABLE = (PHYSICAL_VOLUME,)
"""The types of units on which Ganeti can stop allocation."""

REPAIRABLE = (VOLUME_GROUP,)
"""The types of units that Ganeti can repair."""

TYPES_OF_TEMPLATES = {
    "plain": (VOLUME_GROUP, PHYSICAL_VOLUME),
    "drbd": (VOLUME_GROUP, PHYSICAL_VOLUME),
    "file": ("file",),
    "sharedfile": ("sharedfile",),
}
"""The types of units that contain the disks of a disk template. Other disk templates use no units of a node."""

MIRRORED = ("drbd",)
SHARED = ("sharedfile",)
FIELDS = "name,size,free,allocatable"
"""The fields of storage units that are read.

``used`` is not read: for a directory, Ganeti counts only its own files, which takes long, and then size, used and
free do not add up.
"""


class NodeStorage:
    """The storage units of a cluster's nodes. Each method runs a job of Ganeti, limited by ``slots``."""

    def __init__(self, rapi: Rapi, slots: AbstractContextManager[Any], disk_template: str) -> None:
        self._rapi, self._slots, self._disk_template = rapi, slots, disk_template

    def units_of(self, node: str, pools: Sequence[Pool], timeout_s: float) -> list[StorageUnit]:
        """Return all storage units of a node whose types the cluster's enabled disk templates use.

        Raises:
            DriverError: the units cannot be listed.
        """
        try:
            cluster = self._rapi.send("GET", path_of("info"), timeout_s=timeout_s)
        except (NotAnswered, JobFailed) as error:
            raise failure("look", node, error) from error
        enabled = cluster["enabled_disk_templates"]
        types = dict.fromkeys(kind for template in enabled for kind in TYPES_OF_TEMPLATES.get(template, ()))
        rows = [(kind, row) for kind in types for row in self._rows(node, kind, timeout_s)]
        if types and not rows:  # if the node does not answer, the job succeeds with no rows
            raise DriverError("look", node, "the node does not report its storage", transient=True)
        # LVM lists a lost disk as [unknown], and its volume group is incomplete.
        has_lost = any(kind == PHYSICAL_VOLUME and not row[0].startswith("/") for kind, row in rows)
        units = []
        for kind, (name, size, free, allocatable) in rows:
            is_healthy = not has_lost if kind == VOLUME_GROUP else kind != PHYSICAL_VOLUME or name.startswith("/")
            size_bytes, free_bytes = (int(amount or 0) * MIB for amount in (size, free))
            pool_uuid = self._pool_of(kind, name, pools, cluster)
            units.append(
                StorageUnit(
                    kind,
                    name,
                    size_bytes,
                    size_bytes - free_bytes,
                    free_bytes,
                    bool(allocatable),
                    is_healthy,
                    pool_uuid,
                )
            )
        return units

    def modify(self, node: str, unit: StorageUnit, *, allocatable: bool, timeout_s: float) -> None:
        """Allow or stop allocation on a unit."""
        self._run(
            node, "PUT", "modify", unit.unit_type, timeout_s, name=unit.name, allocatable=str(int(allocatable))
        )

    def repair(self, node: str, unit: StorageUnit, timeout_s: float) -> None:
        """Remove lost parts from a volume group.

        Ganeti rejects this if a mirror on another node is incomplete.

        Raises:
            DriverError: the unit is not a volume group, or instances have disks on the node that exist on no other
                node.
        """
        if unit.unit_type not in REPAIRABLE:
            types = ", ".join(REPAIRABLE)
            reason = f"Ganeti repairs only units of type {types}; {unit.name} is of type {unit.unit_type}"
            raise DriverError("storage", node, reason, transient=False)
        where = ["=", "pnode", node]
        try:
            rows = self._rapi.query("instance", ("name", "disk_template"), where, timeout_s=timeout_s)
        except (NotAnswered, JobFailed) as error:
            raise failure("storage", node, error) from error
        alone = [
            str(name)
            for name, template in rows
            if template not in MIRRORED and unit.unit_type in TYPES_OF_TEMPLATES.get(template, ())
        ]
        if alone:
            reason = f"disks of {', '.join(sorted(alone)[:10])} are on no other node: move them away first"
            raise DriverError("storage", node, reason, transient=False)
        self._run(node, "PUT", "repair", unit.unit_type, timeout_s, name=unit.name)

    def _pool_of(self, kind: str, name: str, pools: Sequence[Pool], cluster: Mapping[str, Any]) -> UUID | None:
        """Return the uuid of the primary storage pool to which a unit belongs, or None if it belongs to none.

        Only a unit that stores the disks of new instances can belong to a pool.
        """
        if kind == PHYSICAL_VOLUME or kind not in TYPES_OF_TEMPLATES.get(self._disk_template, ()):
            return None
        if kind == VOLUME_GROUP and name != cluster["volume_group_name"]:
            return None
        is_clusters = kind in SHARED or self._disk_template in MIRRORED
        fitting = [pool for pool in pools if (pool.host_uuid is None) == is_clusters]
        named = [pool for pool in fitting if pool.path == name]
        chosen = named or fitting
        return chosen[0].uuid if len(chosen) == 1 else None

    def _rows(self, node: str, kind: str, timeout_s: float) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = self._run(node, "GET", None, kind, timeout_s, output_fields=FIELDS)
        return rows

    def _run(self, node: str, method: str, change: str | None, kind: str, timeout_s: float, **query: str) -> Any:
        path = path_of("nodes", node, "storage", *([] if change is None else [change]))
        step = "look" if change is None else "storage"
        with self._slots:
            try:
                return self._rapi.run(method, path, timeout_s=timeout_s, storage_type=kind, **query)
            except (NotAnswered, JobFailed) as error:
                raise failure(step, node, error) from error
