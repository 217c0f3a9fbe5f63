"""The contract of drivers that resize volumes."""

from dataclasses import replace

import pytest

from bulkdeploy.drivers.abilities.resizing import GrowingVolumes, ShrinkingVolumes
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec


def resized(guest: GuestSpec, times: float) -> VolumeSpec:
    """Return the guest's last volume with its size multiplied by ``times``."""
    volume = guest.volumes[-1]
    return replace(volume, size_bytes=int(volume.size_bytes * times))


def sizes_of(rig: Rig) -> dict[object, int]:
    """Return the sizes of all volumes in bytes, by the volumes' uuids."""
    return {uuid: size for uuid, _, size in rig.driver.list_volumes()}


class ResizeContract(AbilityContract, of=GrowingVolumes):
    """The contract that a resized volume has its new size, or its previous size after a failure."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_volume_grows_while_its_guest_runs(self, rig: Rig, caller: Caller, times: int) -> None:
        """A volume grows while its guest runs.

        The call may be repeated.

        Other volumes keep their sizes, and a restart of the guest changes no size.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        larger = resized(guest, 2)
        expected = {**sizes_of(rig), larger.uuid: larger.size_bytes}
        for _ in range(times):
            caller.resize(rig.hosts[0], guest, larger)
        assert caller.size_of(guest, larger) == larger.size_bytes
        assert sizes_of(rig) == expected
        caller.stop(rig.hosts[0], guest)
        caller.run(rig.hosts[0], replace(guest, volumes=(*guest.volumes[:-1], larger)))
        assert sizes_of(rig) == expected

    def test_a_failed_resize_leaves_the_size(self, rig: Rig, caller: Caller) -> None:
        """After a failed resize, the size can be read and is unchanged, and the next call succeeds."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        larger = resized(guest, 2)
        rig.fail_next("resize")
        with pytest.raises(DriverError) as failed:
            caller.resize(rig.hosts[0], guest, larger)
        assert failed.value.step == "resize"
        assert caller.size_of(guest, larger) == guest.volumes[-1].size_bytes
        caller.resize(rig.hosts[0], guest, larger)
        assert caller.size_of(guest, larger) == larger.size_bytes

    def test_what_is_not_there_has_no_size(self, rig: Rig, caller: Caller) -> None:
        """A volume that never existed has no size.

        Resizing for a guest that does not run there fails permanently.
        """
        guest = rig.new_guest()
        caller.resize(None, guest, resized(guest, 2))
        assert caller.size_of(guest, guest.volumes[-1]) is None
        for where in (0, 1):
            with pytest.raises(DriverError) as refused:
                caller.resize(rig.hosts[0], guest, resized(guest, 2))
            assert not refused.value.transient
            if where == 0:
                assert sizes_of(rig) == {}
                caller.run(rig.hosts[1], guest)


class ShrinkContract(AbilityContract, of=ShrinkingVolumes):
    """The contract that a volume can shrink while its guest does not run."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_volume_shrinks_while_its_guest_is_stopped(self, rig: Rig, caller: Caller, times: int) -> None:
        """A volume of a stopped guest shrinks, and the guest starts with it.

        While the guest runs, shrinking is a permanent error.
        """
        guest = rig.new_guest()
        smaller = resized(guest, 0.5)
        caller.run(rig.hosts[0], guest)
        for host in (None, rig.hosts[0]):
            with pytest.raises(DriverError) as refused:
                caller.resize(host, guest, smaller)
            assert not refused.value.transient
        assert caller.size_of(guest, smaller) == guest.volumes[-1].size_bytes
        caller.stop(rig.hosts[0], guest)
        for _ in range(times):
            caller.resize(None, guest, smaller)
        assert sizes_of(rig)[smaller.uuid] == smaller.size_bytes
        caller.run(rig.hosts[0], replace(guest, volumes=(*guest.volumes[:-1], smaller)))
        assert sizes_of(rig)[smaller.uuid] == smaller.size_bytes
