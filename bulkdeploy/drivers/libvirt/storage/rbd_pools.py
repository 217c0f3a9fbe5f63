"""Ceph pools, whose images QEMU opens directly. The host's daemon only stores the secret.

A volume is the image ``<uuid>``, a copy-on-write clone of its template's copy if it has one. A template's copy is
``template-<uuid>-<attempt>`` with the protected snapshot BASE.
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
"""The snapshot of a template's copy that volumes are clones of."""

WRITES_NOTED_S = 10
"""Seconds after which a further write to an image is noted as the time of its last write."""


class RbdPool:
    """A pool of Ceph that the guests of one host use.

    Args:
        call: a call to the host; its daemon gets the secret of the pool.
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
        """Return the image of a volume."""
        return str(volume_uuid)

    def source(self, name: str) -> RbdSource:
        """Return an image as a source of a disk."""
        return RbdSource(self._ceph.image(name), self._ceph.monitors, self.pool.user, self.pool.uuid)

    def ensure(self, spec: VolumeSpec, backing: Backing | None) -> Disk:
        """Create a volume unless it exists, and return it as a disk that is at least as large as asked."""
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
        """Create an image; return False if there is one of this name."""
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

        Such clients are left by a host that died or was cut off. Clients are read before ``check``, which raises an
        error if a later call took over the volume or if the guest itself has opened it: clients of that later call,
        and of a guest that opens the volume after ``check``, are not among them.
        """
        if volume_uuid in self._made:
            return
        clients = self._ceph.clients_of(self.volume_name(volume_uuid))
        if clients:
            check()
            self._ceph.block(clients)

    def size_of_copy(self, backing: Backing) -> int:
        """Return the size in bytes of a template's disk."""
        copy = self._ceph.info(backing.name)
        if copy is None:
            raise DriverError("volume", self._call.host.name, f"{backing.name} is not in the pool", transient=True)
        return int(copy["size"])

    def last_write(self, volume_uuid: UUID) -> str:
        """Return the time of the last write to a volume as text, or an empty text if there is no such volume.

        Ceph updates this time at most once in WRITES_NOTED_S seconds.
        """
        found = self._ceph.info(self.volume_name(volume_uuid))
        return "" if found is None else str(found["modify_timestamp"]).replace(" ", "-")

    def resize(self, spec: VolumeSpec) -> None:
        """Resize a volume that no guest has open. A volume that does not exist stays absent."""
        size = self.size_of(spec.uuid)
        if size not in (None, spec.size_bytes):
            self._resize(self.volume_name(spec.uuid), spec.size_bytes)

    def _resize(self, name: str, size_bytes: int) -> None:
        self._call.go_on("volume")
        self._ceph.rbd("resize", "--allow-shrink", "--size", f"{size_bytes}B", self._ceph.image(name))

    def size_of(self, volume_uuid: UUID) -> int | None:
        """Return a volume's size in bytes, or None if there is no such volume."""
        found = self._ceph.info(self.volume_name(volume_uuid))
        return None if found is None else int(found["size"])

    def remove(self, name: str) -> None:
        """Remove an image with its snapshots. Clients that still have it open are blocked. Absent is fine."""
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
                        with suppress(CephError):  # an attempt that was cut has a snapshot that is not protected
                            self._ceph.rbd("snap", "unprotect", f"{image}@{BASE}")
                    self._ceph.rbd("snap", "purge", image)
            else:
                return

    def write(self, name: str, content: bytes) -> RbdSource:
        """Replace a small image, and return it as a source of a disk."""
        self._call.go_on("volume")
        arguments = ("import", "--image-feature", FEATURES, "-", self._ceph.image(name))
        if not self._ceph.is_done(*arguments, given=content, unless=errno.EEXIST):
            self.remove(name)
            self._ceph.rbd(*arguments, given=content)
        return self.source(name)

    def put(self, name: str, image_format: str, chunks: Iterator[bytes], size_bytes: int) -> None:
        """Write the copy of a template, which volumes can be clones of. An image of the same name is replaced.

        The template passes through the directory for temporary files of this machine (TMPDIR), where a qcow2 image
        is converted to a raw one.
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
        # A host whose guests write must not seem dead: the default of Ceph is a minute.
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
        """Take a snapshot of a volume. A snapshot that an earlier call left is removed first."""
        self.remove_snapshot(volume_uuid, snapshot_uuid)
        self._ceph.rbd("snap", "create", self._snapshot(volume_uuid, snapshot_uuid))

    def revert_to_snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> None:
        """Revert the content of a volume to a snapshot."""
        self._ceph.rbd("snap", "rollback", self._snapshot(volume_uuid, snapshot_uuid))

    def remove_snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> None:
        """Remove a snapshot of a volume. Absent is fine."""
        self._ceph.is_done("snap", "rm", self._snapshot(volume_uuid, snapshot_uuid), unless=errno.ENOENT)

    def _snapshot(self, volume_uuid: UUID, snapshot_uuid: UUID) -> str:
        return f"{self._ceph.image(self.volume_name(volume_uuid))}@{snapshot_uuid}"
