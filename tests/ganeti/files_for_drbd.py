"""Stands in for the kernel's DRBD and device mapper on virtual nodes: Ganeti's ``storage/bdev.py`` reads it there.

Volumes of the volume groups GROUPS are sparse files of their node, and a DRBD device is a file that says whether it
is connected; its disks are in sync at once. All else of Ganeti is as installed: what it checks, locks, plans and
writes into its configuration. Volumes of other groups are LVM's.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ganeti import constants, objects, utils  # type: ignore[import-not-found]
from ganeti.storage import base, bdev, drbd  # type: ignore[import-not-found]

GROUPS = ("mirrored", "fast")
GROUP_MIB = 24 << 10
HELPER = "/bin/true"


def folder(name: str) -> Path:
    """A folder of the node whose daemon this is."""
    path = Path(os.environ.get("GANETI_ROOTDIR", "/") + "/srv/ganeti") / name
    path.mkdir(parents=True, exist_ok=True)
    return path


class FileDevice(base.BlockDev):  # type: ignore[misc]
    """A device whose file is all there is of it."""

    path: Path

    def Attach(self, **_: Any) -> bool:  # noqa: N802 - all these names are Ganeti's
        """Whether it is there."""
        self.attached = self.path.exists()
        self.dev_path = str(self.path) if self.attached else None
        return bool(self.attached)

    def Assemble(self) -> None:  # noqa: N802
        """It must be there."""
        super().Assemble()
        if not self.Attach():
            base.ThrowError("%s is not there", self.path)

    def Shutdown(self) -> None:  # noqa: N802
        """It stays."""

    def Open(self, force: bool = False, exclusive: bool = True) -> None:  # noqa: N802
        """It is open."""

    def Close(self) -> None:  # noqa: N802
        """It is closed."""

    def SetInfo(self, text: str) -> None:  # noqa: N802
        """Does nothing: LVM keeps this text as a tag, and files have none."""


class FileVolume(FileDevice):
    """A logical volume."""

    def __init__(self, unique_id: Any, children: Any, size: int, params: Any, dyn_params: Any, **more: Any) -> None:
        super().__init__(unique_id, children, size, params, dyn_params, **more)
        self.path = folder("volumes") / unique_id[1]
        self.Attach()

    @classmethod
    def Create(  # noqa: N802
        cls,
        unique_id: Any,
        children: Any,
        size: int,
        spindles: Any,
        params: Any,
        excl_stor: Any,
        dyn_params: Any,
        **_: Any,
    ) -> "FileVolume":
        """Make it."""
        del spindles, excl_stor
        if size > free_mib():
            base.ThrowError("%s has %s MiB left, not %s", unique_id[0], free_mib(), size)
        with (folder("volumes") / unique_id[1]).open("xb") as file:
            file.truncate(size << 20)
        return cls(unique_id, children, size, params, dyn_params)

    def Remove(self) -> bool:  # noqa: N802
        """Remove it."""
        self.path.unlink(missing_ok=True)
        return True

    def Rename(self, new_id: Any) -> None:  # noqa: N802
        """Give it another name."""
        self.path = self.path.rename(self.path.parent / new_id[1])
        self.Attach()

    def Grow(self, amount: int, dryrun: bool, backingstore: bool, excl_stor: bool) -> None:  # noqa: N802
        """Let it be larger."""
        del excl_stor
        if backingstore and not dryrun:
            with self.path.open("ab") as file:
                file.truncate((self.size + amount) << 20)

    def GetActualSize(self) -> int:  # noqa: N802
        """In bytes."""
        return self.path.stat().st_size


class FileMirror(FileDevice):
    """A DRBD device, up while its file is there; the file says ``standalone``, or nothing while it is connected."""

    def __init__(self, unique_id: Any, children: Any, size: int, params: Any, dyn_params: Any, **more: Any) -> None:
        super().__init__(unique_id, children, size, params, dyn_params, **more)
        number = dyn_params[constants.DDP_LOCAL_MINOR]
        self.path = folder("drbd") / str(number)
        self.number = number
        self.Attach()

    def Attach(self, **more: Any) -> bool:  # noqa: N802
        """Whether it is up."""
        found = super().Attach(**more)
        self.minor = self.number if found else None
        return found

    @classmethod
    def Create(  # noqa: N802
        cls,
        unique_id: Any,
        children: Any,
        size: int,
        spindles: Any,
        params: Any,
        excl_stor: Any,
        dyn_params: Any,
        **_: Any,
    ) -> "FileMirror":
        """Its disks are there; it is made by being assembled."""
        del spindles, excl_stor
        return cls(unique_id, children, size, params, dyn_params)

    def Assemble(self) -> None:  # noqa: N802
        """Connect it."""
        base.BlockDev.Assemble(self)
        self.path.write_text("")
        self.Attach()

    def Shutdown(self) -> None:  # noqa: N802
        """It is down."""
        self.path.unlink(missing_ok=True)
        self.minor = self.dev_path = None

    Remove = Shutdown

    def Grow(self, amount: int, dryrun: bool, backingstore: bool, excl_stor: bool) -> None:  # noqa: N802
        """Its disk grows."""
        self._children[0].Grow(amount, dryrun, backingstore, excl_stor)

    def DisconnectNet(self) -> None:  # noqa: N802
        """Without its peer."""
        self.path.write_text("standalone")

    def AttachNet(self, multimaster: bool) -> None:  # noqa: N802
        """With its peer."""
        del multimaster
        self.path.write_text("")

    def AddChildren(self, devices: Any) -> None:  # noqa: N802
        """With disks."""
        self._children = devices

    def RemoveChildren(self, devices: Any) -> None:  # noqa: N802
        """Without disks."""
        del devices
        self._children = []

    def PauseResumeSync(self, pause: bool) -> bool:  # noqa: N802
        """There is nothing to copy."""
        del pause
        return True

    def SetSyncParams(self, params: Any) -> list[str]:  # noqa: N802
        """Whatever they are."""
        del params
        return []

    def GetProcStatus(self) -> SimpleNamespace:  # noqa: N802
        """As the kernel's."""
        alone = self.path.read_text() == "standalone"
        return SimpleNamespace(
            is_connected=not alone,
            is_standalone=alone,
            is_disk_uptodate=True,
            peer_disk_uptodate=not alone,
            is_in_resync=False,
            is_diskless=False,
            sync_percent=None,
            est_time=None,
        )

    def GetSyncStatus(self) -> Any:  # noqa: N802
        """In sync while it is connected."""
        return objects.BlockDevStatus(
            dev_path=self.dev_path,
            major=147,
            minor=self.minor,
            sync_percent=None,
            estimated_time=None,
            is_degraded=self.GetProcStatus().is_standalone,
            ldisk_status=constants.LDS_OKAY,
        )


class Volumes:
    """Logical volumes of both sorts."""

    def __init__(self, lvm: Any) -> None:
        self._lvm = lvm

    def __call__(self, unique_id: Any, *more: Any, **named: Any) -> Any:
        """One of them."""
        return self._of(unique_id)(unique_id, *more, **named)

    def Create(self, unique_id: Any, *more: Any, **named: Any) -> Any:  # noqa: N802
        """Make one of them."""
        return self._of(unique_id).Create(unique_id, *more, **named)

    def _of(self, unique_id: Any) -> Any:
        return FileVolume if unique_id[0] in GROUPS else self._lvm


def free_mib() -> int:
    """Return the space that the files leave of the node's volume groups, which share it."""
    used: int = sum(file.stat().st_size for file in folder("volumes").iterdir())
    return GROUP_MIB - (used >> 20)


def _size_of_groups(names: Any, *more: Any, **named: Any) -> Any:
    if names and set(names) <= set(GROUPS):
        return [(free_mib(), GROUP_MIB, name) for name in names]
    return _size_of_lvm(names, *more, **named)


_size_of_lvm, _groups_of_lvm = bdev.LogicalVolume.GetVGInfo, utils.ListVolumeGroups
bdev.LogicalVolume.GetVGInfo = staticmethod(_size_of_groups)
utils.ListVolumeGroups = lambda: {**(_groups_of_lvm() or {}), **dict.fromkeys(GROUPS, GROUP_MIB)}
bdev.DEV_MAP[constants.DT_PLAIN] = Volumes(bdev.LogicalVolume)
bdev.DEV_MAP[constants.DT_DRBD8] = FileMirror
drbd.DRBD8.GetUsermodeHelper = staticmethod(lambda: HELPER)
drbd.DRBD8.GetUsedDevs = staticmethod(lambda: [int(file.name) for file in folder("drbd").iterdir()])
