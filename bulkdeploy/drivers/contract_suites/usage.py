"""The contract of drivers that measure the usage of hosts and guests."""

from bulkdeploy.domain.virtual_machines.usage import GuestUsage, HostUsage
from bulkdeploy.drivers.abilities.usage import UsageFigures
from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, AbilityContract, Caller, Rig
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress


def _usage(rig: Rig, host: HostAddress) -> HostUsage:
    (answer,) = UsageFigures.of(rig.driver).usage_of_hosts([host], timeout_s=PATIENCE_S)
    assert not isinstance(answer, DriverError), answer
    return answer


def _totals(usage: GuestUsage) -> tuple[int, ...]:
    traffic = (usage.received_bytes, usage.sent_bytes, usage.read_bytes, usage.written_bytes)
    return (usage.cpu_ns, *traffic, usage.reads, usage.writes)


class UsageContract(AbilityContract, of=UsageFigures):
    """The contract of usage figures: totals of running guests grow, and stopped guests have no figures.

    Subclasses define the fixtures ``rig`` and ``caller``.
    """

    def test_totals_grow_while_a_guest_runs(self, rig: Rig, caller: Caller) -> None:
        """Results are in the order of the hosts, and each guest is measured only on its own host.

        Totals never decrease while the guest runs.
        """
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        first, second = UsageFigures.of(rig.driver).usage_of_hosts(rig.hosts[:2], timeout_s=PATIENCE_S)
        assert isinstance(first, HostUsage)
        assert isinstance(second, HostUsage)
        assert (first.uuid, second.uuid) == (rig.hosts[0].uuid, rig.hosts[1].uuid)
        (before,) = [one for one in first.guests if one.uuid == guest.uuid]
        assert guest.uuid not in {one.uuid for one in second.guests}
        assert 0 < before.memory_kib <= guest.memory_mib * 1024 * 5
        later = _usage(rig, rig.hosts[0])
        (after,) = [one for one in later.guests if one.uuid == guest.uuid]
        assert all(new >= old for new, old in zip(_totals(after), _totals(before), strict=True))
        assert later.total_ns >= first.total_ns > first.busy_ns > 0
        assert later.memory_used_kib > 0

    def test_a_guest_that_does_not_run_is_not_measured(self, rig: Rig, caller: Caller) -> None:
        """A stopped guest has no figures."""
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        caller.stop(rig.hosts[0], guest)
        assert guest.uuid not in {one.uuid for one in _usage(rig, rig.hosts[0]).guests}
