"""The contract of drivers that plug volumes and nics into running guests."""

from dataclasses import replace

import pytest

from bulkdeploy.drivers.abilities.devices import DeviceChanges, HotPlugNics
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of, volume_uuids
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import Guest, GuestSpec, PowerState


def more(rig: Rig, guest: GuestSpec) -> GuestSpec:
    """Return the guest with one more volume, and one more nic where nics can be plugged."""
    nics = (rig.subjects.new_nic(),) if HotPlugNics in rig.driver.abilities else ()
    return replace(guest, volumes=(*guest.volumes, rig.subjects.new_volume()), nics=(*guest.nics, *nics))


def assert_has(there: Guest, guest: GuestSpec) -> None:
    """The guest runs with these devices and no others; a hypervisor need not know its nics."""
    assert there.power is PowerState.RUNNING
    assert there.volume_uuids == set(volume_uuids(guest))
    assert there.nic_uuids is None or there.nic_uuids == {nic.uuid for nic in guest.nics}


class DeviceContract(AbilityContract, of=DeviceChanges):
    """A running guest has the devices that it was given last, all of them or those before."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_running_guest_gets_devices_and_loses_them(self, rig: Rig, caller: Caller, times: int) -> None:
        """New volumes are made, asked once or often; what it loses stays on its pool, for the next guest."""
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
        """A volume that some guest had before is never made anew; the guest runs on with what it had."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        lost = replace(rig.subjects.new_volume(), was_made=True)
        with pytest.raises(DriverError) as refused:
            caller.devices(rig.hosts[0], replace(guest, volumes=(*guest.volumes, lost)))
        assert not refused.value.transient
        assert rig.volumes() == set(volume_uuids(guest))
        assert_has(guests_of(rig.driver)[guest.uuid], guest)

    def test_a_volume_grows_as_it_is_plugged(self, rig: Rig, caller: Caller) -> None:
        """An existing volume gets the size with which it is plugged; others stay as they are."""
        guest, added = rig.new_guest(), rig.subjects.new_volume()
        caller.run(rig.hosts[0], guest)
        grown = replace(added, size_bytes=2 * added.size_bytes)
        for volumes in ((added,), (), (grown,)):
            caller.devices(rig.hosts[0], replace(guest, volumes=(*guest.volumes, *volumes)))
        sizes = {uuid: size for uuid, _, size in rig.driver.list_volumes()}
        assert sizes == {volume.uuid: volume.size_bytes for volume in (*guest.volumes, grown)}

    def test_a_volume_in_use_is_not_shared(self, rig: Rig, caller: Caller) -> None:
        """A volume of a running or starting guest is given to no other guest, and cannot be removed."""
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
        """The guest has what it had, a volume made for it is unattached, and the next call attaches it."""
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
        """Plugged devices move with their guest if it can move, and are free once it is stopped."""
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
        """A guest that is not there, or on another host, is an error that stays, and nothing is made."""
        guest = rig.new_guest()
        for where in (0, 1):
            with pytest.raises(DriverError) as refused:
                caller.devices(rig.hosts[0], more(rig, guest))
            assert not refused.value.transient
            if where == 0:
                assert list(rig.driver.list_volumes()) == []
                caller.run(rig.hosts[1], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
