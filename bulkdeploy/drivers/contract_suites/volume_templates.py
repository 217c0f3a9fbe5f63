"""The contract of drivers that create templates from volumes."""

from uuid import uuid4

import pytest

from bulkdeploy.drivers.abilities.volume_templates import VolumeTemplates
from bulkdeploy.drivers.contract_suites.subjects import AbilityContract, Caller, Rig
from bulkdeploy.drivers.errors import DriverError


class VolumeTemplateContract(AbilityContract, of=VolumeTemplates):
    """The contract that a volume of a stopped guest is copied into a template once."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_volume_of_a_stopped_guest_becomes_a_template(self, rig: Rig, caller: Caller, times: int) -> None:
        """The call may be repeated. The guest's volumes are not changed, and the guest starts again."""
        guest, template = rig.new_guest(), uuid4()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        before = set(rig.driver.list_volumes())
        for _ in range(times):
            caller.make_template(guest, guest.volumes[0], template)
        assert set(rig.driver.list_volumes()) == before
        caller.run(rig.hosts[0], guest)

    def test_a_guest_that_runs_or_has_no_volume_gives_no_template(self, rig: Rig, caller: Caller) -> None:
        """A running guest and a missing volume are permanent errors."""
        guest = rig.new_guest()
        for runs in (False, True):
            if runs:
                caller.run(rig.hosts[0], guest)
            with pytest.raises(DriverError) as refused:
                caller.make_template(guest, guest.volumes[0], uuid4())
            assert not refused.value.transient

    def test_a_copy_that_fails_is_tried_again(self, rig: Rig, caller: Caller) -> None:
        """The error of a failed copy names the step, and the next call makes the template."""
        guest, template = rig.new_guest(), uuid4()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        rig.fail_next("template")
        with pytest.raises(DriverError) as failed:
            caller.make_template(guest, guest.volumes[0], template)
        assert failed.value.step == "template"
        caller.make_template(guest, guest.volumes[0], template)
