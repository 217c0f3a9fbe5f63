"""The contract of drivers that attach volumes and NICs to running guests."""

from dataclasses import replace

import pytest

from bulkdeploy.drivers.abilities.devices import DeviceChanges, HotPlugNics
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState


def more(rig: Rig, guest: GuestSpec) -> GuestSpec:
    """Return the guest with one more volume and, if the driver can hot-plug NICs, one more NIC."""
    nics = (rig.subjects.new_nic(),) if HotPlugNics in rig.driver.abilities else ()
    return replace(guest, volumes=(*guest.volumes, rig.subjects.new_volume()), nics=(*guest.nics, *nics))


def assert_has(there: Guest, guest: GuestSpec) -> None:
    """Assert that the guest runs with exactly these volumes and NICs.

    NICs are not checked if the hypervisor does not report their uuids.
    """
    assert there.power is PowerState.RUNNING
    assert there.volume_uuids == set(volume_uuids(guest))
    assert there.nic_uuids is None or there.nic_uuids == {nic.uuid for nic in guest.nics}


class DeviceContract(AbilityContract, of=DeviceChanges):
    """The contract that a running guest has the devices of the last call, or those before a failed call."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_running_guest_gets_devices_and_loses_them(self, rig: Rig, caller: Caller, times: int) -> None:
        """New volumes are created, and detached volumes remain in their pool and can be attached to another guest.

        The calls may be repeated.
        """
        guest, other = rig.new_guest(), rig.new_guest()
        for one in (guest, other):
            caller.run(rig.hosts[0], one)
        larger = more(rig, guest)
        for _ in range(times):
            caller.devices(rig.hosts[0], larger)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)
        (made,) = set(volume_uuids(larger)) - set(volume_uuids(guest))
        assert (made, rig.subjects.pool_uuid, larger.volumes[-1].size_bytes) in set(rig.driver.list_volumes())
        for _ in range(times):
            caller.devices(rig.hosts[0], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
        assert made in rig.volumes()
        taking = replace(other, volumes=(*other.volumes, larger.volumes[-1]))
        caller.devices(rig.hosts[0], taking)
        assert_has(guests_of(rig.driver)[other.uuid], taking)

    def test_a_lost_volume_is_not_plugged(self, rig: Rig, caller: Caller) -> None:
        """A volume that existed before is never created again, and the guest keeps its previous devices."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        lost = replace(rig.subjects.new_volume(), was_made=True)
        with pytest.raises(DriverError) as refused:
            caller.devices(rig.hosts[0], replace(guest, volumes=(*guest.volumes, lost)))
        assert not refused.value.transient
        assert rig.volumes() == set(volume_uuids(guest))
        assert_has(guests_of(rig.driver)[guest.uuid], guest)

    def test_a_volume_grows_as_it_is_plugged(self, rig: Rig, caller: Caller) -> None:
        """An existing volume grows to the size with which it is attached; other volumes keep their sizes."""
        guest, added = rig.new_guest(), rig.subjects.new_volume()
        caller.run(rig.hosts[0], guest)
        grown = replace(added, size_bytes=2 * added.size_bytes)
        for volumes in ((added,), (), (grown,)):
            caller.devices(rig.hosts[0], replace(guest, volumes=(*guest.volumes, *volumes)))
        sizes = {uuid: size for uuid, _, size in rig.driver.list_volumes()}
        assert sizes == {volume.uuid: volume.size_bytes for volume in (*guest.volumes, grown)}

    def test_a_volume_in_use_is_not_shared(self, rig: Rig, caller: Caller) -> None:
        """A volume of a running guest cannot be attached to another guest and cannot be removed."""
        guest, other = rig.new_guest(), rig.new_guest()
        for one in (guest, other):
            caller.run(rig.hosts[0], one)
        larger = more(rig, guest)
        caller.devices(rig.hosts[0], larger)
        with pytest.raises(DriverError):
            caller.devices(rig.hosts[0], replace(other, volumes=(*other.volumes, larger.volumes[-1])))
        with pytest.raises(DriverError):
            caller.remove_volume(rig.subjects.pool_uuid, larger.volumes[-1].uuid)
        assert_has(guests_of(rig.driver)[other.uuid], other)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)

    def test_a_failed_change_is_undone_by_its_opposite(self, rig: Rig, caller: Caller) -> None:
        """After a failed change and a call with the previous devices, the guest has its previous devices.

        A new volume that the failed call created is unattached, and the next call attaches it.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        larger = more(rig, guest)
        rig.fail_next("devices")
        with pytest.raises(DriverError) as failed:
            caller.devices(rig.hosts[0], larger)
        assert failed.value.step == "devices"
        caller.devices(rig.hosts[0], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
        caller.remove_volume(rig.subjects.pool_uuid, larger.volumes[-1].uuid)
        assert rig.volumes() == set(volume_uuids(guest))
        caller.devices(rig.hosts[0], larger)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)

    def test_devices_go_with_the_guest(self, rig: Rig, caller: Caller) -> None:
        """Attached devices migrate with their guest, and can be removed after the guest is stopped."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        larger = more(rig, guest)
        caller.devices(rig.hosts[0], larger)
        host = rig.hosts[0]
        if LiveMigration in rig.driver.abilities:
            caller.migrate(rig.hosts[0], rig.hosts[1], larger)
            host = rig.hosts[1]
        assert_has(guests_of(rig.driver)[guest.uuid], larger)
        caller.stop(host, guest)
        caller.remove_volume(rig.subjects.pool_uuid, larger.volumes[-1].uuid)
        assert rig.volumes() == set(volume_uuids(guest))

    def test_what_does_not_run_gets_no_devices(self, rig: Rig, caller: Caller) -> None:
        """A guest that does not run, or runs on another host, gets no device, and the error is permanent."""
        guest = rig.new_guest()
        for where in (0, 1):
            with pytest.raises(DriverError) as refused:
                caller.devices(rig.hosts[0], more(rig, guest))
            assert not refused.value.transient
            if where == 0:
                assert list(rig.driver.list_volumes()) == []
                caller.run(rig.hosts[1], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
