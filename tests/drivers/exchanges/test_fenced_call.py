"""A call that was overtaken is told so in each of its steps, as the loss of its lease and not as a defect."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.errors import DriverError, StaleFence
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.records import FencedGuest, Fences
from bulkdeploy.wiring.driver_records import records_in
from tests.support.zones.fleet import template_database

__all__ = ["template_database"]

LEFT, RIGHT = (
    HostAddress(UUID(int=number), name, "192.0.2.1", "KVM") for number, name in ((1, "left"), (2, "right"))
)


@pytest.fixture
def fences(engine: Engine) -> Fences:
    """The fences of a driver for KVM."""
    return records_in(engine, lambda hypervisor: hypervisor == "KVM").fences


def call(fences: Fences, guest: UUID, fence: int, host: HostAddress = LEFT) -> FencedCall:
    """A call about a guest."""
    return FencedCall(fences, host, guest, fence, 1.0)


@pytest.mark.parametrize(
    "step",
    [
        lambda late: late.raise_fence("migrate"),
        lambda late: late.claim("migrate", []),
        lambda late: late.move("migrate", LEFT, RIGHT),
        lambda late: late.store_details("migrate", {"a": 1}),
        lambda late: late.check_fence("migrate"),
    ],
    ids=["raise", "claim", "move", "store", "check"],
)
def test_every_step_of_an_overtaken_call_is_refused(fences: Fences, step: Callable[[FencedCall], object]) -> None:
    """The error names step, host and guest, and the record stays as the later call left it."""
    guest = uuid4()
    call(fences, guest, 5).claim("boot", [])
    with pytest.raises(StaleFence, match=f"migrate failed on host left: fence 4 of guest {guest} was overtaken"):
        step(call(fences, guest, 4))
    assert fences.raise_fence(guest, 5) == FencedGuest(LEFT.uuid)


def test_a_move_is_recorded_until_it_has_ended(fences: Fences) -> None:
    """Meanwhile the guest may be on both hosts; then a call at the first one is refused."""
    guest = uuid4()
    moving = call(fences, guest, 1, RIGHT)
    call(fences, guest, 1).claim("boot", [])
    moving.move("migrate", LEFT, RIGHT)
    assert call(fences, guest, 1).fenced_here("look").host_uuids == {LEFT.uuid, RIGHT.uuid}
    moving.move("migrate", RIGHT, None)
    with pytest.raises(DriverError, match=f"guest {guest} is on another host") as refused:
        call(fences, guest, 1).fenced_here("look")
    assert not refused.value.may_pass


def test_details_are_replaced_as_a_whole(fences: Fences) -> None:
    """What a driver stores of a guest comes back with the guest's record."""
    guest = uuid4()
    call(fences, guest, 1).claim("boot", [])
    for details in ({"a": 1, "b": [2]}, {"c": None}):
        call(fences, guest, 1).store_details("boot", details)
        assert call(fences, guest, 1).raise_fence("boot").details == details
