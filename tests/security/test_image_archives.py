"""An archive for Incus has its metadata and a root file system, and nothing that the daemon or ``tar`` follows."""

import bz2
import gzip
import io
import lzma
import os
import random
import shutil
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from bulkdeploy.drivers.images.image_archives import check_archive
from bulkdeploy.drivers.images.image_headers import ImageRejected
from tests.security.qcow2 import Qcow2

MOST = 64 << 20
METADATA = b"architecture: x86_64\ncreation_date: 1700000000\nproperties: {os: small}\n"
BLOCK = b"\0" * 512
END = BLOCK * 2


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "", **pax: str) -> bytes:
    """One member as bytes: its header, descriptions before it, and its content."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size, made.mode = kind, target, len(content), 0o755
    made.pax_headers = {key.replace("__", "."): value for key, value in pax.items()}
    return made.tobuf(tarfile.PAX_FORMAT) + content + b"\0" * (-len(content) % 512)


def directory(name: str) -> bytes:
    """A directory."""
    return member(name, kind=tarfile.DIRTYPE)


def link(name: str, target: str) -> bytes:
    """A symbolic link."""
    return member(name, kind=tarfile.SYMTYPE, target=target)


def hard_link(name: str, target: str) -> bytes:
    """A second name of a file."""
    return member(name, kind=tarfile.LNKTYPE, target=target)


def with_dictionary(packed: bytes, size: int) -> bytes:
    """An xz stream that says that it needs a dictionary of this size, which is encoded in a byte."""
    length = (packed[12] + 1) * 4
    header = packed[12:16] + bytes([size]) + packed[17 : 12 + length - 4]
    return packed[:12] + header + struct.pack("<I", zlib.crc32(header)) + packed[12 + length :]


GOOD = (
    member("metadata.yaml", METADATA)
    + directory("rootfs")
    + directory("rootfs/etc")
    + member("rootfs/etc/hostname", b"guest\n")
    + link("rootfs/bin", "usr/bin")
    + hard_link("rootfs/etc/name", "rootfs/etc/hostname")
    + member("rootfs/dev/null", kind=tarfile.CHRTYPE)
    + member("rootfs/" + "deep/" * 60 + "file", b"x" * 1000)
)
DISK = Qcow2().write()
TEMPLATES = b"templates: {/etc/hostname: {when: [create], template: hostname.tpl}}\n"

SOUND = {
    "plain": GOOD + END,
    "more blocks at the end": GOOD + END + BLOCK * 18,
    "gzip": gzip.compress(GOOD + END),
    "gzip in parts": gzip.compress(GOOD) + gzip.compress(END),
    "bzip2": bz2.compress(GOOD + END),
    "bzip2 in parts": bz2.compress(GOOD[:5000]) + bz2.compress(GOOD[5000:] + END),
    "xz": lzma.compress(GOOD + END, preset=9),
    "names that begin with a point": directory("./")
    + member("./metadata.yaml", METADATA)
    + directory("./rootfs/")
    + END,
    "disk of a virtual machine": member("metadata.yaml", METADATA) + member("rootfs.img", DISK) + END,
}
WRONG = {
    "templates in the metadata": member("metadata.yaml", METADATA + TEMPLATES) + END,
    "templates, quoted": member("metadata.yaml", METADATA + b'"\\x74emplates": {a: {template: b}}\n') + END,
    "templates by a merged key": member("metadata.yaml", METADATA + b"<<: {" + TEMPLATES.strip() + b"}\n") + END,
    "a second document": member("metadata.yaml", METADATA + b"---\n" + TEMPLATES) + END,
    "two metadata": GOOD + member("metadata.yaml", METADATA) + END,
    "metadata that fills memory": member("metadata.yaml", METADATA + b"#" * (1 << 20)) + END,
    "metadata that nests": member("metadata.yaml", b"properties: " + b"[" * 15000) + END,
    "metadata of no text": member("metadata.yaml", b"\xff\xfe") + END,
    "metadata by a link": link("metadata.yaml", "/etc/passwd") + END,
    "a file of templates": GOOD + directory("templates") + member("templates/x.tpl", b"x") + END,
    "templates as a link": GOOD + link("templates", "/") + END,
    "root as a link": link("rootfs", "/") + END,
    "root as a link, later": GOOD + link("rootfs", "/") + END,
    "root as a link, spelled otherwise": GOOD + link("./rootfs//", "/") + END,
    "output of programs as a link": GOOD + link("exec-output", "/etc/cron.d") + END,
    "something else beside it": GOOD + member("backup.yaml", b"x") + END,
    "an absolute name": GOOD + member("/etc/cron.d/x", b"x") + END,
    "a name that leads out": GOOD + member("rootfs/../../x", b"x") + END,
    "a name that leads out, described": GOOD + member("rootfs/" + "x/../" * 40 + "../x", b"x") + END,
    "a member below a link": GOOD + link("rootfs/out", "/etc") + member("rootfs/out/x", b"x") + END,
    "a second name of a file outside": GOOD + hard_link("rootfs/x", "/etc/shadow") + END,
    "a second name of the metadata": GOOD + hard_link("rootfs/x", "metadata.yaml") + END,
    "a second name below a link": GOOD
    + link("rootfs/out", "/etc") + hard_link("rootfs/x", "rootfs/out/shadow") + END,
    "the metadata as a second name": hard_link("metadata.yaml", "rootfs/x") + END,
    "a device": GOOD + member("rootfs/sda", kind=tarfile.BLKTYPE) + END,
    "a device as the root": member("rootfs", kind=tarfile.BLKTYPE) + END,
    "a sparse member": GOOD + member("rootfs/x", b"0\n0\n" * 128, kind=tarfile.GNUTYPE_SPARSE) + END,
    "a sparse member of another kind": GOOD
    + member("rootfs/x", b"9999999999\n" + b"0\n" * 5000, GNU__sparse__major="1", GNU__sparse__minor="0") + END,
    "another name for sparse members": GOOD + member("rootfs/x", b"x", GNU__sparse__name="metadata.yaml") + END,
    "attributes of all members": tarfile.TarInfo.create_pax_global_header({"path": "exec-output"}) + GOOD + END,
    "a kind that nobody knows": GOOD + member("rootfs/x", b"x", kind=b"V") + END,
    "a directory with a content": GOOD + member("rootfs/x", b"x" * 512, kind=tarfile.DIRTYPE) + END,
    "members behind one empty block": GOOD + BLOCK + link("templates", "/") + END,
    "members behind the end": GOOD + END + link("templates", "/") + END,
    "members behind a part of gzip": gzip.compress(GOOD + END) + gzip.compress(link("templates", "/") + END),
    "other bytes behind gzip": gzip.compress(GOOD + END) + b"more",
    "no end": GOOD,
    "cut off": GOOD[:-700],
    "cut off in gzip": gzip.compress(GOOD + END)[:-20],
    "a description without a member": GOOD + member("rootfs/" + "x" * 200, b"")[:1024] + END,
    "a damaged header": GOOD + member("rootfs/x", b"x").replace(b"rootfs/x", b"rootfs/y") + END,
    "a disk in another format": member("rootfs.img", b"\0" * 4096) + END,
    "a disk with a backing file": member("rootfs.img", Qcow2(backing_at=512, backing=b"/etc/shadow").write()) + END,
    "two disks, the second with a backing file": member("rootfs.img", DISK)
    + member("rootfs.img", Qcow2(backing_at=512, backing=b"/etc/shadow").write()) + END,
    "an empty file": b"",
    "empty blocks": END,
    "text": b"hello " * 1000,
    "a file system as SquashFS": b"hsqs" + GOOD[4:] + END,
    "the name of SquashFS": member("hsqs", b"") + GOOD + END,
    "a header before POSIX": GOOD.replace(b"ustar\x0000", b"\0" * 8) + END,
    "old LZMA": lzma.compress(GOOD + END, format=lzma.FORMAT_ALONE),
    "xz with a dictionary of 4 GiB": with_dictionary(lzma.compress(GOOD + END), 40),
}  # fmt: skip


def check(archive: bytes, *, may_have_templates: bool = False) -> None:
    """Check an archive in memory."""
    check_archive(io.BytesIO(archive), MOST, may_have_templates=may_have_templates)


@pytest.mark.parametrize("archive", SOUND.values(), ids=SOUND)
def test_an_archive_of_metadata_and_a_root_file_system_is_accepted(archive: bytes) -> None:
    """However it is compressed."""
    check(archive)


@pytest.mark.parametrize("archive", WRONG.values(), ids=WRONG)
def test_an_archive_with_anything_else_is_rejected(archive: bytes) -> None:
    """Compressed or not; and with one error, which is for its owner to read."""
    for packed in (archive, gzip.compress(archive), lzma.compress(archive)):
        with pytest.raises(ImageRejected):
            check(packed)


def test_metadata_that_nests_is_rejected_before_it_is_read_whole() -> None:
    """Reading YAML takes a time that grows with the square of its depth: 16 KiB of it would take 9 s."""
    with pytest.raises(ImageRejected, match="nests deeper than 16 levels"):
        check(WRONG["metadata that nests"])


def test_images_of_root_admins_may_have_templates() -> None:
    """As the images that distributions publish have them; but as files in one directory."""
    made = member("metadata.yaml", METADATA + TEMPLATES) + directory("rootfs") + directory("templates")
    check(made + member("templates/hostname.tpl", b"{{ container.name }}") + END, may_have_templates=True)
    for wrong in (link("templates/x.tpl", "/etc/shadow"), link("templates", "/"), directory("templates/x")):
        with pytest.raises(ImageRejected):
            check(made + wrong + END, may_have_templates=True)


class Zeros(io.RawIOBase):
    """A stream that begins with bytes and goes on with a compressed part again and again; counts what was read."""

    def __init__(self, begin: bytes, part: bytes, times: int) -> None:
        self._waiting, self._part, self._times, self.taken = begin, part, times, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read."""
        while len(self._waiting) < len(buffer) and self._times:
            self._waiting, self._times = self._waiting + self._part, self._times - 1
        count = min(len(buffer), len(self._waiting))
        buffer[:count], self._waiting = self._waiting[:count], self._waiting[count:]
        self.taken += count
        return count


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("described", [False, True], ids=["a file", "a description"])
def test_an_archive_that_unpacks_to_more_than_allowed_is_rejected_early(
    pack: Callable[[bytes], bytes], described: bool
) -> None:
    """After little was read, and with little memory: a file of 4 GiB, and a description of as many bytes."""
    made = tarfile.TarInfo("rootfs/x")
    made.size, made.type = 4 << 30, tarfile.XHDTYPE if described else tarfile.REGTYPE
    stream = Zeros(pack(GOOD + made.tobuf(tarfile.GNU_FORMAT)), pack(b"\0" * (16 << 20)), 256)
    with pytest.raises(ImageRejected, match=r"unpacks to more|too long"):
        check_archive(io.BufferedReader(stream), MOST, may_have_templates=False)
    assert stream.taken < 1 << 20


def test_one_chunk_unpacks_to_no_more_than_is_read() -> None:
    """A few KiB of bzip2 that are 180 MB: unpacked piece by piece."""
    import tracemalloc

    packed = bz2.compress(member("metadata.yaml", METADATA) + member("rootfs/x", b"\0" * (45 << 20)) + END)
    assert len(packed) < 4096
    tracemalloc.start()
    try:
        check(packed)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def mutate(dice: random.Random) -> bytes:
    """An archive with members of others in between, and some bytes of headers changed, with sums that are right."""
    parts = [
        GOOD,
        *(content for content in WRONG.values() if content[257:262] == b"ustar" and len(content) < 20_000),
    ]
    made = bytearray(dice.choice(parts) + (dice.choice(parts) if dice.randrange(2) else b""))
    headers = [at for at in range(0, len(made), 512) if made[at + 257 : at + 262] == b"ustar"]
    for _ in range(dice.randint(0, 3)):
        at = dice.choice(headers)
        where = dice.choice((range(100), range(124, 136), range(156, 157), range(157, 257), range(345, 500)))
        made[at + dice.choice(where)] = dice.choice(b"\0/.012345 LKxgSr\x80")
        made[at + 148 : at + 156] = b" " * 8
        made[at + 148 : at + 156] = b"%06o\0 " % sum(made[at : at + 512])
    return bytes(made) + END


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tar") is None, reason="tar is not installed")
def test_what_is_accepted_unpacks_to_what_was_seen(tmp_path: Path) -> None:
    """No other error is raised; GNU tar unpacks no link in place of a directory from those accepted."""
    dice, unpacked = random.Random(27), 0  # noqa: S311 - a repeatable sequence
    for number in range(1000):
        made = mutate(dice)
        try:
            check(made)
        except ImageRejected:
            continue
        if made in (GOOD + END, GOOD + GOOD + END) or unpacked >= 60:
            continue
        unpacked += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "inside").mkdir()
        command = [
            "tar",
            "-x",
            "-f",
            "-",
            "-C",
            str(folder / "inside"),
            "--no-same-owner",
            "--exclude=rootfs/dev/*",
        ]
        subprocess.run(command, input=made, capture_output=True, check=False)
        assert [one.name for one in folder.iterdir()] == ["inside"], number
        seen = {one.name: one for one in (folder / "inside").iterdir()}
        assert seen.keys() <= {"metadata.yaml", "rootfs", "rootfs.img"}, number
        assert not any(one.is_symlink() for one in seen.values()), number
        shutil.rmtree(folder)
    assert unpacked >= 10, "mutations must leave some archives sound, or nothing is tried"


def test_a_stream_that_breaks_is_rejected() -> None:
    """Damaged compressed data is an error of the image."""
    packed = bytearray(gzip.compress(os.urandom(3000)))
    packed[40] ^= 255
    with pytest.raises((ImageRejected, zlib.error)) as failed:
        check(bytes(packed))
    assert failed.type is ImageRejected
