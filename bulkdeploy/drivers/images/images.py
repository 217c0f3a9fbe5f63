"""Images of templates and ISOs, which are fetched, checked and read in chunks.

The header is checked before a hypervisor receives any byte.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import IO

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.images.image_archives import check_archive
from bulkdeploy.drivers.images.image_headers import HEAD_BYTES, ImageRejected, check_image
from bulkdeploy.drivers.records import TemplateImage
from bulkdeploy.security.guarded_fetch import GIB, Fetcher, FetchFailed, FetchRejected

STEP = "template"
CHECKSUM = re.compile(r"\{(?P<algorithm>[\w-]+)\}(?P<digest>[0-9a-fA-F]+)")
LENGTHS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""The algorithm of a checksum that names none, by the number of its hexadecimal digits."""

ARCHIVE = "TAR"
CHUNK = 256 * 1024
REPORTS_S = 2.0


@dataclass(frozen=True, slots=True)
class OpenedImage:
    """An open image whose header was checked.

    ``file_bytes`` is the size of the file, ``disk_bytes`` the size of its disk. An archive's disk size is unknown,
    so ``disk_bytes`` equals ``file_bytes``. ``head`` was read already, ``stream`` contains the rest.
    """

    image: TemplateImage
    host: str
    file_bytes: int
    disk_bytes: int
    most_disk_bytes: int
    head: bytes
    stream: IO[bytes]

    def chunks(self, report: Callable[[int], bool] = lambda _: True) -> Iterator[bytes]:
        """Yield the bytes of the image, and check them.

        Every REPORTS_S seconds ``report`` is called with the percentage that was read. It returns whether to
        continue.

        Raises:
            DriverError: the image does not match its checksum or its format, it cannot be read, or ``report``
                returned False. Some of these errors are found only at the end of the image.
        """
        with _failures(self.image, self.host):
            if self.image.image_format.upper() == ARCHIVE:
                check = partial(
                    check_archive,
                    most_bytes=self.most_disk_bytes,
                    may_have_templates=self.image.is_of_root_admin,
                )
                yield from _checked_archive(self._chunks(report), check)
            else:
                yield from self._chunks(report)

    def _chunks(self, report: Callable[[int], bool]) -> Iterator[bytes]:
        algorithm, wanted = read_checksum(self.image.checksum)
        if algorithm not in LENGTHS.values():  # other algorithms, such as shake_128, have digests of any length
            raise ImageRejected(f"the algorithm {algorithm} of its checksum is not known")
        digest = hashlib.new(algorithm, usedforsecurity=False)
        sent, reported, chunk = 0, time.monotonic(), self.head
        while chunk:
            digest.update(chunk)
            sent += len(chunk)
            if sent > self.file_bytes:
                raise ImageRejected("the file grew while it was read")
            yield chunk
            if time.monotonic() - reported >= REPORTS_S:
                reported = time.monotonic()
                if not report(100 * sent // max(1, self.file_bytes)):
                    raise DriverError(STEP, self.host, f"template {self.image.name}: overtaken", transient=True)
            chunk = self.stream.read(CHUNK)
        if wanted is not None and digest.hexdigest() != wanted.lower():
            raise ImageRejected(f"the image's {algorithm} checksum is {digest.hexdigest()}, not {wanted}")


@contextmanager
def opened_image(
    image: TemplateImage, host: str, formats: Collection[str], fetcher: Fetcher
) -> Iterator[OpenedImage]:
    """Open an image and check its header.

    ``host`` is named in errors.

    Raises:
        DriverError: the image has no url, has a format that is not in ``formats``, cannot be fetched, or is
            rejected by the checks.
    """
    image_format = image.image_format.upper()
    if image.url is None:
        raise DriverError(STEP, host, f"template {image.name} has no url", transient=False)
    if image_format not in formats:
        reason = f"template {image.name} is of format {image.image_format}; {' and '.join(sorted(formats))} work"
        raise DriverError(STEP, host, reason, transient=False)
    most_disk_bytes = int(fetcher.rules.disk_gib * GIB)
    with _failures(image, host), fetcher.open(image.url) as (stream, file_bytes):
        head = _read_head(stream)
        disk_bytes = file_bytes
        if image_format != ARCHIVE:
            disk_bytes = check_image(image_format, head, file_bytes, most_disk_bytes=most_disk_bytes)
        yield OpenedImage(image, host, file_bytes, disk_bytes, most_disk_bytes, head, stream)


@contextmanager
def _failures(image: TemplateImage, host: str) -> Iterator[None]:
    """Convert the errors of a rejected image and of a failed fetch into a DriverError within the context."""
    try:
        yield
    except (ImageRejected, FetchRejected) as error:
        raise DriverError(STEP, host, f"template {image.name}: {error}", transient=False) from error
    except FetchFailed as error:
        raise DriverError(STEP, host, f"template {image.name}: {error}", transient=True) from error


def _read_head(stream: IO[bytes]) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES and (chunk := stream.read(HEAD_BYTES - len(head))):
        head += chunk
    return head


def _checked_archive(chunks: Iterator[bytes], check: Callable[[IO[bytes]], None]) -> Iterator[bytes]:
    """Yield the chunks of an archive unchanged while another thread checks the archive with ``check``.

    If the check finds a fault, the fault is raised after the last chunk.

    Raises:
        ImageRejected: ``check`` rejected the archive.
    """
    reading, writing = os.pipe()
    faults: list[Exception] = []

    def read() -> None:
        with open(reading, "rb") as packed:  # noqa: PTH123 - a descriptor
            try:
                check(packed)
            except Exception as error:  # noqa: BLE001 - raised again in the thread that sends
                faults.append(error)

    reader = Thread(target=read, name="archive-check", daemon=True)
    reader.start()
    try:
        with open(writing, "wb", buffering=0) as packed:  # noqa: PTH123 - a descriptor
            for chunk in chunks:
                try:
                    packed.write(chunk)
                except BrokenPipeError:
                    break
                yield chunk
    finally:
        reader.join()
    if faults:
        fault = faults[0]
        raise fault if isinstance(fault, ImageRejected) else ImageRejected("the image is not a readable archive")


def read_checksum(text: str | None) -> tuple[str, str | None]:
    """Return the algorithm and the digest of a checksum such as ``{SHA-256}abc...``.

    If the checksum names no algorithm, the algorithm follows from the number of its digits. Without a checksum, the
    result is ``sha256`` and None.
    """
    if not text:
        return "sha256", None
    found = CHECKSUM.fullmatch(text)
    if found is None:
        return LENGTHS.get(len(text), "sha256"), text
    return found["algorithm"].lower().replace("-", ""), found["digest"]
