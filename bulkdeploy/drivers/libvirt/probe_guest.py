"""A boot sector as a minimal guest, with which checks and tests show that a host can run guests.

The guest writes ``guest <uuid> is up`` to its serial console and then counts the seconds. It releases devices that
are detached, and switches itself off when its power button is pressed. It needs 1 MiB of memory, no disk except its
own 512 bytes, and almost no CPU time. PROGRAM is the assembled ``tests/kvm/boot_sector.S``.
"""

from bulkdeploy.domain.units import MIB

PROGRAM = (
    "ea057c000031c08ed88ed0bc007cfcbebd7ce88800ba1005b80200efb91000ba1105ece88200e2f7bec67ce86f00ba0206b8"
    "0001effb6631dba16c04a3bb7cf4ba0006edf6c4017533ba04ae66ed6685c07405ba08ae66efa16c042b06bb7c83f81272db"
    "8306bb7c124388f8e8390088d8e83400bede7ce82300ebc3becf7ce81b00ba0406b80020eff4ebfd5250bafd03eca82074fb"
    "58baf803ee5ac3ac84c07405e8e7ffebf6c350c0e804e8030058240f3c0a1c692f0c20ebd100000d0a677565737420002069"
    "732075700d0a007377697463686564206f66660d0a000d0a00"
)
"""The machine code in hexadecimal. The rest of the sector up to byte 510 is zero."""

SIGNATURE = b"\x55\xaa"
"""The bytes at the end of a sector by which firmware recognises a boot sector."""


def boot_image() -> bytes:
    """Return a raw disk image of 1 MiB with the boot sector."""
    sector = bytes.fromhex(PROGRAM).ljust(510, b"\0") + SIGNATURE
    return sector.ljust(MIB, b"\0")
