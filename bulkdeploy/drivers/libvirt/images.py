"""Images of templates: fetched by url, checked, and put into a pool once, chunk by chunk.

The process that is asked first does it; others wait and see how far it is. An image travels from its url through
this process to the host, so hosts need no way out and no tools.
"""

import hashlib
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.storage import CHUNK, FORMATS, LibvirtPool, copy_name
from bulkdeploy.drivers.records import CopyState, TemplateCopies, TemplateImage

log = structlog.get_logger(__name__)

STEP = "template"
CHECKSUM = re.compile(r"\{(?P<algorithm>[\w-]+)\}(?P<digest>[0-9a-fA-F]+)")
LENGTHS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Algorithm of a checksum that names none, by its digits."""

LOOKS_S = 0.5
REPORTS_S = 2.0


def ensure_copy(call: HostCall, pool: LibvirtPool, image: TemplateImage, copies: TemplateCopies) -> None:
    """Let the pool have the image; wait where another caller puts it there.

    Raises:
        DriverError: the image can not be fetched or is not what its checksum says; or time is up.
    """
    while True:
        copy = copies.begin(image.uuid, pool.pool.uuid)
        if copy.state is CopyState.READY:
            return
        if copy.state is CopyState.TO_MAKE:
            _make(call, pool, image, copies, copy.attempt)
            return
        if call.deadline.left_s() < LOOKS_S:
            reason = f"template {image.name} is being put into pool {pool.pool.name} ({copy.percent} % are there)"
            raise DriverError(STEP, call.host.name, reason, transient=True)
        time.sleep(LOOKS_S)


def _make(call: HostCall, pool: LibvirtPool, image: TemplateImage, copies: TemplateCopies, attempt: int) -> None:
    key = (image.uuid, pool.pool.uuid, attempt)
    made = False
    try:
        for earlier in range(1, attempt):
            pool.remove(copy_name(image.uuid, earlier))
        with _opened(call, image) as (stream, size_bytes):
            chunks = _checked(call, image, stream, size_bytes, lambda percent: copies.report(*key, percent))
            pool.put(copy_name(image.uuid, attempt), chunks, size_bytes)
        made = True
        log.info("template_in_pool", template=str(image.uuid), pool=str(pool.pool.uuid), host=call.host.name)
    finally:
        if not copies.end(*key, made=made) and made:
            raise DriverError(
                STEP, call.host.name, f"template {image.name}: another attempt took over", transient=True
            )


@contextmanager
def _opened(call: HostCall, image: TemplateImage) -> Iterator[tuple[Any, int]]:
    """The image as a stream, and its size in bytes."""
    if image.url is None:
        raise DriverError(STEP, call.host.name, f"template {image.name} has no url", transient=False)
    if image.image_format.upper() not in FORMATS:
        reason = f"template {image.name} is of format {image.image_format}; QCOW2 and RAW work"
        raise DriverError(STEP, call.host.name, reason, transient=False)
    parts = urlsplit(image.url)
    try:
        if parts.scheme == "file":
            with Path(parts.path).open("rb") as stream:
                yield stream, Path(parts.path).stat().st_size
            return
        with urllib.request.urlopen(image.url, timeout=30) as answer:  # noqa: S310 - schemes were checked
            size = answer.headers.get("Content-Length")
            if size is None:
                raise DriverError(STEP, call.host.name, f"{image.url} does not say how long it is", transient=False)
            yield answer, int(size)
    except OSError as error:
        reason = f"template {image.name} can not be fetched from {image.url}: {error}"
        raise DriverError(STEP, call.host.name, reason, transient=True) from error


def _checked(call: HostCall, image: TemplateImage, stream: Any, size_bytes: int, report: Any) -> Iterator[bytes]:
    """The image's chunks; at their end the checksum must be right."""
    algorithm, wanted = read_checksum(image.checksum)
    digest = hashlib.new(algorithm, usedforsecurity=False)
    sent, reported = 0, time.monotonic()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
        sent += len(chunk)
        yield chunk
        if time.monotonic() - reported >= REPORTS_S:
            reported = time.monotonic()
            if not report(100 * sent // max(1, size_bytes)):
                raise DriverError(STEP, call.host.name, f"template {image.name}: overtaken", transient=True)
    if wanted is not None and digest.hexdigest() != wanted.lower():
        reason = f"template {image.name} has the {algorithm} sum {digest.hexdigest()}, not {wanted}"
        raise DriverError(STEP, call.host.name, reason, transient=False)


def read_checksum(text: str | None) -> tuple[str, str | None]:
    """Algorithm and digest of ``{SHA-256}abc...``, or of bare digits; None: none to compare with."""
    if not text:
        return "sha256", None
    found = CHECKSUM.fullmatch(text)
    if found is None:
        return LENGTHS.get(len(text), "sha256"), text
    return found["algorithm"].lower().replace("-", ""), found["digest"]
