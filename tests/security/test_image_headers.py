"""No image that refers to anything outside itself gets past its header, whatever else the header says."""

import io
import os
import random
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.images.image_headers import FILE_SYSTEM_AT, HEAD_BYTES, MAGICS, ImageRejected, check_image
from bulkdeploy.drivers.images.images import OpenedImage
from bulkdeploy.drivers.records import TemplateImage
from tests.security.qcow2 import (
    BACKING_FORMAT,
    BITMAPS,
    CLUSTER,
    DATA_FILE,
    ENCRYPTION,
    FEATURE_NAMES,
    Qcow2,
)

GIB = 1 << 30
MOST = 64 * GIB
GOOD = Qcow2()
DISC = b"\0" * FILE_SYSTEM_AT + b"CD001" + b"\0" * 4096

SOUND = {
    "version 3": GOOD,
    "version 2": Qcow2(version=2),
    "compressed by zstd": Qcow2(incompatible=1 << 3, compression=1),
    "extended tables": Qcow2(incompatible=1 << 4),
    "lazy counts": Qcow2(compatible=1),
    "names of features": Qcow2(extensions=((FEATURE_NAMES, b"x" * 48),)),
    "short header": Qcow2(header_length=104),
}
WRONG = {
    "backing file": (Qcow2(backing_at=512, backing=b"/etc/shadow"), "backing file"),
    "backing file of version 2": (Qcow2(version=2, backing_at=512, backing=b"/etc/shadow"), "backing file"),
    "backing file as JSON": (Qcow2(backing_at=512, backing=b'json:{"file.filename":"/etc/shadow"}'), "backing"),
    "backing file over the network": (Qcow2(backing_at=512, backing=b"nbd://127.0.0.1:10809"), "backing"),
    "backing file without a name": (Qcow2(backing_at=512), "backing"),
    "format of a backing file": (Qcow2(extensions=((BACKING_FORMAT, b"raw"),)), "format of a backing"),
    "external data file": (Qcow2(incompatible=1 << 2, extensions=((DATA_FILE, b"/dev/sda"),)), "external data"),
    "external data file by its name": (Qcow2(extensions=((DATA_FILE, b"/dev/sda"),)), "external data"),
    "external raw data": (Qcow2(automatic=1 << 1), "external data"),
    "encrypted by AES": (Qcow2(encryption=1), "encrypted"),
    "encrypted by LUKS": (Qcow2(encryption=2, extensions=((ENCRYPTION, b"\0" * 16),)), "encrypted"),
    "key in an extension": (Qcow2(extensions=((ENCRYPTION, b"\0" * 16),)), "encrypted"),
    "bitmaps": (Qcow2(automatic=1, extensions=((BITMAPS, b"\0" * 24),)), "bitmaps"),
    "unknown feature": (Qcow2(incompatible=1 << 5), "unknown incompatible features"),
    "last feature": (Qcow2(incompatible=1 << 63), "unknown incompatible features"),
    "not closed": (Qcow2(incompatible=1), "not closed"),
    "corrupt": (Qcow2(incompatible=2), "corrupt"),
    "unknown extension": (Qcow2(extensions=((0x12345678, b"x"),)), "unknown extension"),
    "extension beyond the cluster": (Qcow2(extensions=((FEATURE_NAMES, b"x" * CLUSTER),)), "not valid"),
    "unknown compression": (Qcow2(incompatible=1 << 3, compression=2), "compression"),
    "compression that is not announced": (Qcow2(compression=1), "compression"),
    "snapshots": (Qcow2(snapshots=1), "snapshots"),
    "version 1": (Qcow2(version=1), "version"),
    "version 4": (Qcow2(version=4), "version"),
    "tiny clusters": (Qcow2(cluster_bits=8), "cluster size"),
    "huge clusters": (Qcow2(cluster_bits=22), "cluster size"),
    "long header": (Qcow2(header_length=1 << 20), "not valid"),
    "no disk": (Qcow2(disk_bytes=0), "size of its disk"),
    "half a sector": (Qcow2(disk_bytes=1000), "size of its disk"),
    "negative disk": (Qcow2(disk_bytes=(1 << 64) - 512), "size of its disk"),
    "disk beyond its tables": (Qcow2(disk_bytes=8 * GIB), "are too small"),
    "disk above the limit": (Qcow2(disk_bytes=128 * GIB, l1_entries=256), "at most"),
    "table of clusters behind the end": (Qcow2(l1_at=3 * CLUSTER), "within the file"),
    "table of clusters in the header": (Qcow2(l1_at=0), "within the file"),
    "counts behind the end": (Qcow2(refcounts_at=1 << 40), "within the file"),
    "table that is too large": (Qcow2(l1_entries=(1 << 32) - 1), "too large"),
    "counts that are too large": (Qcow2(refcount_clusters=(1 << 32) - 1), "too large"),
    "file larger than its disk": (Qcow2(file_bytes=16 << 20), "more than its disk"),
    "file that is cut off": (Qcow2(file_bytes=CLUSTER), "within the file"),
    "another format": (Qcow2(magic=b"KDMV"), "not of that format"),
}


def check(image: Qcow2) -> int:
    """Check an image as its head and the size of its file."""
    return check_image(
        "QCOW2", image.head()[: min(HEAD_BYTES, image.file_bytes)], image.file_bytes, most_disk_bytes=MOST
    )


@pytest.mark.parametrize("image", SOUND.values(), ids=SOUND)
def test_an_image_without_references_is_accepted(image: Qcow2) -> None:
    """Its disk has the size that the header declares."""
    assert check(image) == image.disk_bytes


@pytest.mark.parametrize(("image", "reason"), WRONG.values(), ids=WRONG)
def test_an_image_with_a_reference_or_wrong_sizes_is_rejected(image: Qcow2, reason: str) -> None:
    """The error says what is wrong with it."""
    with pytest.raises(ImageRejected, match=reason):
        check(image)


@pytest.mark.parametrize(("at", "magic", "name"), MAGICS, ids=[f"{name}-{at}" for at, _, name in MAGICS])
@pytest.mark.parametrize("declared", ["RAW", "ISO"])
def test_raw_data_that_looks_like_an_image_is_rejected(declared: str, at: int, magic: bytes, name: str) -> None:
    """A layer that detects formats by itself would follow the references of what is inside."""
    content = DISC[:at] + magic + DISC[at + len(magic) :]
    assert check_image(declared, DISC, len(DISC), most_disk_bytes=MOST) == len(DISC)
    with pytest.raises(ImageRejected, match=name):
        check_image(declared, content, len(content), most_disk_bytes=MOST)


@pytest.mark.parametrize(
    "text",
    [
        b"version=1\n",
        b"version=2\r\n",
        b"# comment\nversion=1\n",
        b"   \n#a\n \r\n#b\nversion=1\n",
        b"\nversion=1\n",
    ],
)
def test_raw_data_that_describes_files_of_the_host_is_rejected(text: bytes) -> None:
    """The text form of a VMDK names files; QEMU detects it by its version, behind any comments."""
    content = (text + b'createType="monolithicFlat"\nRW 8 FLAT "/etc/shadow" 0\n').ljust(4096, b"\0")
    with pytest.raises(ImageRejected, match="VMDK"):
        check_image("RAW", content, len(content), most_disk_bytes=MOST)


def test_a_disc_has_a_file_system_of_discs() -> None:
    """Anything else that is registered as ISO is rejected."""
    with pytest.raises(ImageRejected, match="file system"):
        check_image("ISO", b"\0" * HEAD_BYTES, HEAD_BYTES, most_disk_bytes=MOST)


@pytest.mark.parametrize("declared", ["VMDK", "VHD", "VHDX", "OVA", "qcow2", ""])
def test_formats_without_a_parser_are_rejected(declared: str) -> None:
    """Nothing is let through because nobody looks at it."""
    with pytest.raises(ImageRejected, match="cannot be checked"):
        check_image(declared, DISC, len(DISC), most_disk_bytes=MOST)


def mutate(dice: random.Random) -> tuple[bytes, int]:
    """A head with some of its bits, bytes, fields, extensions or its length changed; and the size of its file."""
    image = dice.choice([*SOUND.values(), *(image for image, _ in WRONG.values())])
    head, file_bytes = bytearray(image.head()[:1024]), image.file_bytes
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(0, 160)
        match dice.randrange(5):
            case 0:
                head[at] ^= 1 << dice.randrange(8)
            case 1:
                head[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                field = dice.choice((8, 24, 40, 48, 72, 80, 88))
                head[field : field + 8] = struct.pack(">Q", dice.choice((0, 1, dice.getrandbits(64), 1 << 63)))
            case 3:
                kind = dice.choice((BACKING_FORMAT, DATA_FILE, ENCRYPTION, BITMAPS, FEATURE_NAMES, 0))
                head[at : at + 8] = struct.pack(">II", kind, dice.choice((0, 3, 8, dice.getrandbits(32))))
            case _:
                file_bytes = dice.choice((0, 1, 104, 1 << 16, file_bytes, dice.getrandbits(40)))
    whole = bytes(head).ljust(CLUSTER, b"\0")
    return whole[: dice.choice((len(whole), len(whole), dice.randrange(0, 200)))], file_bytes


def refers(head: bytes) -> bool:
    """Whether QEMU would look outside the file, read independently of the parser under test."""
    version, backing_at = struct.unpack_from(">IQ", head, 4)
    encryption = struct.unpack_from(">I", head, 32)[0]
    incompatible, automatic = (struct.unpack_from(">Q", head, at)[0] for at in (72, 88)) if version >= 3 else (0, 0)
    at, seen = struct.unpack_from(">I", head, 100)[0] if version >= 3 else 72, set()
    while at + 8 <= len(head):
        kind, length = struct.unpack_from(">II", head, at)
        if not kind:
            break
        seen.add(kind)
        at += 8 + (length + 7) // 8 * 8
    external = incompatible & 0b111 or incompatible >> 5 or automatic & 0b10
    return bool(backing_at or encryption or external or seen & {BACKING_FORMAT, DATA_FILE, ENCRYPTION})


def fuzz(count: int) -> None:
    """Check so many mutated heads: each is accepted without references, or rejected with a reason."""
    dice, accepted = random.Random(27), 0  # noqa: S311 - a repeatable sequence
    for number in range(count):
        head, file_bytes = mutate(dice)
        try:
            disk = check_image("QCOW2", head, file_bytes, most_disk_bytes=MOST)
        except ImageRejected:
            continue
        accepted += 1
        assert not refers(head), (number, head[:200].hex())
        assert 0 < disk <= MOST
    assert accepted > count // 1000, "mutations must leave some images sound, or nothing is tried"


def test_no_mutated_header_gets_a_reference_through() -> None:
    """Ten thousand headers: no other exception, and no acceptance of a reference."""
    fuzz(10_000)


@pytest.mark.long
def test_no_mutated_header_of_a_hundred_thousand_gets_a_reference_through() -> None:
    """A hundred thousand headers: no other exception, and no acceptance of a reference."""
    fuzz(100_000)


NEEDS_QEMU = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")


def created(folder: Path, *arguments: str) -> Path:
    """An image of two MiB as ``qemu-img create`` makes it."""
    path = folder / "image"
    made = [*arguments, str(path)] if "-b" in arguments else [*arguments, str(path), "2M"]
    subprocess.run(["qemu-img", "create", "-q", *made], check=True, capture_output=True)
    return path


def checked(path: Path) -> int:
    """Check a file."""
    with path.open("rb") as stream:
        return check_image("QCOW2", stream.read(HEAD_BYTES), path.stat().st_size, most_disk_bytes=MOST)


@NEEDS_QEMU
@pytest.mark.parametrize(
    "options",
    ["compat=0.10", "compat=1.1", "cluster_size=512", "cluster_size=2M", "extended_l2=on", "compression_type=zstd"],
)
def test_images_of_the_tool_are_accepted(tmp_path: Path, options: str) -> None:
    """Of each version, with each size of clusters, and after they were filled and compressed."""
    made = created(tmp_path, "-f", "qcow2", "-o", options)
    assert checked(made) == 2 << 20
    full, packed = tmp_path / "full", tmp_path / "packed"
    (tmp_path / "raw").write_bytes(os.urandom(1 << 20) * 2)
    convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", options, str(tmp_path / "raw")]
    subprocess.run([*convert, str(full)], check=True)
    assert checked(full) == 2 << 20
    if "extended" not in options:
        subprocess.run([*convert, "-c", str(packed)], check=True)
        assert checked(packed) == 2 << 20


@pytest.mark.long
@NEEDS_QEMU
@pytest.mark.parametrize(
    "arguments",
    [
        ("-f", "qcow2", "-b", "{secret}", "-F", "raw"),
        ("-f", "qcow2", "-o", "compat=0.10", "-b", "{secret}", "-F", "raw"),
        ("-f", "qcow2", "-u", "-b", "json:{{\"file.filename\":\"{secret}\"}}", "-F", "raw", "-o", "size=2M"),
        ("-f", "qcow2", "-o", "data_file={secret}.data"),
        ("-f", "qcow2", "-o", "data_file={secret}.data,data_file_raw=on"),
        ("--object", "secret,id=key,data=abc", "-f", "qcow2", "-o", "encrypt.format=luks,encrypt.key-secret=key"),
        ("-f", "qed"),
        ("-f", "vmdk"),
        ("-f", "vdi"),
        ("-f", "vpc"),
        ("-f", "vhdx"),
    ],
)  # fmt: skip
def test_images_of_the_tool_with_references_are_rejected(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """As an attacker makes them with one command; and images of other formats."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"top secret".ljust(2 << 20, b"\0"))
    made = created(tmp_path, *(one.format(secret=secret) for one in arguments))
    with pytest.raises(ImageRejected):
        checked(made)
    with made.open("rb") as stream, pytest.raises(ImageRejected):
        check_image("RAW", stream.read(HEAD_BYTES), made.stat().st_size, most_disk_bytes=MOST)


def test_the_builder_makes_what_the_tool_reads(tmp_path: Path) -> None:
    """Otherwise the cases above would be rejected for the builder's mistakes."""
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-img is not installed")
    made = tmp_path / "image"
    made.write_bytes(replace(GOOD).write())
    printed = subprocess.run(
        ["qemu-img", "info", "-f", "qcow2", str(made)], check=True, capture_output=True, text=True
    )
    assert "virtual size: 1 MiB" in printed.stdout


@pytest.mark.parametrize("algorithm", ["SHAKE-128", "shake_256", "CRC32", "MD5-SHA1", "BLAKE2B"])
def test_a_checksum_of_an_algorithm_without_one_digest_is_rejected(algorithm: str) -> None:
    """As an error of the image, before a byte of it is sent on."""
    image = TemplateImage(UUID(int=1), "mine", "http://images.example/a", "RAW", f"{{{algorithm}}}aa", 1)
    opened = OpenedImage(image, "host", 4, 4, MOST, b"data", io.BytesIO())
    with pytest.raises(DriverError, match="mine"):
        next(opened.chunks())
