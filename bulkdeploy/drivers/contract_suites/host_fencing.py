"""The contract of drivers that can fence hosts."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, THREADS, AbilityContract, Caller, Rig, guests_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec


class HostFencingContract(AbilityContract, of=HostFencing):
    """The contract of fencing: no guest runs or starts on a fenced host until the host is admitted again.

    Volumes in shared pools are kept. Subclasses define the fixtures ``rig`` and ``caller``.
    """

    def test_nothing_runs_on_a_fenced_host(self, rig: Rig, caller: Caller) -> None:
        """The guests of a fenced host are gone, guests of other hosts continue, and volumes are kept."""
        lost, kept = rig.new_guest(), rig.new_guest()
        caller.run(rig.hosts[0], lost)
        caller.run(rig.hosts[1], kept)
        volumes = rig.volumes()
        HostFencing.of(rig.driver).ensure_fenced(rig.hosts[0], timeout_s=PATIENCE_S)
        assert guests_of(rig.driver).keys() == {kept.uuid}
        assert rig.volumes() == volumes

    def test_fencing_is_repeated_without_harm(self, rig: Rig) -> None:
        """Fencing may be repeated, because a worker that died does not know whether the host was fenced."""
        for _ in range(2):
            HostFencing.of(rig.driver).ensure_fenced(rig.hosts[0], timeout_s=PATIENCE_S)
        assert not rig.driver.answers(rig.hosts[0], timeout_s=PATIENCE_S)

    def test_nothing_starts_on_a_fenced_host(self, rig: Rig) -> None:
        """A start on a fenced host fails with a transient error, however high its fence is."""
        HostFencing.of(rig.driver).ensure_fenced(rig.hosts[0], timeout_s=PATIENCE_S)
        with pytest.raises(DriverError) as refused:
            Caller(rig.driver, fence=1 << 60, timeout_s=rig.patience_s).run(rig.hosts[0], rig.new_guest())
        assert refused.value.transient
        assert guests_of(rig.driver) == {}

    def test_its_guests_start_elsewhere(self, rig: Rig, caller: Caller) -> None:
        """The guests of a fenced host start on other hosts with their volumes and a higher fence."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        HostFencing.of(rig.driver).ensure_fenced(rig.hosts[0], timeout_s=PATIENCE_S)
        Caller(rig.driver, fence=2, timeout_s=rig.patience_s).run(rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid

    def test_starts_that_meet_the_fence_leave_nothing(self, rig: Rig, caller: Caller) -> None:
        """If starts and the fencing of their host run concurrently, no guest runs on the host afterwards."""

        def start(guest: GuestSpec) -> None:
            with suppress(DriverError):
                caller.run(rig.hosts[0], guest)

        with ThreadPoolExecutor(THREADS) as threads:
            starts = [threads.submit(start, rig.new_guest()) for _ in range(THREADS)]
            HostFencing.of(rig.driver).ensure_fenced(rig.hosts[0], timeout_s=PATIENCE_S)
            for one in starts:
                one.result()
        assert guests_of(rig.driver) == {}
