"""The contract of drivers that enlarge running guests."""

from dataclasses import replace

import pytest

from bulkdeploy.drivers.abilities.scaling import LiveScaling
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig, guests_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState


class ScalingContract(AbilityContract, of=LiveScaling):
    """The contract that a scaled guest has its new sizes, or its previous sizes after a failure."""

    def test_a_scaled_guest_has_its_sizes(self, rig: Rig, caller: Caller) -> None:
        """A guest continues with its new sizes. The call may be repeated; a failed call changes nothing."""
        guest = rig.new_guest()
        larger = replace(guest, cpu_number=2, memory_mib=2 * guest.memory_mib)
        caller.run(rig.hosts[0], guest)
        rig.fail_next("scale")
        with pytest.raises(DriverError) as failed:
            caller.scale(rig.hosts[0], larger)
        assert (failed.value.step, guests_of(rig.driver)[guest.uuid].cpu_number) == ("scale", 1)
        for _ in range(2):
            caller.scale(rig.hosts[0], larger)
        there = guests_of(rig.driver)[guest.uuid]
        assert (there.power, there.cpu_number, there.memory_mib) == (PowerState.RUNNING, 2, larger.memory_mib)

    def test_what_does_not_run_is_not_scaled(self, rig: Rig, caller: Caller) -> None:
        """Scaling a guest that does not run, or runs on another host, is a permanent error."""
        guest = rig.new_guest()
        for where in (0, 1):
            with pytest.raises(DriverError) as refused:
                caller.scale(rig.hosts[0], guest)
            assert not refused.value.transient
            if where == 0:
                caller.run(rig.hosts[1], guest)
