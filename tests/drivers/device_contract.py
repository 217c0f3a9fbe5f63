"""What any driver must keep when running guests get or lose devices; mixed into ``DriverContract``'s subclass."""

from dataclasses import replace

import pytest

from bulkdeploy.drivers.driver import DriverError, Guest, GuestSpec, PowerState
from tests.drivers.contract import Rig
from tests.drivers.subjects import POOL, Caller, guests_of, new_guest, new_nic, new_volume, volume_uuids


def more(guest: GuestSpec) -> GuestSpec:
    """The guest with one more volume and one more nic."""
    return replace(guest, volumes=(*guest.volumes, new_volume()), nics=(*guest.nics, new_nic()))


def assert_has(there: Guest, guest: GuestSpec) -> None:
    """The guest runs with these devices and no others; a hypervisor need not know its nics."""
    assert there.power is PowerState.RUNNING
    assert there.volume_uuids == set(volume_uuids(guest))
    assert there.nic_uuids is None or there.nic_uuids == {nic.uuid for nic in guest.nics}


class DeviceContract:
    """A running guest has the devices that it was given last, all of them or those before."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_running_guest_gets_devices_and_loses_them(self, rig: Rig, caller: Caller, times: int) -> None:
        """New volumes are made, asked once or often; what it loses stays on its pool, for the next guest."""
        guest, other = new_guest(), new_guest()
        for one in (guest, other):
            caller.run(rig.hosts[0], one)
        larger = more(guest)
        for _ in range(times):
            caller.devices(rig.hosts[0], larger)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)
        (made,) = set(volume_uuids(larger)) - set(volume_uuids(guest))
        assert (made, POOL, larger.volumes[-1].size_bytes) in set(rig.driver.list_volumes())
        for _ in range(times):
            caller.devices(rig.hosts[0], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
        assert made in {volume[0] for volume in rig.driver.list_volumes()}
        taking = replace(other, volumes=(*other.volumes, larger.volumes[-1]))
        caller.devices(rig.hosts[0], taking)
        assert_has(guests_of(rig.driver)[other.uuid], taking)

    def test_a_volume_in_use_is_not_shared(self, rig: Rig, caller: Caller) -> None:
        """What one guest has no other gets, running or starting, and it can not be removed."""
        guest, other = new_guest(), new_guest()
        for one in (guest, other):
            caller.run(rig.hosts[0], one)
        larger = more(guest)
        caller.devices(rig.hosts[0], larger)
        with pytest.raises(DriverError):
            caller.devices(rig.hosts[0], replace(other, volumes=(*other.volumes, larger.volumes[-1])))
        with pytest.raises(DriverError):
            caller.remove_volume(POOL, larger.volumes[-1].uuid)
        assert_has(guests_of(rig.driver)[other.uuid], other)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)

    def test_a_failed_change_is_undone_by_its_opposite(self, rig: Rig, caller: Caller) -> None:
        """Then the guest has what it had, a volume that was made for it is nobody's, and the next call gives it."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        larger = more(guest)
        rig.fail_next("devices")
        with pytest.raises(DriverError) as failed:
            caller.devices(rig.hosts[0], larger)
        assert failed.value.step == "devices"
        caller.devices(rig.hosts[0], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
        caller.remove_volume(POOL, larger.volumes[-1].uuid)
        assert {volume[0] for volume in rig.driver.list_volumes()} == set(volume_uuids(guest))
        caller.devices(rig.hosts[0], larger)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)

    def test_devices_go_with_the_guest(self, rig: Rig, caller: Caller) -> None:
        """They move with it, and once it is stopped nobody uses them."""
        guest = new_guest()
        caller.run(rig.hosts[0], guest)
        larger = more(guest)
        caller.devices(rig.hosts[0], larger)
        caller.migrate(rig.hosts[0], rig.hosts[1], larger)
        assert_has(guests_of(rig.driver)[guest.uuid], larger)
        caller.stop(rig.hosts[1], guest)
        caller.remove_volume(POOL, larger.volumes[-1].uuid)
        assert {volume[0] for volume in rig.driver.list_volumes()} == set(volume_uuids(guest))

    def test_what_does_not_run_gets_no_devices(self, rig: Rig, caller: Caller) -> None:
        """A guest that is not there, or on another host, is an error that stays, and nothing is made."""
        guest = new_guest()
        for where in (0, 1):
            with pytest.raises(DriverError) as refused:
                caller.devices(rig.hosts[0], more(guest))
            assert not refused.value.transient
            if where == 0:
                assert list(rig.driver.list_volumes()) == []
                caller.run(rig.hosts[1], guest)
        assert_has(guests_of(rig.driver)[guest.uuid], guest)
