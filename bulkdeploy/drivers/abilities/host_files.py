"""Files that the service writes to all hosts (docs/how-to/host-files.md)."""

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FileState:
    """The state by which files are compared: SHA-256 of the content, hexadecimal, and mode (permission bits)."""

    checksum: str
    mode: int


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file that every host must have: its path, its content, and its mode (permission bits)."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o644

    @property
    def state(self) -> FileState:
        """The state by which the file is compared."""
        return state_of(self.content, self.mode)


def state_of(content: bytes, mode: int) -> FileState:
    """Return the state of a file of this content and mode."""
    return FileState(hashlib.sha256(content).hexdigest(), mode)


LARGEST = 1 << 20
"""Bytes of the largest file that hosts get; what is larger on a host is another one."""
