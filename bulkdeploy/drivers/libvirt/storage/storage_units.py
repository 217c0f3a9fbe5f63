"""The storage units of a host: the storage pools of its libvirt daemon, including those of the service."""

from collections.abc import Sequence
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.abilities.storage_units import StorageUnit
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.storage.files import PASSING
from bulkdeploy.drivers.libvirt.storage.storage import target_path
from bulkdeploy.drivers.records import Pool

UNIT_TYPES = {"netfs": "nfs", "logical": "lvm-vg"}
"""The types of storage units by libvirt's pool types, if the names differ."""


def units_of(call: HostCall, pools: Sequence[Pool], options: LibvirtOptions) -> list[StorageUnit]:
    """Return the pools of a host's daemon as storage units, and mark those that are pools of the service.

    A pool of the service is recognised by its folder. A pool that no volume has used on this host yet is not
    listed, because the daemon does not have it. Ceph pools are not listed, because libvirt does not manage them.
    """
    ours = {target_path(pool, options, call.host.name): pool.uuid for pool in pools}
    units = []
    for known in call.connection.listAllStoragePools():
        if known.name().startswith(PASSING):
            continue
        document = Tree.fromstring(known.XMLDesc())  # noqa: S314 - of the daemon that we drive
        state, size, _, free = known.info()  # of a directory, neither contains reserved blocks of the file system
        kind, path = document.get("type", ""), document.findtext("target/path")
        units.append(
            StorageUnit(
                UNIT_TYPES.get(kind, kind),
                path or known.name(),
                int(size),
                int(size) - int(free),
                int(free),
                is_healthy=state == libvirt.VIR_STORAGE_POOL_RUNNING,
                pool_uuid=ours.get(path or ""),
            )
        )
    return units
