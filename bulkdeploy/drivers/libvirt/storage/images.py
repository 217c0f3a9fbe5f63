"""Images of templates, which are fetched by URL, checked, and copied once into a pool in chunks.

The first process that needs the image copies it; others wait and read its progress. The image is streamed from its
url through this process to the host, so hosts need neither Internet access nor programs.
"""

import time
from contextlib import suppress
from functools import partial

import structlog

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.images.images import STEP, opened_image
from bulkdeploy.drivers.libvirt.ceph import CephError
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.libvirt.storage.pools import StoragePool
from bulkdeploy.drivers.libvirt.storage.storage import FORMATS, copy_name
from bulkdeploy.drivers.records import CopyState, Records, TemplateCopy, TemplateImage

log = structlog.get_logger(__name__)

LOOKS_S = 0.5


def ensure_copy(call: HostCall, pool: StoragePool, image: TemplateImage, records: Records) -> None:
    """Copy an image into a pool unless the pool has the image.

    If another caller is copying the image, wait for that copy.

    Raises:
        DriverError: the image cannot be fetched, is rejected, or does not match its checksum, or the time has run
            out.
    """
    while True:
        copy = records.copies.begin(image.uuid, pool.pool.uuid, image.checksum)
        if copy.state is CopyState.READY:
            return
        if copy.state is CopyState.TO_MAKE:
            _make(call, pool, image, records, copy)
            return
        if call.deadline.left_s() < LOOKS_S:
            reason = f"template {image.name} is being copied into pool {pool.pool.name} ({copy.percent} %)"
            raise DriverError(STEP, call.host.name, reason, transient=True)
        time.sleep(LOOKS_S)


def _make(call: HostCall, pool: StoragePool, image: TemplateImage, records: Records, copy: TemplateCopy) -> None:
    """Fetch an image and write it into the pool.

    A failed attempt leaves no file in the pool.

    Raises:
        DriverError: the image cannot be fetched or is rejected, or another attempt has taken over.
    """
    copies, key = records.copies, (image.uuid, pool.pool.uuid, copy.attempt)
    name, made = copy_name(image.uuid, copy.attempt), False
    try:
        for earlier in copy.abandoned:
            pool.remove(copy_name(image.uuid, earlier))
        with opened_image(image, call.host.name, FORMATS, records.fetcher) as opened:
            refusal = copies.admit(image.uuid, pool.pool.uuid, opened.file_bytes, opened.disk_bytes)
            if refusal is not None:
                raise DriverError(STEP, call.host.name, f"template {image.name}: {refusal}", transient=False)
            try:
                image_format = FORMATS[image.image_format.upper()]
                pool.put(name, image_format, opened.chunks(partial(copies.report, *key)), opened.file_bytes)
            except BaseException:
                with suppress(DriverError, CephError, libvirt.libvirtError):  # the next attempt deletes the rest
                    pool.remove(name)
                raise
        made = True
        log.info("template_in_pool", template=str(image.uuid), pool=str(pool.pool.uuid), host=call.host.name)
    finally:
        if not copies.end(*key, made=made) and made:
            raise DriverError(
                STEP, call.host.name, f"template {image.name}: another attempt took over", transient=True
            )
