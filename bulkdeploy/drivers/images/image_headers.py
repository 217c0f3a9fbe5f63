"""Checks of the first bytes of disk images, which contain the format, the sizes and references to other files.

A hypervisor that opens an image follows the references in its header: to a backing file, to an external data file,
to a key. An image of a user must have no such reference, because its guest could then read files of the host. The
parser reads only the format that was declared, and rejects everything that it does not know. Source: QEMU's
docs/interop/qcow2.txt.
"""

import re
import struct
from dataclasses import dataclass

HEAD_BYTES = 64 << 10
"""The number of bytes at the beginning of a file that ``check_image`` needs.

Smaller files are passed as a whole.
"""

SECTOR = 512
QCOW2_MAGIC = b"QFI\xfb"
HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
FEATURES = struct.Struct(">QQQII")
EXTENSION = struct.Struct(">II")
COMPRESSION_AT, FIRST_LENGTH = 104, 104
COMPRESSED_OTHERWISE, EXTENDED_L2 = 1 << 3, 1 << 4
END, FEATURE_NAMES = 0x00000000, 0x6803F857
LARGEST_L1, LARGEST_REFCOUNTS = 32 << 20, 8 << 20
SLACK_BYTES = 4 << 20
"""The number of bytes that a file may have in addition to its disk and twice its metadata."""

FEATURE_WORDS = {
    1 << 0: "it was not closed properly",
    1 << 1: "it is marked as corrupt",
    1 << 2: "it has an external data file",
}
EXTENSION_WORDS = {
    0xE2792ACA: "it names the format of a backing file",
    0x44415441: "it names an external data file",
    0x0537BE77: "it is encrypted",
    0x23852875: "it has bitmaps",
}
MAGICS: tuple[tuple[int, bytes, str], ...] = (
    (0, QCOW2_MAGIC, "qcow2"),
    (0, b"QED\0", "QED"),
    (0, b"KDMV", "VMDK"),
    (0, b"COWD", "VMDK"),
    (0, b"# Disk DescriptorFile", "VMDK"),
    (0, b"conectix", "VHD"),
    (0, b"vhdxfile", "VHDX"),
    (0, b"LUKS\xba\xbe", "LUKS"),
    (0, b"WithoutFreeSpace", "Parallels"),
    (0, b"WithouFreSpacExt", "Parallels"),
    (0, b"Bochs Virtual HD Image", "Bochs"),
    (0, b"#!/bin/sh\n#V2.0 Format\nmodprobe cloop", "cloop"),
    (0, b"OOOM", "COW"),
    (0x40, b"\x7f\x10\xda\xbe", "VDI"),
)
"""The formats that hypervisors detect by themselves: the offset of the magic bytes, the bytes, and the name."""

VMDK_TEXT = re.compile(rb"(?:#[^\n]*\n| *\r?\n)*version=[12]\r?\n")
"""The beginning of a VMDK description file as QEMU detects it: comments and empty lines, then the version."""

QCOW2, RAW, ISO = "QCOW2", "RAW", "ISO"
FILE_SYSTEM_AT, FILE_SYSTEMS = 16 * 2048 + 1, (b"CD001", b"BEA01")
"""The offset of the file system's name in images of discs, and the names of ISO 9660 and UDF."""


class ImageRejected(Exception):
    """Raised for an image that must not be written into a pool. The text is the reason."""


@dataclass(frozen=True, slots=True)
class _Qcow2:
    """The fields of a qcow2 header that are checked."""

    cluster_bytes: int
    disk_bytes: int
    entry_bytes: int
    refcount_bits: int
    l1_entries: int
    l1_at: int
    refcounts_at: int
    refcount_clusters: int


def check_image(image_format: str, head: bytes, file_bytes: int, *, most_disk_bytes: int) -> int:
    """Check the first bytes of an image, and return the size of its disk in bytes.

    Args:
        image_format: the declared format: QCOW2, RAW or ISO.
        head: the file's first HEAD_BYTES, or all of a smaller file.
        file_bytes: the size of the file.
        most_disk_bytes: the largest allowed size of the disk.

    Raises:
        ImageRejected: the file has another format or refers to other files, or its sizes are invalid or too large.
    """
    if not file_bytes:
        raise ImageRejected("the file is empty")
    if image_format == QCOW2:
        disk_bytes = _check_qcow2(head, file_bytes)
    elif image_format in (RAW, ISO):
        disk_bytes = file_bytes
        found = [name for at, magic, name in MAGICS if head.startswith(magic, at)]
        if VMDK_TEXT.match(head):
            found.append("VMDK")
        if found:
            raise ImageRejected(f"the image was registered as {image_format} and is of format {found[0]}")
        if image_format == ISO and head[FILE_SYSTEM_AT : FILE_SYSTEM_AT + 5] not in FILE_SYSTEMS:
            raise ImageRejected("the image was registered as ISO and has no file system of optical discs")
    else:
        raise ImageRejected(f"images of format {image_format} cannot be checked")
    if disk_bytes > most_disk_bytes:
        raise ImageRejected(
            f"its disk has {disk_bytes} bytes; at most {most_disk_bytes} are allowed (fetch.disk_gib)"
        )
    return disk_bytes


def _check_qcow2(head: bytes, file_bytes: int) -> int:
    found = _read_qcow2(head)
    if file_bytes < found.cluster_bytes:
        raise ImageRejected("the file is smaller than the size in its header")
    clusters = -(-found.disk_bytes // found.cluster_bytes)
    if clusters * found.entry_bytes > found.l1_entries * found.cluster_bytes:
        raise ImageRejected("the image's tables are too small for the size of its disk")
    for what, at, size in (
        ("cluster table", found.l1_at, found.l1_entries * 8),
        ("reference counts", found.refcounts_at, found.refcount_clusters * found.cluster_bytes),
    ):
        if at < found.cluster_bytes or at % found.cluster_bytes or at + size > file_bytes:
            raise ImageRejected(f"the image's {what} are not within the file")
    counts = clusters * found.refcount_bits // 8
    metadata = clusters * found.entry_bytes + counts + found.l1_entries * 8
    metadata += (found.refcount_clusters + 16) * found.cluster_bytes
    if file_bytes > clusters * found.cluster_bytes + 2 * metadata + SLACK_BYTES:
        raise ImageRejected(f"the file has {file_bytes} bytes, more than its disk of {found.disk_bytes}")
    return found.disk_bytes


def _read_qcow2(head: bytes) -> _Qcow2:
    if not head.startswith(QCOW2_MAGIC):
        raise ImageRejected("the image was registered as QCOW2 and is not of that format")
    if len(head) < HEADER.size:
        raise ImageRejected("the image's header is cut off")
    (
        _,
        version,
        backing_at,
        backing_length,
        cluster_bits,
        disk_bytes,
        encryption,
        l1_entries,
        l1_at,
        refcounts_at,
        refcount_clusters,
        snapshots,
        _,
    ) = HEADER.unpack_from(head)
    for is_wrong, words in (
        (version not in (2, 3), f"its version {version} is not known"),
        (backing_at or backing_length, "it has a backing file"),
        (encryption, "it is encrypted"),
        (snapshots, "it has snapshots"),
        (not 9 <= cluster_bits <= 21, "its cluster size is not valid"),
    ):
        if is_wrong:
            raise ImageRejected(words)
    cluster = 1 << cluster_bits
    if not disk_bytes or disk_bytes % SECTOR or disk_bytes >= 1 << 62:
        raise ImageRejected("the size of its disk is not valid")
    if l1_entries * 8 > LARGEST_L1 or not 0 < refcount_clusters * cluster <= max(LARGEST_REFCOUNTS, cluster):
        raise ImageRejected("the image's tables are too large")
    length, order, entry = HEADER.size, 4, 8
    if version == 3:
        length, order, entry = _read_features(head, cluster)
    _check_extensions(head, length, cluster)
    return _Qcow2(cluster, disk_bytes, entry, 1 << order, l1_entries, l1_at, refcounts_at, refcount_clusters)


def _read_features(head: bytes, cluster_bytes: int) -> tuple[int, int, int]:
    """Read the fields that version 3 adds to the header of a qcow2 image.

    Returns:
        The length of the header, the binary logarithm of the bits of a reference count, and the bytes of an entry
            in a cluster table.

    Raises:
        ImageRejected: the header is invalid or requires a feature that is not allowed.
    """
    if len(head) < FIRST_LENGTH:
        raise ImageRejected("the image's header is cut off")
    incompatible, _, automatic, order, length = FEATURES.unpack_from(head, HEADER.size)
    for bit, words in FEATURE_WORDS.items():
        if incompatible & bit:
            raise ImageRejected(words)
    if incompatible & ~(COMPRESSED_OTHERWISE | EXTENDED_L2):
        raise ImageRejected(f"the image has unknown incompatible features ({incompatible:#x})")
    if automatic:
        raise ImageRejected(f"the image has bitmaps, an external data file or unknown features ({automatic:#x})")
    if order > 6 or length < FIRST_LENGTH or length % 8 or length > min(cluster_bytes, len(head)):
        raise ImageRejected("the image's header is not valid")
    compression = head[COMPRESSION_AT] if length > COMPRESSION_AT else 0
    if compression not in (0, 1) or bool(compression) != bool(incompatible & COMPRESSED_OTHERWISE):
        raise ImageRejected("the image's compression is not known")
    if any(head[COMPRESSION_AT + 1 : length]):
        raise ImageRejected("the image's header has unknown fields")
    return length, order, 16 if incompatible & EXTENDED_L2 else 8


def _check_extensions(head: bytes, at: int, cluster_bytes: int) -> None:
    """Check the header extensions of a qcow2 image, which begin at the offset ``at``.

    Raises:
        ImageRejected: an extension is not allowed or unknown.
    """
    while at + EXTENSION.size <= cluster_bytes:
        if at + EXTENSION.size > len(head):
            raise ImageRejected("the image's header has no end mark")
        kind, length = EXTENSION.unpack_from(head, at)
        if kind == END:
            return
        if kind != FEATURE_NAMES:
            words = EXTENSION_WORDS.get(kind, f"its header has an unknown extension ({kind:#x})")
            raise ImageRejected(words)
        at += EXTENSION.size + -(-length // 8) * 8
        if at > cluster_bytes:
            raise ImageRejected("the image's header is not valid")
