"""Files of a host through libvirt's storage API: their folder becomes a pool for as long as they are looked at.

A folder that is not there is made. What is read and written is the daemon's, so root's with ``qemu:///system``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.host_files import LARGEST, FileState, HostFile, state_of
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.storage import pool_path

CHUNK = 64 * 1024
PERMISSIONS = 0o777
PASSING = "bulkdeploy-files-"
"""How pools begin that are there for as long as files are looked at."""


def read_states(call: HostCall, paths: Sequence[str]) -> Mapping[str, FileState]:
    """See HypervisorDriver.states_of_files."""
    found = {}
    for path in paths:
        at = PurePosixPath(path)
        with _folder(call, str(at.parent)) as folder:
            volume = _find(folder, at.name)
            if volume is not None:
                found[path] = state_of(_read(call, volume), _mode(volume))
    return found


def write_file(call: HostCall, file: HostFile) -> None:
    """See HypervisorDriver.put_file."""
    at = PurePosixPath(file.path)
    with _folder(call, str(at.parent)) as folder:
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


def _find(folder: Any, name: str) -> Any | None:
    try:
        return folder.storageVolLookupByName(name)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_STORAGE_VOL):
            raise
        return None


def _read(call: HostCall, volume: Any) -> bytes:
    """A file's content, or as much of it as no file of ours has."""
    size = min(int(volume.info()[1]), LARGEST + 1)
    stream = call.connection.newStream()
    volume.download(stream, 0, size)
    content = b""
    while chunk := stream.recv(CHUNK):
        content += chunk
    stream.finish()
    return content


def _mode(volume: Any) -> int:
    """A file's permission bits, as the daemon finds them now."""
    document = Tree.fromstring(volume.XMLDesc())  # noqa: S314 - of the daemon that we drive
    return int(document.findtext("target/permissions/mode", "0"), 8) & PERMISSIONS


@contextmanager
def _folder(call: HostCall, path: str) -> Iterator[Any]:
    """A folder as a pool: one that is there already, or one that goes again, without its files."""
    for known in call.connection.listAllStoragePools():
        if known.isActive() and pool_path(known) == path:
            known.refresh()
            yield known
            return
    root = Tree.Element("pool", type="dir")
    Tree.SubElement(root, "name").text = f"{PASSING}{uuid4()}"
    Tree.SubElement(Tree.SubElement(root, "target"), "path").text = path
    xml = Tree.tostring(root, encoding="unicode")
    passing = call.connection.storagePoolCreateXML(xml, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
    try:
        yield passing
    finally:
        passing.destroy()
