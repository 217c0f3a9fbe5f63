"""The contract of drivers whose guests have drives for ISOs."""

from dataclasses import replace

from bulkdeploy.drivers.abilities.devices import HotPlugNics, HotPlugVolumes
from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of
from bulkdeploy.drivers.guests import PowerState


class IsoContract(AbilityContract, of=IsoDrives):
    """The contract that a guest's drive has the ISO of the last call, and that nothing else changes."""

    def test_a_running_guest_gets_an_iso_and_loses_it(self, rig: Rig, caller: Caller) -> None:
        """An ISO is inserted into the drive of a running guest and ejected again.

        Calls may be repeated.

        The ISO stays in the drive of a guest that migrates.
        """
        empty, host = rig.new_guest(), rig.hosts[0]
        loaded = replace(empty, iso_uuid=rig.subjects.iso_uuid)
        caller.run(host, empty)
        before = guests_of(rig.driver)[empty.uuid]
        assert (before.power, before.iso_uuid) == (PowerState.RUNNING, None)
        if rig.driver.abilities & {HotPlugVolumes, HotPlugNics}:
            caller.devices(host, loaded)  # its pool may not have the ISO
            assert guests_of(rig.driver)[empty.uuid] == before
        caller.ensure_iso(host, loaded)
        for _ in range(2):
            caller.drive(host, loaded)
        assert guests_of(rig.driver)[empty.uuid] == replace(before, iso_uuid=rig.subjects.iso_uuid)
        if LiveMigration in rig.driver.abilities:
            caller.migrate(host, rig.hosts[1], loaded)
            host = rig.hosts[1]
        assert guests_of(rig.driver)[empty.uuid].iso_uuid == rig.subjects.iso_uuid
        for _ in range(2):
            caller.drive(host, empty)
        assert guests_of(rig.driver)[empty.uuid].iso_uuid is None

    def test_a_guest_starts_with_an_iso(self, rig: Rig, caller: Caller) -> None:
        """Each start inserts the ISO of its specification. Removing the guest does not delete the ISO."""
        guest, host = rig.new_guest(), rig.hosts[0]
        loaded = replace(guest, iso_uuid=rig.subjects.iso_uuid)
        caller.ensure_iso(host, loaded)
        for wanted in (loaded, guest, loaded):
            caller.run(host, wanted)
            assert guests_of(rig.driver)[guest.uuid].iso_uuid == wanted.iso_uuid
            caller.stop(host, guest, forced=True)
        caller.remove(host, guest)
        other = replace(rig.new_guest(), iso_uuid=rig.subjects.iso_uuid)
        caller.run(host, other)
        assert guests_of(rig.driver)[other.uuid].iso_uuid == rig.subjects.iso_uuid
