"""Files that hosts shall have, the same on all of them (docs/host-files.md)."""

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file as every host shall have it: its path there, content, and mode (permission bits)."""

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o644

    @property
    def checksum(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        return checksum_of(self.content)


def checksum_of(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


LARGEST = 1 << 20
"""Bytes of the largest file that hosts get; what is larger on a host is another one."""
