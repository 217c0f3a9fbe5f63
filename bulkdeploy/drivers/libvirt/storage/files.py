"""Files of a host, accessed through a temporary libvirt pool for their folder.

A missing folder is created. The daemon reads and writes the files, as root with ``qemu:///system``.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.abilities.host_files import LARGEST, FileState, HostFile, state_of
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.storage.storage import pool_path

CHUNK = 64 * 1024
PERMISSIONS = 0o777
PASSING = "bulkdeploy-files-"
"""The prefix of the names of temporary pools for files of the host."""

LOOKS_S = 0.1
TAKEN = (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_FAILED)
"""The codes of errors if another call is creating a pool for the same folder."""


def read_states(call: HostCall, paths: Sequence[str]) -> Mapping[str, FileState]:
    """Return the states of these files on a host, by path, for ``states_of_files``. Missing files are omitted."""
    found = {}
    for path in paths:
        at = PurePosixPath(path)
        volume = _find(_folder(call, str(at.parent)), at.name)
        if volume is not None:
            found[path] = state_of(_read(call, volume), _mode(volume))
    return found


def write_file(call: HostCall, file: HostFile) -> None:
    """Write a file to a host for ``put_file``. An existing file with this path is replaced."""
    at = PurePosixPath(file.path)
    folder = _folder(call, str(at.parent))
    before = _find(folder, at.name)
    if before is not None:
        call.go_on("files")
        before.delete()
    root = Tree.Element("volume")
    Tree.SubElement(root, "name").text = at.name
    Tree.SubElement(root, "capacity").text = str(len(file.content))
    target = Tree.SubElement(root, "target")
    Tree.SubElement(target, "format", type="raw")
    Tree.SubElement(Tree.SubElement(target, "permissions"), "mode").text = f"{file.mode:04o}"
    call.go_on("files")
    volume = folder.createXML(Tree.tostring(root, encoding="unicode"))
    stream = call.connection.newStream()
    volume.upload(stream, 0, len(file.content))
    left = file.content
    while left:
        left = left[stream.send(left[:CHUNK]) :]
    stream.finish()


def remove_rotated(call: HostCall, path: str) -> None:
    """Delete a log file and its rotated copies (``PATH.0`` and so on) from a host. Missing files are no error."""
    at = PurePosixPath(path)
    for volume in _folder(call, str(at.parent)).listAllVolumes():
        name = volume.name()
        if name == at.name or (name.startswith(f"{at.name}.") and name.removeprefix(f"{at.name}.").isdecimal()):
            call.go_on("delete")
            volume.delete()


def _find(folder: Any, name: str) -> Any | None:
    try:
        return folder.storageVolLookupByName(name)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_STORAGE_VOL):
            raise
        return None


def _read(call: HostCall, volume: Any) -> bytes:
    """Return the content of a file, at most LARGEST + 1 bytes. A longer file cannot be a file of the service."""
    size = min(int(volume.info()[1]), LARGEST + 1)
    stream = call.connection.newStream()
    volume.download(stream, 0, size)
    content = b""
    while chunk := stream.recv(CHUNK):
        content += chunk
    stream.finish()
    return content


def _mode(volume: Any) -> int:
    """Return the current permission bits of a file."""
    document = Tree.fromstring(volume.XMLDesc())  # noqa: S314 - of the daemon that we drive
    return int(document.findtext("target/permissions/mode", "0"), 8) & PERMISSIONS


def _folder(call: HostCall, path: str) -> Any:
    """Return a libvirt pool for a folder of a host.

    An existing pool of this folder is used. Otherwise a pool is created, and remains for concurrent calls.
    """
    while True:
        for known in call.connection.listAllStoragePools():
            if known.isActive() and pool_path(known) == path:
                with suppress(libvirt.libvirtError):  # the folder does not exist, or a file is being written
                    known.refresh()
                    return known
        root = Tree.Element("pool", type="dir")
        uuid = uuid5(NAMESPACE_URL, PurePosixPath(path).as_uri())
        Tree.SubElement(root, "name").text = f"{PASSING}{uuid}"
        Tree.SubElement(root, "uuid").text = str(uuid)
        Tree.SubElement(Tree.SubElement(root, "target"), "path").text = path
        xml = Tree.tostring(root, encoding="unicode")
        try:
            return call.connection.storagePoolCreateXML(xml, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
        except libvirt.libvirtError as error:
            if not is_code(error, *TAKEN) or call.deadline.left_s() < LOOKS_S:
                raise
        time.sleep(LOOKS_S)
