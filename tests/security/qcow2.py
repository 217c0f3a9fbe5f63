"""Builds qcow2 headers field by field, for images that no tool makes."""

import struct
from dataclasses import dataclass

CLUSTER = 1 << 16
BACKING_FORMAT, DATA_FILE, ENCRYPTION, BITMAPS = 0xE2792ACA, 0x44415441, 0x0537BE77, 0x23852875
FEATURE_NAMES = 0x6803F857


@dataclass(frozen=True)
class Qcow2:
    """An empty qcow2 image of three clusters: header, reference counts, cluster table."""

    magic: bytes = b"QFI\xfb"
    version: int = 3
    backing_at: int = 0
    backing: bytes = b""
    cluster_bits: int = 16
    disk_bytes: int = 1 << 20
    encryption: int = 0
    l1_entries: int = 1
    l1_at: int = 2 * CLUSTER
    refcounts_at: int = CLUSTER
    refcount_clusters: int = 1
    snapshots: int = 0
    incompatible: int = 0
    compatible: int = 0
    automatic: int = 0
    refcount_order: int = 4
    header_length: int = 112
    compression: int = 0
    extensions: tuple[tuple[int, bytes], ...] = ()
    file_bytes: int = 3 * CLUSTER

    def head(self) -> bytes:
        """The first cluster."""
        made = struct.pack(
            ">4sIQIIQIIQQIIQ", self.magic, self.version, self.backing_at, len(self.backing), self.cluster_bits,
            self.disk_bytes, self.encryption, self.l1_entries, self.l1_at, self.refcounts_at,
            self.refcount_clusters, self.snapshots, 0,
        )  # fmt: skip
        if self.version >= 3:
            made += struct.pack(
                ">QQQIIB7x", self.incompatible, self.compatible, self.automatic, self.refcount_order,
                self.header_length, self.compression,
            )  # fmt: skip
        for kind, content in self.extensions:
            made += struct.pack(">II", kind, len(content)) + content.ljust(-(-len(content) // 8) * 8, b"\0")
        made = made.ljust(max(self.backing_at, len(made)), b"\0") + self.backing
        return made.ljust(CLUSTER, b"\0")

    def write(self) -> bytes:
        """The whole file."""
        return self.head().ljust(self.file_bytes, b"\0")
