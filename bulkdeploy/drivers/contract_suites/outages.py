"""The contract of all drivers for hosts that die, fall silent and return."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, Caller, Rig, guests_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress


class DeclaredOffContract:
    """The contract for hosts that were declared off: their old guests end before new guests start.

    Subclasses define the fixture ``rig``, in which ``release`` must be set, and the fixture ``caller``.
    """

    def test_hosts_answer_for_themselves(self, rig: Rig) -> None:
        """A reachable host answers whether or not it has guests."""
        assert [rig.driver.answers(host, timeout_s=PATIENCE_S) for host in rig.hosts[:2]] == [True, True]

    def test_guests_that_still_run_end_before_the_host_takes_new_ones(self, rig: Rig, caller: Caller) -> None:
        """``end_leftovers`` stops a guest whose claim was released, and may be repeated.

        The guest then starts on another host with its volumes.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        volumes = rig.volumes()
        rig.release(guest.uuid)
        for _ in range(2):
            rig.driver.end_leftovers(rig.hosts[0], (), timeout_s=PATIENCE_S)
        assert [one for one in rig.driver.list_guests() if one.power is PowerState.RUNNING] == []
        assert rig.volumes() == volumes
        Caller(rig.driver, fence=2, timeout_s=rig.patience_s).run(rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid

    def test_guests_that_are_kept_and_guests_of_other_hosts_run_on(self, rig: Rig, caller: Caller) -> None:
        """``end_leftovers`` stops neither the guests in ``kept`` nor guests of other hosts."""
        kept, other = rig.new_guest(), rig.new_guest()
        caller.run(rig.hosts[0], kept)
        caller.run(rig.hosts[1], other)
        rig.driver.end_leftovers(rig.hosts[0], {kept.uuid}, timeout_s=PATIENCE_S)
        running = {uuid for uuid, guest in guests_of(rig.driver).items() if guest.power is PowerState.RUNNING}
        assert running == {kept.uuid, other.uuid}


@dataclass(frozen=True)
class Outage:
    """The functions with which a test cuts off a host and makes it reachable again.

    Attributes:
        cut_off: makes a host unreachable while its guests continue.
        bring_back: makes the host reachable again, and waits until its hypervisor has noticed this.
    """

    cut_off: Callable[[HostAddress], None]
    bring_back: Callable[[HostAddress], None]


class OutageContract:
    """The contract that guests of an unreachable host are never considered absent.

    Subclasses define the fixtures ``rig``, whose ``release`` is set, ``caller`` and ``outage``, an ``Outage``. They
    make all hosts reachable again after each test.
    """

    def test_only_the_silent_host_does_not_answer(self, rig: Rig, outage: Outage) -> None:
        """Only the unreachable host is reported as not answering, while the other hosts answer."""
        outage.cut_off(rig.hosts[0])
        assert [rig.driver.answers(host, timeout_s=PATIENCE_S) for host in rig.hosts[:2]] == [False, True]

    def test_guests_of_a_silent_host_are_not_missing(self, rig: Rig, caller: Caller, outage: Outage) -> None:
        """Lists of guests contain a guest of a silent host, or fail. They never omit the guest."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        outage.cut_off(rig.hosts[0])
        with suppress(DriverError):
            assert guest.uuid in {one.uuid for one in rig.driver.list_guests()}
        with suppress(DriverError):
            assert guest.uuid in {one.uuid for one in rig.driver.find_guest(guest.uuid)}
        with suppress(DriverError):
            assert caller.look(rig.hosts[0], guest) is PowerState.RUNNING

    def test_what_cannot_be_seen_is_unknown(self, rig: Rig, caller: Caller, outage: Outage) -> None:
        """The audit's lists contain all guests and volumes that can be read.

        A missing one is reported as unseen, or its host or pool is.
        """
        guests = [rig.new_guest(), rig.new_guest()]
        for host, guest in zip(rig.hosts, guests, strict=False):
            caller.run(host, guest)
        outage.cut_off(rig.hosts[0])
        unseen: dict[UUID, str] = {}
        seen = {guest.uuid for guest in rig.driver.list_seen_guests(unseen)}
        assert guests[0].uuid in seen or unseen.keys() & {guests[0].uuid, rig.hosts[0].uuid}
        assert guests[1].uuid in seen or unseen.keys() & {guests[1].uuid, rig.hosts[1].uuid}
        pools: dict[UUID, str] = {}
        volumes = {uuid for uuid, _, _ in rig.driver.list_seen_volumes(pools)}
        assert rig.subjects.pool_uuid in pools or volumes >= {
            volume.uuid for guest in guests for volume in guest.volumes
        }
        outage.bring_back(rig.hosts[0])
        unseen.clear()
        assert {guest.uuid for guest in rig.driver.list_seen_guests(unseen)} == {guest.uuid for guest in guests}
        assert unseen == {}

    def test_a_host_that_comes_back_with_guests_loses_them(self, rig: Rig, caller: Caller, outage: Outage) -> None:
        """A guest of a host that was declared off ends on the returning host, and runs once on its new host."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        outage.cut_off(rig.hosts[0])
        rig.release(guest.uuid)
        later = Caller(rig.driver, fence=2, timeout_s=rig.patience_s)
        # a lock on the guest's disk, or a disk on the silent host, may prevent the start
        with suppress(DriverError):
            later.run(rig.hosts[1], guest)
        outage.bring_back(rig.hosts[0])
        rig.driver.end_leftovers(rig.hosts[0], (), timeout_s=PATIENCE_S)
        later.run(rig.hosts[1], guest)
        assert {one.host_uuid for one in rig.driver.find_guest(guest.uuid)} == {rig.hosts[1].uuid}
        assert guests_of(rig.driver)[guest.uuid].power is PowerState.RUNNING
