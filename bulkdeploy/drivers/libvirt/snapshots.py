"""Snapshots inside the qcow2 files of a guest's volumes, taken and reverted by libvirt.

A daemon's metadata about a snapshot cannot be moved to another daemon, and a guest with such metadata cannot
migrate. The metadata are therefore defined for each call and deleted before the guest's next migration or at its
end. The definition with which the guest ran is needed for a revert. It is stored in the service's records, without
its VNC password.

QEMU itself takes snapshots without memory of running guests, all volumes in one transaction, because libvirt would
create overlays. The commands are sent through libvirt's monitor, so the daemon's log calls the guest tainted, which
has no effect.

No daemon knows a guest that does not run. For its snapshots, a temporary domain is defined that has the guest's
volumes and is never started.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID, uuid5
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.domain import VOLUME_ALIAS, Disk, write_volumes_only
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.qemu_monitor import request_qemu

SUFFIX = "snapshots"
UNDEFINE = libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA


def take_with_memory(domain: Any, snapshot_uuid: UUID) -> str:
    """Take a snapshot of a running guest with its memory, unless the daemon has the snapshot already.

    Returns the XML of the snapshot, which is needed to revert to the snapshot or to delete it later.
    """
    noted = _noted(domain, snapshot_uuid)
    if noted is None:
        noted = domain.snapshotCreateXML(_snapshot_xml(domain, snapshot_uuid, memory="internal"), 0)
    return str(noted.getXMLDesc())


def revert_with_memory(domain: Any, kept: str) -> None:
    """Revert a running guest to a snapshot with memory.

    ``kept`` is the recorded XML of the snapshot.

    The guest gets the devices that it had in the snapshot, and keeps its current VNC password.
    """
    noted = _note(domain, kept)
    domain.revertToSnapshot(noted, libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_RUNNING)


def remove(domain: Any, snapshot_uuid: UUID, kept: str | None) -> None:
    """Delete a snapshot from the volumes of a domain.

    ``kept`` is the recorded XML of a snapshot with memory, or None for a snapshot without memory.
    """
    _note(domain, kept or _as_if_noted(domain, snapshot_uuid)).delete()


def take_of_running(domain: Any, snapshot_uuid: UUID, volume_uuids: Collection[UUID]) -> None:
    """Take a snapshot of these volumes of a running guest at one moment.

    Volumes that have the snapshot are skipped.
    """
    name = str(snapshot_uuid)
    actions = [
        {"type": "blockdev-snapshot-internal-sync", "data": {"device": node, "name": name}}
        for uuid, node, names in _nodes(domain)
        if uuid in volume_uuids and name not in names
    ]
    if actions:
        request_qemu(domain, "transaction", actions=actions)


def remove_of_running(domain: Any, snapshot_uuid: UUID) -> None:
    """Delete a snapshot without memory from all volumes of a running guest."""
    name = str(snapshot_uuid)
    for _, node, names in _nodes(domain):
        if name in names:
            request_qemu(domain, "blockdev-snapshot-delete-internal-sync", device=node, name=name)


def forget(domain: Any) -> None:
    """Delete the daemon's metadata of all snapshots of a guest. The snapshots in the volumes are kept."""
    for noted in domain.listAllSnapshots():
        noted.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)


@contextmanager
def shut_off(call: HostCall, guest_uuid: UUID, disks: Sequence[Disk], options: LibvirtOptions) -> Iterator[Any]:
    """Yield a temporary domain that has the volumes of a guest that does not run.

    The domain is deleted at the end. A domain that an interrupted call left is deleted first.
    """
    uuid = uuid5(guest_uuid, SUFFIX)
    with suppress(libvirt.libvirtError):  # there is none
        call.connection.lookupByUUID(uuid.bytes).undefineFlags(UNDEFINE)
    name = f"bulkdeploy-{SUFFIX}-{guest_uuid}"
    domain = call.connection.defineXML(
        write_volumes_only(uuid, name, disks, kind=options.virtualization, machine=options.machine)
    )
    try:
        yield domain
    finally:
        with suppress(libvirt.libvirtError):
            domain.undefineFlags(UNDEFINE)


def take(domain: Any, snapshot_uuid: UUID) -> None:
    """Take a snapshot of the volumes of a temporary domain. Remains of an interrupted call are deleted first."""
    remove(domain, snapshot_uuid, None)
    domain.snapshotCreateXML(_snapshot_xml(domain, snapshot_uuid, memory=None), 0)


def revert(domain: Any, snapshot_uuid: UUID) -> None:
    """Revert the volumes of a temporary domain to a snapshot."""
    domain.revertToSnapshot(_note(domain, _as_if_noted(domain, snapshot_uuid)))


def _nodes(domain: Any) -> Iterator[tuple[UUID, str, frozenset[str]]]:
    """Yield the uuid, QEMU's block node and the names of the snapshots of each volume of a running guest."""
    for device in request_qemu(domain, "query-block"):
        _, found, rest = device.get("qdev", "").partition(VOLUME_ALIAS)
        if found:
            inserted = device["inserted"]
            names = frozenset(one["name"] for one in inserted["image"].get("snapshots", ()))
            yield UUID(rest.partition("/")[0]), inserted["node-name"], names


def _noted(domain: Any, snapshot_uuid: UUID) -> Any | None:
    try:
        return domain.snapshotLookupByName(str(snapshot_uuid))
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
            raise
        return None


def _note(domain: Any, xml: str) -> Any:
    """Define the metadata of an existing snapshot in the daemon, and return the snapshot."""
    root = Tree.fromstring(xml)  # noqa: S314 - of a daemon that we drive
    current = Tree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE))  # noqa: S314
    for screen in current.findall("devices/graphics"):
        for graphics in root.iter("graphics"):
            graphics.set("passwd", screen.get("passwd", ""))
    noted = _noted(domain, UUID(root.findtext("name")))
    if noted is not None:
        noted.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)
    return domain.snapshotCreateXML(
        Tree.tostring(root, encoding="unicode"), libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
    )


def _as_if_noted(domain: Any, snapshot_uuid: UUID) -> str:
    root = Tree.fromstring(_snapshot_xml(domain, snapshot_uuid, memory="no"))  # noqa: S314 - written a moment ago
    Tree.SubElement(root, "state").text = "shutoff"
    Tree.SubElement(root, "creationTime").text = "0"
    root.append(Tree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))  # noqa: S314
    return Tree.tostring(root, encoding="unicode")


def _snapshot_xml(domain: Any, snapshot_uuid: UUID, *, memory: str | None) -> str:
    """Return the XML that requests an internal snapshot of all writable disks of a domain."""
    root = Tree.Element("domainsnapshot")
    Tree.SubElement(root, "name").text = str(snapshot_uuid)
    if memory is not None:
        Tree.SubElement(root, "memory", snapshot=memory)
    disks = Tree.SubElement(root, "disks")
    for disk in Tree.fromstring(domain.XMLDesc()).findall("devices/disk"):  # noqa: S314
        target = disk.find("target").get("dev", "")  # type: ignore[union-attr]
        how = "no" if disk.find("readonly") is not None else "internal"
        Tree.SubElement(disks, "disk", name=target, snapshot=how)
    return Tree.tostring(root, encoding="unicode")
