"""Files that the service writes to all hosts (docs/how-to/host-files.md)."""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.drivers.hosts import HostAddress


@dataclass(frozen=True, slots=True)
class FileState:
    """The values by which files are compared: the SHA-256 of the content in hex, and the permission bits."""

    checksum: str
    mode: int


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file that every host must have: its path, its content, and its permission bits."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o644

    @property
    def state(self) -> FileState:
        """The checksum and permission bits by which the file is compared."""
        return state_of(self.content, self.mode)


def state_of(content: bytes, mode: int) -> FileState:
    """Return the checksum and permission bits of a file with this content and mode."""
    return FileState(hashlib.sha256(content).hexdigest(), mode)


LARGEST = 1 << 20
"""The largest size of files for hosts, in bytes. A larger file on a host counts as different."""


class HostFiles(Ability):
    """The ability to write files, which the settings declare, to hosts."""

    ability_name = "files on hosts"

    @abstractmethod
    def states_of_files(
        self, host: HostAddress, paths: Sequence[str], *, timeout_s: float
    ) -> Mapping[str, FileState]:
        """Return the checksum and permission bits of these files on a host, by path.

        Missing files are omitted.

        Raises:
            DriverError: the host does not answer, or a file cannot be read.
        """

    @abstractmethod
    def put_file(self, host: HostAddress, file: HostFile, *, timeout_s: float) -> None:
        """Write a file to a host, replacing any file with the same path.

        Raises:
            DriverError: the host may have the new file, the previous one, or none.
        """
