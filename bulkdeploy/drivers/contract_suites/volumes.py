"""The contract of drivers with data volumes for removing single volumes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from bulkdeploy.drivers.abilities.volumes import DataVolumes
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.errors import DriverError


class VolumeContract(AbilityContract, of=DataVolumes):
    """The contract that an unused volume can be removed, and that a used volume is never removed or damaged."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_volume_of_a_stopped_guest_is_removed(self, rig: Rig, caller: Caller, times: int) -> None:
        """A volume is removed, and other volumes are kept.

        A repeated removal, or one of a volume that never existed, changes nothing.
        """
        guest, never_was = rig.new_guest(), rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        gone, kept = volume_uuids(guest)
        for _ in range(times):
            caller.remove_volume(rig.subjects.pool_uuid, gone)
            caller.remove_volume(rig.subjects.pool_uuid, volume_uuids(never_was)[0])
        assert [volume[0] for volume in rig.driver.list_volumes()] == [kept]

    def test_a_lost_volume_is_never_made_anew(self, rig: Rig, caller: Caller) -> None:
        """If the root disk or a data volume is lost, the start fails and the other volumes are kept."""
        for lost in range(2):
            new = rig.subjects.new_guest(volumes=2)
            again = replace(new, volumes=tuple(replace(volume, was_made=True) for volume in new.volumes))
            caller.run(rig.hosts[0], new)
            caller.stop(rig.hosts[0], new)
            caller.remove_volume(rig.subjects.pool_uuid, new.volumes[lost].uuid)
            before = rig.volumes()
            with pytest.raises(DriverError):
                caller.run(rig.hosts[0], again)
            assert caller.look(rig.hosts[0], again) is None
            assert rig.volumes() == before
            caller.remove(rig.hosts[0], again)

    def test_a_guest_starts_with_a_larger_volume(self, rig: Rig, caller: Caller) -> None:
        """A start enlarges an existing volume to the requested size; other volumes keep their sizes."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        first, last = guest.volumes
        larger = replace(last, size_bytes=2 * last.size_bytes)
        caller.run(rig.hosts[0], replace(guest, volumes=(first, larger)))
        sizes = {uuid: size for uuid, _, size in rig.driver.list_volumes()}
        assert sizes == {first.uuid: first.size_bytes, larger.uuid: larger.size_bytes}

    def test_a_volume_in_use_stays(self, rig: Rig, caller: Caller) -> None:
        """While its guest runs, removing a volume is a transient error. After a stop it succeeds."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        with pytest.raises(DriverError) as refused:
            caller.remove_volume(rig.subjects.pool_uuid, volume_uuids(guest)[0])
        assert refused.value.transient
        assert rig.volumes() == set(volume_uuids(guest))
        caller.stop(rig.hosts[0], guest)
        caller.remove_volume(rig.subjects.pool_uuid, volume_uuids(guest)[0])
        assert len(list(rig.driver.list_volumes())) == 1

    def test_a_failed_removal_of_a_volume_can_be_repeated(self, rig: Rig, caller: Caller) -> None:
        """A removal that failed is completed by the next one."""
        guest = rig.subjects.new_guest(volumes=1)
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        rig.fail_next("delete")
        with pytest.raises(DriverError):
            caller.remove_volume(rig.subjects.pool_uuid, volume_uuids(guest)[0])
        caller.remove_volume(rig.subjects.pool_uuid, volume_uuids(guest)[0])
        assert list(rig.driver.list_volumes()) == []

    def test_a_running_guest_never_loses_a_volume(self, rig: Rig, caller: Caller) -> None:
        """If starts and removals of a volume run concurrently, a running guest has all its volumes."""
        guest = rig.subjects.new_guest(volumes=1)

        def request(number: int) -> None:
            with suppress(DriverError):
                if number % 2:
                    caller.run(rig.hosts[0], guest)
                else:
                    caller.remove_volume(rig.subjects.pool_uuid, volume_uuids(guest)[0])

        for _ in range(5):
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(request, range(8)))
            there = guests_of(rig.driver)[guest.uuid]
            assert rig.volumes() == there.volume_uuids
            caller.stop(rig.hosts[0], guest)
