"""Reads the files that the setting ``host_files`` lists for all hosts."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from bulkdeploy.drivers.abilities.host_files import LARGEST, HostFile
from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.wiring.settings import Settings

PERMISSIONS = 0o777


def read_host_files(settings: Settings) -> Sequence[HostFile]:
    """Return the files with their contents, ordered by their paths on hosts.

    Raises:
        DriverSettingError: a path is not absolute, or a file cannot be read, is empty or is too large.
    """
    return [_read(path, source) for path, source in sorted(settings.host_files.items())]


def _read(path: str, source: Path) -> HostFile:
    at = PurePosixPath(path)
    if not at.is_absolute() or ".." in at.parts or str(at) != path or at.parent == at:
        raise DriverSettingError(f"host_files: {path!r} must be the absolute path of a file on the hosts")
    try:
        content, mode = source.read_bytes(), source.stat().st_mode & PERMISSIONS
    except OSError as error:
        raise DriverSettingError(f"host_files: {path} cannot be read from {source}: {error.strerror}") from error
    if not 0 < len(content) <= LARGEST:
        raise DriverSettingError(f"host_files: {source} has {len(content)} bytes, and must have 1 to {LARGEST}")
    return HostFile(path, content, mode)
