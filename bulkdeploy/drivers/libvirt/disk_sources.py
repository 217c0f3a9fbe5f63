"""The sources of disks in domain XML: a file, or an image of Ceph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID
from xml.etree import ElementTree as Tree


class DiskSource(Protocol):
    """The location of a disk's data, in the format of domain XML."""

    @property
    def disk_type(self) -> str:
        """The type of the disk's element in domain XML."""

    @property
    def place(self) -> str:
        """The path or image name that identifies the source on its host.

        ``place_of`` reads the same text from domain XML.
        """

    def write(self, parent: Tree.Element) -> None:
        """Add the source to the XML element of a disk."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file on the host, by its path."""

    place: str
    disk_type: str = "file"

    def write(self, parent: Tree.Element) -> None:
        """Add the source to the XML element of a disk."""
        Tree.SubElement(parent, "source", file=self.place)


@dataclass(frozen=True, slots=True)
class RbdSource:
    """An image of Ceph.

    Attributes:
        place: the pool and the image, ``POOL/IMAGE``.
        monitors: host and port of each monitor.
        user: the user of Ceph. None: Ceph does not check users.
        secret_uuid: the secret of libvirt that contains the key of this user.
    """

    place: str
    monitors: Sequence[tuple[str, int]]
    user: str | None
    secret_uuid: UUID
    disk_type: str = "network"

    def write(self, parent: Tree.Element) -> None:
        """Add the source with its credentials to the XML element of a disk."""
        source = Tree.SubElement(parent, "source", protocol="rbd", name=self.place)
        for host, port in self.monitors:
            Tree.SubElement(source, "host", name=host, port=str(port))
        if self.user is not None:
            auth = Tree.SubElement(source, "auth", username=self.user)
            Tree.SubElement(auth, "secret", type="ceph", uuid=str(self.secret_uuid))


def place_of(source: Tree.Element | None) -> str | None:
    """Return the path or image name in a source element, or None if there is no source, as in an empty drive."""
    if source is None:
        return None
    return source.get("file") or source.get("name")
