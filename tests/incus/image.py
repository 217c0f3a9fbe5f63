"""The smallest image: a static busybox that waits until it is told to stop, as Incus wants it packed."""

import io
import os
import shutil
import tarfile
from pathlib import Path

PROGRAMS = ("sh", "sleep", "ip", "cat", "ls", "hostname", "kill", "udhcpc", "true")
INIT = b"""#!/bin/sh
trap 'exit 0' PWR TERM INT
ip link set eth0 up
while read -r line; do echo "heard: $line"; done < /dev/console > /dev/console &
while true; do sleep 3600 & wait $!; done
"""
METADATA = b"""architecture: x86_64
creation_date: 1700000000
properties: {description: busybox}
"""


def why_no_image() -> str | None:
    """What is missing; None: nothing is."""
    return None if shutil.which("busybox") else "busybox is needed (Debian's busybox-static)"


def write_image(path: Path) -> None:
    """Write the image, about 1 MiB."""
    found = shutil.which("busybox")
    assert found is not None
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        _add(archive, "metadata.yaml", METADATA, 0o644)
        for folder in ("sbin", "bin", "dev", "proc", "sys", "etc", "tmp", "root", "run", "var", "mnt"):
            made = tarfile.TarInfo(f"rootfs/{folder}")
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(made)
        _add(archive, "rootfs/bin/busybox", Path(os.path.realpath(found)).read_bytes(), 0o755)
        for program in PROGRAMS:
            link = tarfile.TarInfo(f"rootfs/bin/{program}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        _add(archive, "rootfs/sbin/init", INIT, 0o755)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))
