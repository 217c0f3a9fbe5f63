"""Snapshots inside the files of a guest's volumes (qcow2), taken and reverted by libvirt.

What a daemon notes of a snapshot stays with that daemon, and a guest that has such notes does not move. So they are
made for a call, and forgotten with the guest's next move or end. What a revert needs of them, the definition that
the guest ran with, is kept in the service's records instead, without its VNC password.

Volumes of a guest that runs are taken without its memory by QEMU itself, all in one transaction: libvirt would put
overlays over them. It is reached through libvirt's monitor: the daemon's log calls the guest tainted, which
changes nothing.

Of a guest that does not run no daemon knows anything. For its snapshots a domain is defined that has its volumes,
and that nobody starts.
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

    Returns the XML of the snapshot, which is needed to revert to the snapshot or to remove it later.
    """
    noted = _noted(domain, snapshot_uuid)
    if noted is None:
        noted = domain.snapshotCreateXML(_snapshot_xml(domain, snapshot_uuid, memory="internal"), 0)
    return str(noted.getXMLDesc())


def revert_with_memory(domain: Any, kept: str) -> None:
    """Revert a running guest to a snapshot with memory.

    The guest gets the devices that it had in the snapshot, and keeps its present console password.
    """
    noted = _note(domain, kept)
    domain.revertToSnapshot(noted, libvirt.VIR_DOMAIN_SNAPSHOT_REVERT_RUNNING)


def remove(domain: Any, snapshot_uuid: UUID, kept: str | None) -> None:
    """Remove a snapshot from the volumes of a guest.

    ``kept`` is the recorded XML of a snapshot with memory, else None.
    """
    _note(domain, kept or _as_if_noted(domain, snapshot_uuid)).delete()


def take_of_running(domain: Any, snapshot_uuid: UUID, volume_uuids: Collection[UUID]) -> None:
    """Take a snapshot of these volumes of a running guest, all at one moment. Existing snapshots stay."""
    name = str(snapshot_uuid)
    actions = [
        {"type": "blockdev-snapshot-internal-sync", "data": {"device": node, "name": name}}
        for uuid, node, names in _nodes(domain)
        if uuid in volume_uuids and name not in names
    ]
    if actions:
        request_qemu(domain, "transaction", actions=actions)


def remove_of_running(domain: Any, snapshot_uuid: UUID) -> None:
    """Remove a snapshot without memory from all volumes of a guest that runs."""
    name = str(snapshot_uuid)
    for _, node, names in _nodes(domain):
        if name in names:
            request_qemu(domain, "blockdev-snapshot-delete-internal-sync", device=node, name=name)


def forget(domain: Any) -> None:
    """Delete the daemon's metadata of all snapshots of a guest. The snapshots themselves stay in the volumes."""
    for noted in domain.listAllSnapshots():
        noted.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)


@contextmanager
def shut_off(call: HostCall, guest_uuid: UUID, disks: Sequence[Disk], options: LibvirtOptions) -> Iterator[Any]:
    """Yield a temporary domain that has the volumes of a guest that does not run.

    The temporary domain is removed at the end. One that an earlier call left is removed first.
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
    """Take a snapshot of the volumes of a guest that does not run.

    Remains of an earlier attempt are removed first.
    """
    remove(domain, snapshot_uuid, None)
    domain.snapshotCreateXML(_snapshot_xml(domain, snapshot_uuid, memory=None), 0)


def revert(domain: Any, snapshot_uuid: UUID) -> None:
    """Revert the volumes of a guest that does not run to a snapshot."""
    domain.revertToSnapshot(_note(domain, _as_if_noted(domain, snapshot_uuid)))


def _nodes(domain: Any) -> Iterator[tuple[UUID, str, frozenset[str]]]:
    """Yield uuid, block node of QEMU and names of snapshots for each volume of a running guest."""
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
    """Define an existing snapshot in the daemon, as if the snapshot had just been taken, and return it."""
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
