"""The storage units of a daemon: its storage pools, those of the service among them."""

from collections.abc import Sequence
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.storage.files import PASSING
from bulkdeploy.drivers.libvirt.storage.storage import target_path
from bulkdeploy.drivers.records import Pool
from bulkdeploy.drivers.storage_units import StorageUnit

UNIT_TYPES = {"netfs": "nfs", "logical": "lvm-vg"}
"""Types of storage units by libvirt's, where they are called otherwise."""


def units_of(call: HostCall, pools: Sequence[Pool], options: LibvirtOptions) -> list[StorageUnit]:
    """Return every pool of the daemon's; which of them are ours is known by the folder, as where they are defined.

    A pool of ours that the daemon has not met yet is made with its first volume, and not told of before. Pools of
    Ceph are not the daemon's and are left out.
    """
    ours = {target_path(pool, options, call.host.name): pool.uuid for pool in pools}
    units = []
    for known in call.connection.listAllStoragePools():
        if known.name().startswith(PASSING):
            continue
        document = Tree.fromstring(known.XMLDesc())  # noqa: S314 - of the daemon that we drive
        state, size, _, free = known.info()  # of a directory, blocks that its file system reserves are in neither
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
