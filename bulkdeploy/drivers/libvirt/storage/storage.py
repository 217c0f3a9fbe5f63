"""Pools of files with their volumes and templates, by libvirt's storage API (one file: one class).

A pool of the service has the same uuid in libvirt. A volume is the file ``<uuid>.qcow2``, an overlay of its
template's copy if it has one. A template's copy is ``template-<uuid>-<attempt>``, a seed ``seed-<guest>.iso``, and
the firmware variables of a guest ``nvram-<guest>.fd``. Daemons that share a pool see each other's new volumes only
after a refresh.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.errors import DriverError, lost_volume
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.disk_sources import FileSource
from bulkdeploy.drivers.libvirt.domain import BackingFile, Disk
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.records import Pool

SUFFIX = ".qcow2"
FORMATS = {"QCOW2": "qcow2", "RAW": "raw", "ISO": "raw"}
"""libvirt's names of image formats, by CloudStack's names."""

ALREADY_THERE = (libvirt.VIR_ERR_STORAGE_VOL_EXIST, libvirt.VIR_ERR_OPERATION_INVALID)
CHUNK = 256 * 1024
COPY = re.compile(r"template-([0-9a-f-]{36})-\d+")


@dataclass(frozen=True, slots=True)
class Backing:
    """The copy of a template on which a volume is based: the name of the file and its format."""

    name: str
    image_format: str


def seed_name(guest_uuid: UUID) -> str:
    """Return the file name of a guest's seed."""
    return f"seed-{guest_uuid}.iso"


def nvram_name(guest_uuid: UUID) -> str:
    """Return the name of the file that stores the variables of a guest's UEFI firmware."""
    return f"nvram-{guest_uuid}.fd"


def copy_name(template_uuid: UUID, attempt: int) -> str:
    """Return the file name of a template's copy."""
    return f"template-{template_uuid}-{attempt}"


def template_of_copy(path: str) -> UUID | None:
    """Return the uuid of the template or ISO of which a file is a copy, or None if the file is no copy."""
    found = COPY.fullmatch(PurePosixPath(path).name)
    return None if found is None else UUID(found[1])


class FilePool:
    """A pool of files, as the daemon of one host uses it.

    Args:
        call: a call to the host.
        pool: the pool, which is defined in the host's daemon and started if necessary.
        options: the options of the driver, which contain the folder for mounts.
    """

    def __init__(self, call: HostCall, pool: Pool, options: LibvirtOptions) -> None:
        self._call, self.pool = call, pool
        kept = call.pools.get(pool.uuid)
        if kept is None:
            kept = self._ready(options)
            call.pools[pool.uuid] = kept
        self._pool: Any = kept[0]
        self.path: str = kept[1]
        self._is_fresh = False

    def _ready(self, options: LibvirtOptions) -> tuple[Any, str]:
        connection = self._call.connection
        try:
            found = connection.storagePoolLookupByUUID(self.pool.uuid.bytes)
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_NO_STORAGE_POOL):
                raise
            found = self._define(pool_xml(self.pool, options, self._call.host.name))
        if not found.isActive():
            try:
                found.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
            except libvirt.libvirtError as error:
                if not is_code(error, libvirt.VIR_ERR_OPERATION_INVALID):  # another call was faster
                    raise
        return found, pool_path(found)

    def _define(self, xml: str) -> Any:
        """Return the daemon's pool for the folder in ``xml``. A pool is defined if none has the folder."""
        wanted = _target_of(xml)
        for known in self._call.connection.listAllStoragePools():
            if pool_path(known) == wanted:
                return known
        made = self._call.connection.storagePoolDefineXML(xml)
        made.setAutostart(True)
        return made

    @staticmethod
    def volume_name(volume_uuid: UUID) -> str:
        """Return the file name of a volume."""
        return f"{volume_uuid}{SUFFIX}"

    def source(self, name: str) -> FileSource:
        """Return a file as the source of a disk."""
        return FileSource(f"{self.path}/{name}")

    def find(self, name: str) -> Any | None:
        """Return libvirt's volume with this file name, or None if the file does not exist.

        If the daemon does not list the file, the pool is refreshed, at most once in the lifetime of this object.
        """
        for again in (True, False):
            try:
                return self._pool.storageVolLookupByName(name)
            except libvirt.libvirtError as error:
                if not is_code(error, libvirt.VIR_ERR_NO_STORAGE_VOL):
                    raise
            if again and not self._is_fresh:
                self._pool.refresh()
                self._is_fresh = True
        return None

    def ensure(self, spec: VolumeSpec, backing: Backing | None) -> Disk:
        """Create a volume unless it exists, enlarge it to the requested size, and return it as a disk.

        Raises:
            DriverError: the volume existed before and is lost, or was deleted meanwhile, or has a foreign backing
                file.
        """
        name = self.volume_name(spec.uuid)
        made = (
            None
            if spec.was_made
            else self._make(
                name, spec.size_bytes, "qcow2", backing, is_preallocated=spec.is_preallocated and backing is None
            )
        )
        if made is None:
            made = self.find(name)
            if made is None and spec.was_made:
                raise lost_volume("volume", self._call.host.name, spec)
            if made is None:
                raise DriverError("volume", self._call.host.name, f"{spec.uuid} was removed", transient=True)
            if made.info()[1] < spec.size_bytes:
                self._call.go_on("volume")
                made.resize(spec.size_bytes)
        return Disk(spec.uuid, self.source(name), "qcow2", self._chain(made), spec.parameters)

    def evict_clients(self, volume_uuid: UUID, check: Callable[[], None]) -> None:
        """Do nothing: QEMU locks files, and a host that was cut off cannot be prevented from writing to them."""

    def _chain(self, volume: Any) -> tuple[BackingFile, ...]:
        """Return the copy of a template on which a volume is based, or an empty tuple if there is none.

        Any other backing file is an error, so that a volume's header cannot make QEMU open a file of the host.

        Raises:
            DriverError: the volume has another backing file, or one whose format its header does not name.
        """
        found = Tree.fromstring(volume.XMLDesc()).find("backingStore")  # noqa: S314 - of the daemon that we drive
        if found is None:
            return ()
        path, image_format = found.findtext("path", ""), found.find("format")
        kind = "" if image_format is None else image_format.get("type", "")
        is_copy = template_of_copy(path) is not None and str(PurePosixPath(path).parent) == self.path
        if not is_copy or kind not in FORMATS.values():
            reason = f"volume {volume.name()} has the backing file {path} of format {kind!r}, which is no template"
            raise DriverError("volume", self._call.host.name, reason, transient=False)
        return (BackingFile(path, kind),)

    def size_of_copy(self, backing: Backing) -> int:
        """Return the size of the disk in a template's copy in bytes.

        Raises:
            DriverError: the pool does not have the copy.
        """
        copy = self.find(backing.name)
        if copy is None:
            raise DriverError("volume", self._call.host.name, f"{backing.name} is not in the pool", transient=True)
        return int(copy.info()[1])

    def _make(
        self,
        name: str,
        size_bytes: int,
        image_format: str,
        backing: Backing | None,
        *,
        is_preallocated: bool = False,
    ) -> Any | None:
        """Create a file and return libvirt's volume, or None if a file of this name exists."""
        root = Tree.Element("volume")
        Tree.SubElement(root, "name").text = name
        Tree.SubElement(root, "capacity").text = str(size_bytes)
        Tree.SubElement(root, "allocation").text = str(size_bytes if is_preallocated else 0)
        Tree.SubElement(Tree.SubElement(root, "target"), "format", type=image_format)
        if backing is not None:
            store = Tree.SubElement(root, "backingStore")
            Tree.SubElement(store, "path").text = f"{self.path}/{backing.name}"
            Tree.SubElement(store, "format", type=backing.image_format)
        self._call.go_on("volume")
        try:
            return self._pool.createXML(Tree.tostring(root, encoding="unicode"))
        except libvirt.libvirtError as error:
            if not is_code(error, *ALREADY_THERE):
                raise
            return None

    def last_write(self, volume_uuid: UUID) -> str:
        """Return the time of the last write to the file of a volume in seconds, as text.

        Returns an empty text if the file does not exist.
        """
        found = self.find(self.volume_name(volume_uuid))
        if found is None:
            return ""
        # The daemon reads the attributes of the file again for each description.
        seen = Tree.fromstring(found.XMLDesc()).findtext("target/timestamps/mtime")  # noqa: S314 - of our own daemon
        return seen or ""

    def resize(self, spec: VolumeSpec) -> None:
        """Change the size of a volume that no running guest uses. Nothing is done if the volume does not exist."""
        volume = self.find(self.volume_name(spec.uuid))
        if volume is None or (size := volume.info()[1]) == spec.size_bytes:
            return
        volume.resize(spec.size_bytes, libvirt.VIR_STORAGE_VOL_RESIZE_SHRINK if spec.size_bytes < size else 0)

    def size_of(self, volume_uuid: UUID) -> int | None:
        """Return the size of a volume in bytes, or None if the volume does not exist."""
        volume = self.find(self.volume_name(volume_uuid))
        return None if volume is None else int(volume.info()[1])

    def remove(self, name: str) -> None:
        """Delete a file of the pool. A missing file is no error."""
        volume = self.find(name)
        if volume is None:
            return
        self._call.go_on("delete")
        try:
            volume.delete()
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_NO_STORAGE_VOL):
                raise

    def write(self, name: str, content: bytes) -> FileSource:
        """Write a small file and return the file as the source of a disk. An existing file is replaced."""
        volume = self._make(name, len(content), "raw", None)
        if volume is None:
            volume = self.find(name)
            if volume is not None and volume.info()[1] < len(content):
                volume.resize(len(content))
        self._upload(volume, iter([content]), len(content))
        return self.source(name)

    def put(self, name: str, image_format: str, chunks: Iterator[bytes], size_bytes: int) -> None:
        """Write the copy of a template as a file of this size. A file of the same name is replaced."""
        del image_format
        self.remove(name)
        self._upload(self._make(name, size_bytes, "raw", None), chunks, size_bytes)

    def _upload(self, volume: Any, chunks: Iterator[bytes], size_bytes: int) -> None:
        stream = self._call.connection.newStream()
        volume.upload(stream, 0, size_bytes)
        try:
            for chunk in chunks:
                self._send(stream, chunk)
        except BaseException:
            stream.abort()
            raise
        stream.finish()

    def _send(self, stream: Any, chunk: bytes) -> None:
        for begin in range(0, len(chunk), CHUNK):
            self._call.go_on("volume")
            left = chunk[begin : begin + CHUNK]
            while left:
                left = left[stream.send(left) :]

    def volumes(self) -> Iterator[tuple[UUID, int]]:
        """Yield the uuid and the size in bytes of every volume of the service."""
        self._pool.refresh()
        for volume in self._pool.listAllVolumes():
            uuid = _volume_uuid(volume.name())
            if uuid is not None:
                yield uuid, int(volume.info()[1])


def pool_path(pool: Any) -> str:
    """Return the folder of a libvirt pool on its host, or an empty text if the pool has no folder."""
    return Tree.fromstring(pool.XMLDesc()).findtext("target/path", "")  # noqa: S314 - of the daemon that we drive


def target_path(pool: Pool, options: LibvirtOptions, host_name: str) -> str:
    """Return the folder of a pool on a host.

    Raises:
        DriverError: libvirt hosts cannot use pools of this type.
    """
    return _target_of(pool_xml(pool, options, host_name))


def _target_of(xml: str) -> str:
    return Tree.fromstring(xml).findtext("target/path", "")  # noqa: S314 - pool_xml wrote it


def _volume_uuid(name: str) -> UUID | None:
    path = PurePosixPath(name)
    try:
        return UUID(path.stem) if path.suffix == SUFFIX else None
    except ValueError:
        return None


def pool_xml(pool: Pool, options: LibvirtOptions, host_name: str) -> str:
    """Return the XML that defines a pool in libvirt.

    Raises:
        DriverError: libvirt hosts cannot use pools of this type, or the pool has no path.
    """
    kind, target = "dir", pool.path
    match pool.pool_type:
        case "NetworkFilesystem":
            kind, target = "netfs", f"{options.mount_path}/{pool.uuid}"
        case "SharedMountPoint":
            pass
        case "Filesystem":
            target = options.local_path
        case _:
            reason = f"pool {pool.name} is of type {pool.pool_type}; use NFS, a shared or local folder, or Ceph"
            raise DriverError("volume", host_name, reason, transient=False)
    if target is None:
        raise DriverError("volume", host_name, f"pool {pool.name} has no path", transient=False)
    root = Tree.Element("pool", type=kind)
    Tree.SubElement(root, "name").text = f"bulkdeploy-{pool.uuid}"
    Tree.SubElement(root, "uuid").text = str(pool.uuid)
    if kind == "netfs":
        source = Tree.SubElement(root, "source")
        Tree.SubElement(source, "host", name=pool.server or "")
        Tree.SubElement(source, "dir", path=pool.path or "/")
        Tree.SubElement(source, "format", type="nfs")
    Tree.SubElement(Tree.SubElement(root, "target"), "path").text = target
    return Tree.tostring(root, encoding="unicode")
