"""Images of templates: opened by url, and checked while they are read, chunk by chunk."""

import hashlib
import re
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.records import TemplateImage

STEP = "template"
CHECKSUM = re.compile(r"\{(?P<algorithm>[\w-]+)\}(?P<digest>[0-9a-fA-F]+)")
LENGTHS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Algorithm of a checksum that names none, by its digits."""

CHUNK = 256 * 1024
REPORTS_S = 2.0


@contextmanager
def opened_image(image: TemplateImage, host: str, formats: Collection[str]) -> Iterator[tuple[Any, int]]:
    """The image as a stream, and its size in bytes; ``host`` is named in errors.

    Raises:
        DriverError: it has no url, is of another format than these, or can not be fetched.
    """
    if image.url is None:
        raise DriverError(STEP, host, f"template {image.name} has no url", transient=False)
    if image.image_format.upper() not in formats:
        reason = f"template {image.name} is of format {image.image_format}; {' and '.join(sorted(formats))} work"
        raise DriverError(STEP, host, reason, transient=False)
    parts = urlsplit(image.url)
    try:
        if parts.scheme == "file":
            with Path(parts.path).open("rb") as stream:
                yield stream, Path(parts.path).stat().st_size
            return
        with urllib.request.urlopen(image.url, timeout=30) as answer:  # noqa: S310 - schemes were checked
            size = answer.headers.get("Content-Length")
            if size is None:
                raise DriverError(STEP, host, f"{image.url} does not say how long it is", transient=False)
            yield answer, int(size)
    except OSError as error:
        reason = f"template {image.name} can not be fetched from {image.url}: {error}"
        raise DriverError(STEP, host, reason, transient=True) from error


def checked_chunks(
    image: TemplateImage, host: str, stream: Any, size_bytes: int, report: Callable[[int], bool] = lambda _: True
) -> Iterator[bytes]:
    """The image's chunks; ``report`` is called with percents now and then, and says whether to go on.

    Raises:
        DriverError: at the end, where the checksum is wrong; or ``report`` said no.
    """
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
                raise DriverError(STEP, host, f"template {image.name}: overtaken", transient=True)
    if wanted is not None and digest.hexdigest() != wanted.lower():
        reason = f"template {image.name} has the {algorithm} sum {digest.hexdigest()}, not {wanted}"
        raise DriverError(STEP, host, reason, transient=False)


def read_checksum(text: str | None) -> tuple[str, str | None]:
    """Algorithm and digest of ``{SHA-256}abc...``, or of bare digits; None: none to compare with."""
    if not text:
        return "sha256", None
    found = CHECKSUM.fullmatch(text)
    if found is None:
        return LENGTHS.get(len(text), "sha256"), text
    return found["algorithm"].lower().replace("-", ""), found["digest"]
