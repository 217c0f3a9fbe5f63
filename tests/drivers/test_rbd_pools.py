"""Volumes in a pool of Ceph without a cluster: blocked clients, secrets of daemons, and temporary files.

The programs of Ceph and QEMU's monitor are replaced; guests are those of the daemon inside libvirt that is made for
tests.
"""

import errno
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import VolumeSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt import ceph
from bulkdeploy.drivers.libvirt.ceph import CephError
from bulkdeploy.drivers.libvirt.storage import template_files
from bulkdeploy.drivers.libvirt.storage.template_files import convert_to_raw, temporary_folder
from bulkdeploy.drivers.records import Pool
from bulkdeploy.processes.run_program import ProgramEnd
from tests.drivers.fixed_directory import FixedDirectory

libvirt = pytest.importorskip("libvirt", reason="needs pip install 'bulkdeploy[libvirt]'")

HOST = HostAddress(uuid4(), "h1", "10.0.0.1", "KVM", "test:///default")
CLIENT = "10.0.0.9:0/1"


def new_pool(secret: str | None = None) -> Pool:
    """A pool of Ceph."""
    read_secret = None if secret is None else lambda: secret
    return Pool(uuid4(), "ceph", "RBD", "10.0.0.1", "/vms", None, user="bulk", read_secret=read_secret)


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clients that were blocked; every image exists, and CLIENT has it open."""
    found: list[str] = []

    def run(command: list[str], **_: Any) -> ProgramEnd:
        match command:
            case ["rbd", "create", *_]:
                return ProgramEnd(errno.EEXIST, "", "rbd: create error: (17) File exists")
            case ["rbd", "info", *_]:
                return ProgramEnd(0, json.dumps({"size": 1 << 30}), "")
            case ["rbd", "status", *_]:
                return ProgramEnd(0, json.dumps({"watchers": [{"address": CLIENT}]}), "")
            case ["ceph", "osd", "blocklist", "add", client, _]:
                found.append(client)
                return ProgramEnd(0, "", "")
        raise AssertionError(command)

    monkeypatch.setattr(ceph, "run_program", run)
    return found


@pytest.mark.parametrize("is_plugged", [False, True])
def test_a_guest_that_an_earlier_call_started_keeps_its_disks(
    monkeypatch: pytest.MonkeyPatch, blocked: list[str], is_plugged: bool
) -> None:
    """An earlier call may reach the host after a later one has found that the guest does not have the volume.

    The client that has the volume open is then the guest itself, and the later call must not block that client.
    """
    from bulkdeploy.drivers.libvirt.calls import GuestCalls, is_running
    from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, Links
    from bulkdeploy.drivers.libvirt.options import LibvirtOptions
    from bulkdeploy.drivers.libvirt.qemu_monitor import has_open

    pool = new_pool()
    calls = GuestCalls(LibvirtOptions(), Links(LibvirtOptions()))
    fences = SimpleNamespace(is_highest=lambda *_: True)
    calls.records = SimpleNamespace(fences=fences, directory=FixedDirectory([HOST], pool))  # type: ignore[assignment]
    call = HostCall(HOST, libvirt.open("test:///default"), {}, Deadline(60))
    (running,) = call.connection.listAllDomains()
    volume, guest = VolumeSpec(uuid4(), "data", 1 << 30, pool.uuid), UUID(running.UUIDString())
    opened: set[UUID] = set()
    monkeypatch.setattr(
        "libvirt_qemu.qemuMonitorCommand",
        lambda *_: json.dumps(
            {"return": [{"file": f'json:{{"driver": "rbd", "image": "{uuid}"}}'} for uuid in opened]}
        ),
    )

    def ensure(guest_uuid: UUID) -> None:
        is_open = partial(has_open, running, volume.uuid) if is_plugged else partial(is_running, call, guest_uuid)
        calls.ensure_volume(call, "boot", guest_uuid, volume, 1, is_open)

    ensure(guest if is_plugged else uuid4())
    assert blocked == [CLIENT]  # the client of a host that was cut off
    opened.add(volume.uuid)
    with pytest.raises(DriverError, match="reached the host late") as failed:
        ensure(guest)
    assert failed.value.transient
    assert blocked == [CLIENT]


class Daemon:
    """A daemon with secrets that are in its memory only."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def secretDefineXML(self, xml: str) -> Any:  # noqa: N802 - libvirt's name
        """Define a secret."""
        uuid = UUID(xml.partition("<uuid>")[2].partition("</uuid>")[0])
        return SimpleNamespace(setValue=partial(self.values.__setitem__, uuid.bytes))

    def secretLookupByUUID(self, uuid: bytes) -> Any:  # noqa: N802 - libvirt's name
        """Return a secret."""
        if uuid not in self.values:
            error = libvirt.libvirtError("no such secret")
            error.err = (libvirt.VIR_ERR_NO_SECRET,)
            raise error
        return self.values[uuid]


def test_a_daemon_that_restarted_gets_the_secret_again() -> None:
    """The connection may outlive the daemon that has the secrets."""
    from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall
    from bulkdeploy.drivers.libvirt.storage.rbd_pools import RbdPool

    daemon, pool = Daemon(), new_pool("c2VjcmV0")
    call = HostCall(HOST, daemon, {}, Deadline(60))
    for _ in range(2):
        RbdPool(call, pool)
        assert daemon.values == {pool.uuid.bytes: b"secret"}
        daemon.values.clear()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


DIES_WITH_A_FOLDER = """
import os
from bulkdeploy.drivers.libvirt.storage.template_files import temporary_folder
with temporary_folder() as folder:
    (folder / "image").write_bytes(b"x")
    os._exit(0)
"""


def test_the_files_of_a_killed_process_are_removed(temporary: Path) -> None:
    """The next template removes them, and leaves those of processes that live."""
    subprocess.run([sys.executable, "-c", DIES_WITH_A_FOLDER], check=True)
    (abandoned,) = temporary.iterdir()
    with temporary_folder() as first, temporary_folder() as second:
        assert {*temporary.iterdir()} == {first, second}
        assert abandoned not in {first, second}
    assert [*temporary.iterdir()] == []


def test_a_full_disk_is_a_passing_failure(temporary: Path) -> None:
    """Errors of the file system name the directory, and a retry may help."""

    def fill() -> None:
        with temporary_folder():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CephError, match=f"{temporary} of this worker: .*No space left") as failed:
        fill()
    assert failed.value.transient
    assert [*temporary.iterdir()] == []


def test_a_process_converts_one_image_at_a_time(temporary: Path) -> None:
    """A conversion waits for the one before it until its time is up."""
    with template_files._converting, pytest.raises(CephError, match="did not start in time") as failed:
        convert_to_raw(temporary / "image", "qcow2", lambda: 0.01)
    assert failed.value.transient
