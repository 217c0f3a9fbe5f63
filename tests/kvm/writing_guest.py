"""A guest that appends a counter to its disk, and what its disk says of it."""

import subprocess
import tempfile
from pathlib import Path

from bulkdeploy.domain.units import MIB

PROGRAM = (
    "ea057c000031c08ed88ed0bc007cfcfb88169a7cb442e84d008b1e0006a16c04a3987cf4a16c042b06987c83f81272f38306987c12"
    "43891e000689d840a3a37cb443e82100c706a37c0100b443e8160088f8e8300088d8e82b00b00de81500b00ae81000ebbd30c0538a"
    "169a7cbe9b7ccd135bc35250bafd03eca82074fb58baf803ee5ac350c0e804e8030058240f3c0a1c692f0c20ebdc00000010000100"
    "0006000001"
)
"""``tests/kvm/writing_sector.S``, assembled."""
SECTOR = 512


def writing_image() -> bytes:
    """Return a raw disk image of 1 MiB that boots: room for 2,046 numbers."""
    return (bytes.fromhex(PROGRAM).ljust(SECTOR - 2, b"\0") + b"\x55\xaa").ljust(MIB, b"\0")


def written_numbers(disk: Path) -> list[int]:
    """Return the numbers on a disk, which a guest may be writing: those in the sectors from the second on.

    A guest that writes the last number meanwhile leaves one number more than its first sector says.
    """
    with tempfile.NamedTemporaryFile() as raw:
        # The rest of the disk, which is much larger than its image, has no numbers.
        part = ["bs=1M", "count=1", f"if={disk}", f"of={raw.name}"]
        subprocess.run(["qemu-img", "dd", "-U", "-f", "qcow2", "-O", "raw", *part], check=True)
        content = Path(raw.name).read_bytes()
    words = [int.from_bytes(content[at : at + 2], "little") for at in range(SECTOR, len(content), SECTOR)]
    return [word for word in words[1:] if word]
