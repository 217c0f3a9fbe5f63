"""Ceph pools, whose images QEMU opens directly.

The host's daemon only stores the secret.

A volume is the image ``<uuid>``. If it has a template, it is a copy-on-write clone of the template's copy. A
template's copy is ``template-<uuid>-<attempt>`` with the protected snapshot BASE.
"""

import base64
import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from uuid import UUID
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.errors import DriverError, lost_volume
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.drivers.libvirt.ceph import FEATURES, CephError, CephPool
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.disk_sources import RbdSource
from bulkdeploy.drivers.libvirt.domain import Disk
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.storage.storage import COPY, Backing
from bulkdeploy.drivers.libvirt.storage.template_files import convert_to_raw, require_free_bytes, temporary_folder
from bulkdeploy.drivers.records import Pool

BASE = "base"
"""The name of the snapshot of a template's copy from which volumes are cloned."""

WRITES_NOTED_S = 10
"""The shortest time between two updates of an image's last write time, in seconds."""


class RbdPool:
    """A pool of Ceph that the guests of one host use.

    Args:
        call: a call to the host, whose daemon receives the secret of the pool.
        pool: the pool with its credentials.
    """

    def __init__(self, call: HostCall, pool: Pool) -> None:
        self._call, self.pool = call, pool
        self._ceph = CephPool(pool, call.deadline.left_s)
        self._made: set[UUID] = set()
        if pool.uuid not in call.pools or not self._has_secret():
            self._define_secret()
            call.pools[pool.uuid] = self._ceph.name

    def _has_secret(self) -> bool:
        """Return whether the daemon still has the key. A daemon that restarts loses the key."""
        if self.pool.read_secret is None:
            return True
        try:
            self._call.connection.secretLookupByUUID(self.pool.uuid.bytes)
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_NO_SECRET):
                raise
            return False
        return True

    def _define_secret(self) -> None:
        """Define the key as a secret of the daemon, which stores it in memory only and never returns it."""
        if self.pool.secret is None:
            return
        root = Tree.Element("secret", ephemeral="yes", private="yes")
        Tree.SubElement(root, "uuid").text = str(self.pool.uuid)
        usage = Tree.SubElement(root, "usage", type="ceph")
        Tree.SubElement(usage, "name").text = f"bulkdeploy-{self.pool.uuid}"
        secret = self._call.connection.secretDefineXML(Tree.tostring(root, encoding="unicode"))
        secret.setValue(base64.b64decode(self.pool.secret))

    @staticmethod
    def volume_name(volume_uuid: UUID) -> str:
        """Return the name of a volume's image."""
        return str(volume_uuid)

    def source(self, name: str) -> RbdSource:
        """Return an image as the source of a disk."""
        return RbdSource(self._ceph.image(name), self._ceph.monitors, self.pool.user, self.pool.uuid)

    def ensure(self, spec: VolumeSpec, backing: Backing | None) -> Disk:
        """Create a volume unless it exists, enlarge it to the requested size, and return it as a disk.

        Raises:
            DriverError: the volume existed before and is lost, or was deleted meanwhile.
        """
        name = self.volume_name(spec.uuid)
        if not spec.was_made and self._make(name, spec, backing):
            self._made.add(spec.uuid)
        size = self.size_of(spec.uuid)
        if size is None and spec.was_made:
            raise lost_volume("volume", self._call.host.name, spec)
        if size is None:
            raise DriverError("volume", self._call.host.name, f"{spec.uuid} was removed", transient=True)
        if size < spec.size_bytes:
            self._resize(name, spec.size_bytes)
        return Disk(spec.uuid, self.source(name), "raw", (), spec.parameters)

    def _make(self, name: str, spec: VolumeSpec, backing: Backing | None) -> bool:
        """Create an image, and return True. Return False if an image of this name exists."""
        self._call.go_on("volume")
        image = self._ceph.image(name)
        if backing is not None:
            base = f"{self._ceph.image(backing.name)}@{BASE}"
            arguments = ("clone", "--image-feature", FEATURES, base, image)
        else:
            thick = ("--thick-provision",) if spec.is_preallocated else ()
            arguments = ("create", "--image-feature", FEATURES, "--size", f"{spec.size_bytes}B", *thick, image)
        return self._ceph.is_done(*arguments, unless=errno.EEXIST)

    def evict_clients(self, volume_uuid: UUID, check: Callable[[], None]) -> None:
        """Block every client that has a volume open, because no guest may have it open now.

        A host that died or was cut off leaves such clients. The clients are read before ``check`` is called.
        ``check`` raises an error if a later call took over the volume or if the guest itself has opened it. Clients
        that open the volume after ``check`` are therefore never blocked.
        """
        if volume_uuid in self._made:
            return
        clients = self._ceph.clients_of(self.volume_name(volume_uuid))
        if clients:
            check()
            self._ceph.block(clients)

    def size_of_copy(self, backing: Backing) -> int:
        """Return the size of the disk in a template's copy in bytes.

        Raises:
            DriverError: the pool does not have the copy.
        """
        copy = self._ceph.info(backing.name)
        if copy is None:
            raise DriverError("volume", self._call.host.name, f"{backing.name} is not in the pool", transient=True)
        return int(copy["size"])

    def last_write(self, volume_uuid: UUID) -> str:
        """Return the time of the last write to a volume as text, or an empty text if the volume does not exist.

        Ceph updates this time at most once in WRITES_NOTED_S seconds.
        """
        found = self._ceph.info(self.volume_name(volume_uuid))
        return "" if found is None else str(found["modify_timestamp"]).replace(" ", "-")

    def resize(self, spec: VolumeSpec) -> None:
        """Resize a volume that no guest has open. Nothing is done if the volume does not exist."""
        size = self.size_of(spec.uuid)
        if size not in (None, spec.size_bytes):
            self._resize(self.volume_name(spec.uuid), spec.size_bytes)

    def _resize(self, name: str, size_bytes: int) -> None:
        self._call.go_on("volume")
        self._ceph.rbd("resize", "--allow-shrink", "--size", f"{size_bytes}B", self._ceph.image(name))

    def size_of(self, volume_uuid: UUID) -> int | None:
        """Return a volume's size in bytes, or None if the volume does not exist."""
        found = self._ceph.info(self.volume_name(volume_uuid))
        return None if found is None else int(found["size"])

    def remove(self, name: str) -> None:
        """Delete an image with its snapshots.

        Clients that still have it open are blocked.

        A missing image is no error.
        """
        self._call.go_on("delete")
        image, removals = self._ceph.image(name), 0
        while True:
            try:
                self._ceph.rbd("rm", image)
            except CephError as error:
                removals += 1
                if error.code == errno.ENOENT:
                    return
                if removals > 2 or error.code not in (errno.ENOTEMPTY, errno.EBUSY):
                    raise
                if error.code == errno.EBUSY:
                    self._ceph.block(self._ceph.clients_of(name))
                else:
                    if COPY.fullmatch(name):
                        with suppress(CephError):  # an interrupted attempt left an unprotected snapshot
                            self._ceph.rbd("snap", "unprotect", f"{image}@{BASE}")
                    self._ceph.rbd("snap", "purge", image)
            else:
                return

    def write(self, name: str, content: bytes) -> RbdSource:
        """Write a small image and return it as the source of a disk. An existing image is replaced."""
        self._call.go_on("volume")
        arguments = ("import", "--image-feature", FEATURES, "-", self._ceph.image(name))
        if not self._ceph.is_done(*arguments, given=content, unless=errno.EEXIST):
            self.remove(name)
            self._ceph.rbd(*arguments, given=content)
        return self.source(name)

    def put(self, name: str, image_format: str, chunks: Iterator[bytes], size_bytes: int) -> None:
        """Write the copy of a template, from which volumes can be cloned.

        An image of the same name is replaced.

        The template is first written into the directory for temporary files of this machine (TMPDIR), where a qcow2
        image is converted to a raw one.
        """
        self.remove(name)
        image = self._ceph.image(name)
        with temporary_folder() as folder:
            file = folder / "image"
            require_free_bytes(file, size_bytes)
            with file.open("wb") as written:
                for chunk in chunks:
                    self._call.go_on("template")
                    written.write(chunk)
            if image_format != "raw":
                file = convert_to_raw(file, image_format, self._call.deadline.left_s)
            self._ceph.rbd("import", "--image-feature", FEATURES, str(file), image)
        # Ceph's default of a minute is too long: a host whose guests write would be considered dead.
        self._ceph.rbd("config", "pool", "set", self._ceph.name, "rbd_mtime_update_interval", str(WRITES_NOTED_S))
        self._ceph.rbd("snap", "create", f"{image}@{BASE}")
        self._ceph.rbd("snap", "protect", f"{image}@{BASE}")

    def volumes(self) -> Iterator[tuple[UUID, int]]:
        """Yield the uuid and the size in bytes of every volume of the service."""
        for one in self._ceph.query("ls", "--long", self._ceph.name):
            with suppress(ValueError):
                if "snapshot" not in one:
                    yield UUID(one["image"]), int(one["size"])

    # Snapshots of volumes whose guest does not run

    def take_snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> None:
        """Take a snapshot of a volume. A snapshot that an interrupted call left is deleted first."""
        self.remove_snapshot(volume_uuid, snapshot_uuid)
        self._ceph.rbd("snap", "create", self._snapshot(volume_uuid, snapshot_uuid))

    def revert_to_snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> None:
        """Revert the content of a volume to a snapshot."""
        self._ceph.rbd("snap", "rollback", self._snapshot(volume_uuid, snapshot_uuid))

    def remove_snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> None:
        """Delete a snapshot of a volume. A missing snapshot is no error."""
        self._ceph.is_done("snap", "rm", self._snapshot(volume_uuid, snapshot_uuid), unless=errno.ENOENT)

    def _snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> str:
        return f"{self._ceph.image(self.volume_name(volume_uuid))}@{snapshot_uuid}"
