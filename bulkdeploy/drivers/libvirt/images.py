"""Images of templates: fetched by url, checked, and put into a pool once, chunk by chunk.

The process that is asked first does it; others wait and see how far it is. An image travels from its url through
this process to the host, so hosts need no way out and no tools.
"""

import time
from functools import partial

import structlog

from bulkdeploy.drivers.driver import DriverError
from bulkdeploy.drivers.images import STEP, checked_chunks, opened_image
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.storage import FORMATS, LibvirtPool, copy_name
from bulkdeploy.drivers.records import CopyState, TemplateCopies, TemplateImage

log = structlog.get_logger(__name__)

LOOKS_S = 0.5


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
        with opened_image(image, call.host.name, FORMATS) as (stream, size_bytes):
            report = partial(copies.report, *key)
            chunks = checked_chunks(image, call.host.name, stream, size_bytes, report)
            pool.put(copy_name(image.uuid, attempt), chunks, size_bytes)
        made = True
        log.info("template_in_pool", template=str(image.uuid), pool=str(pool.pool.uuid), host=call.host.name)
    finally:
        if not copies.end(*key, made=made) and made:
            raise DriverError(
                STEP, call.host.name, f"template {image.name}: another attempt took over", transient=True
            )
