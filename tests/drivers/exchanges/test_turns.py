"""Calls of one guest in one process."""

from uuid import uuid4

import pytest

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.turns import Turns


def test_a_turn_that_does_not_come_is_an_error_that_passes() -> None:
    """The call under way may change the guest yet. Calls of other guests do not wait; the next one has its turn."""
    turns, guest = Turns(), uuid4()
    with turns.of(guest, "boot", "kvm1", timeout_s=60), turns.of(uuid4(), "boot", "kvm1", timeout_s=0):
        with pytest.raises(DriverError) as refused, turns.of(guest, "stop", "kvm1", timeout_s=0):
            pass
        assert (refused.value.step, refused.value.host) == ("stop", "kvm1")
        assert (refused.value.transient, refused.value.unanswered) == (True, True)
    with turns.of(guest, "stop", "kvm1", timeout_s=0):
        pass
