"""Checks of tar archives with metadata and a root file system, the images of Incus (one file: one strict reader).

Incus unpacks an archive as root of its member, and its daemon later uses the files beside the root file system:
rules for templates, which it evaluates with the rights of the daemon, and links in place of directories. An archive
of a user must contain neither: CVE-2026-23954, CVE-2026-33897, CVE-2026-48749, CVE-2026-48750, CVE-2026-48752.
Readers of tar files disagree about unusual archives: where the archive ends, which of two names counts, how long a
member is. An archive that two readers could understand in two ways is therefore rejected, and nothing may follow
its end.
"""

import bz2
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import yaml

from bulkdeploy.drivers.images.image_headers import HEAD_BYTES, QCOW2, ImageRejected, check_image

BLOCK, CHUNK = 512, 256 * 1024
METADATA, ROOT, DISK, TEMPLATES = b"metadata.yaml", b"rootfs", b"rootfs.img", b"templates"
"""The names that an archive may have at its top level.

``rootfs.img`` is the disk of a virtual machine in qcow2.
"""

DEVICES_AT = (ROOT, b"dev")
"""The directory that may contain device files, because Incus does not unpack it."""

METADATA_KEYS = {"architecture", "creation_date", "expiry_date", "properties"}
MOST_METADATA, MOST_DESCRIBED = 16 << 10, 1 << 20
"""The largest size of the metadata, and of the extended header of one member, in bytes."""

MOST_NESTED = 16
"""The greatest depth of lists and maps in the metadata. The format itself needs four levels."""

MOST_MEMBERS, MOST_LINK_BYTES = 2_000_000, 64 << 20
"""The largest number of members of an archive, and of bytes of the names of its symbolic links."""

MOST_XZ_BYTES = 192 << 20
"""The largest amount of memory for unpacking xz, in bytes. ``xz -9`` needs 65 MiB."""

PLAIN_BEGINNINGS = (b"./", METADATA, ROOT, TEMPLATES, b"PaxHeader")
"""The first bytes by which an uncompressed archive is recognised."""

FILES, HARD_LINK, SYMBOLIC_LINK, DIRECTORY, FIFO = (b"0", b"\0"), b"1", b"2", b"5", b"6"
DEVICES, ATTRIBUTES, LONG_NAME, LONG_TARGET = (b"3", b"4"), b"x", b"L", b"K"
POSIX_MAGIC, GNU_MAGIC = b"ustar\x0000", b"ustar  \0"


@dataclass(slots=True)
class _Member:
    """A member of an archive: its type in tar's code, its name, the target of a link, and its size in bytes."""

    kind: bytes
    name: bytes
    target: bytes
    size: int


def check_archive(packed: IO[bytes], most_bytes: int, *, may_have_templates: bool) -> None:
    """Read an archive to its end, and check that it contains only members that an image may have.

    Args:
        packed: the archive, plain or compressed by gzip, bzip2 or xz.
        most_bytes: the largest total size of the unpacked members.
        may_have_templates: whether the archive may contain rules for templates, which the daemon evaluates.

    Raises:
        ImageRejected: the file is not such an archive, is too large, or contains members that are not allowed.
    """
    unpacked = _Unpacked(packed)
    _Check(unpacked, most_bytes, may_have_templates=may_have_templates).run()
    while rest := unpacked.read(CHUNK):
        if any(rest):
            raise ImageRejected("the image contains data after its end")


class _Unpacked:
    """The unpacked content of a stream. It never unpacks more than the caller reads."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._input = packed.read(BLOCK)
        self._unpacker: Any = None
        self._begin()
        if self._unpacker is None and not (
            self._input.startswith(PLAIN_BEGINNINGS) and self._input[257:262] == b"ustar"
        ):
            raise ImageRejected(
                "the image is not a readable archive: it must be tar, alone or compressed by gzip, bzip2 or xz"
            )
        self._is_plain = self._unpacker is None

    def _begin(self) -> None:
        if self._input.startswith(b"\x1f\x8b"):
            self._unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        elif self._input.startswith(b"BZh"):
            self._unpacker = bz2.BZ2Decompressor()
        elif self._input.startswith(b"\xfd7zXZ\0"):
            self._unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ_BYTES)

    def read(self, size: int) -> bytes:
        """Return the next ``size`` unpacked bytes.

        Fewer bytes are returned only at the end of the stream.

        Raises:
            ImageRejected: the stream cannot be unpacked.
        """
        found = bytearray()
        while len(found) < size and (chunk := self._next(size - len(found))):
            found += chunk
        return bytes(found)

    def _next(self, size: int) -> bytes:
        """Return at most ``size`` unpacked bytes, or no bytes at the end of the stream."""
        if self._is_plain:
            chunk, self._input = self._input[:size], self._input[size:]
            return chunk or self._packed.read(size)
        try:
            return self._unpack(size)
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise ImageRejected("the image cannot be unpacked") from error

    def _unpack(self, size: int) -> bytes:
        while True:
            if self._unpacker.eof:
                self._input = self._unpacker.unused_data or self._packed.read(CHUNK)
                if not any(self._input):
                    return self._end()
                self._input += self._packed.read(BLOCK)
                before = self._unpacker
                self._begin()
                if self._unpacker is before:
                    raise ImageRejected("the image contains data after its end")
            is_fed = bool(self._input) or not getattr(self._unpacker, "needs_input", True)
            if not is_fed:
                self._input = self._packed.read(CHUNK)
            is_last = not is_fed and not self._input
            chunk: bytes = self._unpacker.decompress(self._input, size)
            self._input = getattr(self._unpacker, "unconsumed_tail", b"")
            if chunk:
                return chunk
            if is_last and not self._unpacker.eof:
                raise ImageRejected("the image ends too early")

    def _end(self) -> bytes:
        while rest := self._packed.read(CHUNK):
            if any(rest):
                raise ImageRejected("the image contains data after its end")
        return b""


class _Check:
    """Checks that an archive can be unpacked safely, while it reads the archive once."""

    def __init__(self, unpacked: _Unpacked, most_bytes: int, *, may_have_templates: bool) -> None:
        self._unpacked, self._most_bytes, self._may_have_templates = unpacked, most_bytes, may_have_templates
        self._links: set[tuple[bytes, ...]] = set()
        self._link_bytes = 0
        self._has_metadata = False

    def run(self) -> None:
        """Read the archive up to its end mark.

        Raises:
            ImageRejected: the archive is damaged, is too large, or contains something that is not allowed.
        """
        total = 0
        for count, member in enumerate(self._members(), start=1):
            total += member.size
            if count > MOST_MEMBERS:
                raise ImageRejected(f"the image has more than {MOST_MEMBERS} members")
            if total > self._most_bytes:
                raise ImageRejected(f"the image unpacks to more than {self._most_bytes} bytes (fetch.disk_gib)")
            content = self._check(member)
            self._skip(member.size + -member.size % BLOCK - content)
        if not self._has_metadata:
            raise ImageRejected(f"the image has no {_show((METADATA,))}")

    def _members(self) -> Iterator[_Member]:
        """Yield the members of the archive. The caller reads the content of each member before the next."""
        described: dict[bytes, bytes] = {}
        while True:
            block = self._exactly(BLOCK)
            if not any(block):
                if described:
                    raise ImageRejected("the image ends after the extended header of a member")
                return
            member = _read_header(block)
            if member.kind in (ATTRIBUTES, LONG_NAME, LONG_TARGET):
                if member.kind in described or (described and ATTRIBUTES in (member.kind, *described)):
                    raise ImageRejected("the image has two extended headers for one member")
                if member.size > MOST_DESCRIBED:
                    raise ImageRejected("the image has members whose names or attributes are too long")
                described[member.kind] = self._exactly(member.size + -member.size % BLOCK)[: member.size]
                continue
            _describe(member, described)
            described = {}
            yield member

    def _check(self, member: _Member) -> int:
        """Check a member, and return how many bytes of its content were read for the check."""
        parts = _parts(member.name)
        if member.kind in FILES:
            if member.name.endswith(b"/"):
                raise ImageRejected(f"the image's member {_show(parts)} is a file with the name of a directory")
        elif member.size:
            raise ImageRejected(f"the image's member {_show(parts)} has content but is not a file")
        self._check_place(member, parts)
        if any(parts[:length] in self._links for length in range(1, len(parts))):
            raise ImageRejected(f"the image's member {_show(parts)} is below a link")
        if member.kind == SYMBOLIC_LINK:
            self._links.add(parts)
            self._link_bytes += sum(len(part) + 50 for part in parts)
            if self._link_bytes > MOST_LINK_BYTES:
                raise ImageRejected("the image has too many links")
        if parts == (METADATA,):
            return self._check_metadata(member)
        if parts == (DISK,):
            head = self._exactly(min(HEAD_BYTES, member.size))
            check_image(QCOW2, head, member.size, most_disk_bytes=self._most_bytes)
            return len(head)
        return 0

    def _check_place(self, member: _Member, parts: tuple[bytes, ...]) -> None:
        """Check that a member of this type is allowed at its path."""
        is_file, is_directory = member.kind in FILES, member.kind == DIRECTORY
        if len(parts) <= 1:
            is_allowed = is_file if parts in ((METADATA,), (DISK,)) else is_directory
            is_allowed &= parts in ((), (METADATA,), (DISK,), (ROOT,), (TEMPLATES,))
        elif parts[0] == ROOT:
            is_allowed = is_file or is_directory or member.kind in (SYMBOLIC_LINK, FIFO)
            if member.kind in DEVICES:
                is_allowed = parts[:2] == DEVICES_AT
            elif member.kind == HARD_LINK:
                target = _parts(member.target)
                is_below_link = any(target[:length] in self._links for length in range(1, len(target)))
                is_allowed = len(target) > 1 and target[0] == ROOT and not is_below_link
        else:
            is_allowed = parts[0] == TEMPLATES and len(parts) == 2 and is_file
        if not is_allowed:
            raise ImageRejected(f"the image's member {_show(parts)} is not allowed in an image")
        if parts[:1] == (TEMPLATES,) and not self._may_have_templates:
            raise ImageRejected("the image has templates, which only images of root admins may have")

    def _check_metadata(self, member: _Member) -> int:
        if self._has_metadata or member.size > MOST_METADATA:
            raise ImageRejected(
                f"the image has two of {_show((METADATA,))}, or one of more than {MOST_METADATA} bytes"
            )
        self._has_metadata = True
        content = self._exactly(member.size)
        try:
            text = content.decode()
            _check_nesting(text)
            found = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ImageRejected(f"the image's {_show((METADATA,))} cannot be read") from error
        keys = (
            [getattr(key, "value", None) for key, _ in found.value] if isinstance(found, yaml.MappingNode) else []
        )
        allowed = METADATA_KEYS | {"templates"} if self._may_have_templates else METADATA_KEYS
        if not keys or len(set(map(str, keys))) < len(keys) or not all(key in allowed for key in map(str, keys)):
            raise ImageRejected(
                f"{_show((METADATA,))} must have only {', '.join(sorted(METADATA_KEYS))}, each once; images of "
                "root admins may have templates"
            )
        return len(content)

    def _exactly(self, size: int) -> bytes:
        found = self._unpacked.read(size)
        if len(found) < size:
            raise ImageRejected("the image ends too early")
        return found

    def _skip(self, size: int) -> None:
        while size:
            size -= len(self._exactly(min(size, CHUNK)))


def _check_nesting(text: str) -> None:
    """Raise ImageRejected for YAML with too deep nesting, because parsing time grows with the depth squared."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_NESTED:
            raise ImageRejected(f"the image's {_show((METADATA,))} nests deeper than {MOST_NESTED} levels")


def _read_header(block: bytes) -> _Member:
    """Return the member that a header block describes.

    Raises:
        ImageRejected: the header is damaged, or two readers could understand it differently.
    """
    magic = block[257:265]
    rest = block[345:] if magic == GNU_MAGIC else block[500:]
    if magic not in (POSIX_MAGIC, GNU_MAGIC) or any(rest):
        raise ImageRejected("the image has a member whose header is of another format")
    if sum(block[:148]) + sum(block[156:]) + 8 * ord(" ") != _number(block[148:156]):
        raise ImageRejected("the image has a member whose header is damaged")
    name, target = block[:100].split(b"\0")[0], block[157:257].split(b"\0")[0]
    prefix = block[345:500].split(b"\0")[0]
    if prefix:
        name = prefix + b"/" + name
    kind = block[156:157]
    known = (*FILES, HARD_LINK, SYMBOLIC_LINK, *DEVICES, DIRECTORY, FIFO, ATTRIBUTES, LONG_NAME, LONG_TARGET)
    if kind not in known:
        raise ImageRejected(f"the image has a member of the kind {kind!r}, such as sparse ones")
    return _Member(kind, name, target, _number(block[124:136]))


def _number(field: bytes) -> int:
    """Return the number in a field of a header, which is octal or, for large numbers, binary.

    Raises:
        ImageRejected: the field contains no number.
    """
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits or not set(digits) <= set(b"01234567"):
        raise ImageRejected("the image has a member whose header has no valid numbers")
    return int(digits, 8)


def _describe(member: _Member, described: dict[bytes, bytes]) -> None:
    """Apply the long names and attributes that precede a member in the archive to the member."""
    for kind, attribute in ((LONG_NAME, "name"), (LONG_TARGET, "target")):
        if kind in described:
            setattr(member, attribute, described[kind].removesuffix(b"\0"))
    records = _records(described.get(ATTRIBUTES, b""))
    member.name = records.get(b"path", member.name)
    member.target = records.get(b"linkpath", member.target)
    if b"size" in records:
        if not records[b"size"].isdigit() or len(records[b"size"]) > 18:
            raise ImageRejected("the image has a member whose size is not valid")
        member.size = int(records[b"size"])


def _records(content: bytes) -> dict[bytes, bytes]:
    """Return the attributes in an extended header, which is a sequence of length, key and value.

    Raises:
        ImageRejected: the header is damaged, or contains an attribute twice or one that is not allowed.
    """
    found: dict[bytes, bytes] = {}
    while content:
        digits = content.partition(b" ")[0]
        if not digits.isdigit() or len(digits) > 7:
            raise ImageRejected("the image has a member whose attributes are not valid")
        record, content = content[len(digits) + 1 : int(digits)], content[int(digits) :]
        key, is_assigned, value = record.removesuffix(b"\n").partition(b"=")
        is_wrong = not is_assigned or not record.endswith(b"\n") or key in found
        if is_wrong or key.startswith(b"GNU.") or key == b"hdrcharset":
            raise ImageRejected(
                f"the image has a member with the attribute {key[:40]!r}, given twice or not allowed"
            )
        found[key] = value
    return found


def _parts(name: bytes) -> tuple[bytes, ...]:
    """Return the components of a member's path.

    Raises:
        ImageRejected: the path is empty or leads out of the archive.
    """
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if not name or name.startswith(b"/") or b"\0" in name or b".." in parts:
        raise ImageRejected(f"the image has a member called {name[:80].decode(errors='backslashreplace')!r}")
    return parts


def _show(parts: tuple[bytes, ...]) -> str:
    return b"/".join(parts)[:80].decode(errors="backslashreplace") or "."
