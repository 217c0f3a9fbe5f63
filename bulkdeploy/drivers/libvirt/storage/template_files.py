"""Temporary files of templates on this machine, before they are imported into a Ceph pool.

The owner of a folder holds a lock on it, which ends with the process. The folder of a process that died therefore
has no lock, and is deleted before the next template.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from bulkdeploy.domain.units import MIB
from bulkdeploy.drivers.libvirt.ceph import CephError
from bulkdeploy.processes.run_program import ProgramKilled, ProgramNotRun, run_program

PREFIX = "bulkdeploy-template-"

QCOW2_SIZE_AT = 24
"""Offset of the size of the disk in a qcow2 image, 8 bytes."""

SPARE_BYTES = 64 * MIB
"""The number of bytes that images must leave free in the directory for temporary files."""

_converting = Lock()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder for the files of one template.

    The folder is deleted at the end. Folders of processes that died are deleted first.

    Raises:
        CephError: the file system failed, for example because it is full. A retry may help.
    """
    try:
        _remove_abandoned_folders()
        with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, _opened(folder) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(folder)
    except OSError as error:
        raise CephError(f"temporary files in {tempfile.gettempdir()} of this worker: {error}") from error


def require_free_bytes(file: Path, needed_bytes: int) -> None:
    """Check that the file system of a temporary file has enough free space.

    Raises:
        CephError: less than ``needed_bytes`` and SPARE_BYTES together are free.
    """
    free = shutil.disk_usage(file.parent).free
    if free < needed_bytes + SPARE_BYTES:
        raise CephError(
            f"{file.parent.parent} of this worker has {free} bytes free, of {needed_bytes} that are needed"
        )


def convert_to_raw(file: Path, image_format: str, left_s: Callable[[], float]) -> Path:
    """Convert an image to the raw format, delete the original, and return the path of the raw image.

    A process converts one image at a time, so that free disk space is not counted twice.

    Raises:
        CephError: there is too little space, the conversion failed, or ``left_s`` seconds were not enough.
    """
    if not _converting.acquire(timeout=left_s()):
        raise CephError("qemu-img convert did not start in time, because this worker was converting other images")
    try:
        with file.open("rb") as head:
            head.seek(QCOW2_SIZE_AT)
            require_free_bytes(file, int.from_bytes(head.read(8), "big"))
        raw = file.with_suffix(".raw")
        command = ["qemu-img", "convert", "-f", image_format, "-O", "raw", str(file), str(raw)]
        try:
            end = run_program(command, timeout_s=left_s())
        except ProgramNotRun as error:
            raise CephError(
                f"{error}: install qemu-utils on every machine with workers", transient=False
            ) from error
        except ProgramKilled as error:
            raise CephError(f"qemu-img convert: {error}") from error
        if end.code:
            raise CephError(f"qemu-img convert: {end.complained.strip() or end.how}")
        file.unlink()
    finally:
        _converting.release()
    return raw


def _remove_abandoned_folders() -> None:
    """Delete the folders of processes that died. Folders of other users cannot be opened and are kept."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), _opened(folder) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _opened(folder: Path | str) -> Iterator[int]:
    """Yield a descriptor of a folder, for locks. Programs that this process starts do not inherit it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
