"""The contract of drivers that apply security groups."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from bulkdeploy.domain.networks.security_group_rules import Direction, Protocol, Rule, Traffic
from bulkdeploy.drivers.abilities.migration import LiveMigration
from bulkdeploy.drivers.abilities.security_groups import SecurityGroupFilters
from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, AbilityContract, Caller, Rig, guests_of
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAddress

WEB = Rule(Direction.INGRESS, Traffic(Protocol.TCP, 80, 90), "10.0.0.0/8")
PING = Rule(Direction.INGRESS, Traffic(Protocol.ICMP, icmp_type=8, icmp_code=-1), "192.0.2.0/24")
NAMES = Rule(Direction.EGRESS, Traffic(Protocol.UDP, 53, 53), "192.0.2.53/32")
EVERYTHING = Rule(Direction.INGRESS, Traffic(Protocol.ALL), "2001:db8::/32")


@dataclass(frozen=True)
class Filtering:
    """A driver with guests in security groups.

    Attributes:
        rig: the driver, on hosts that filter.
        give: sets the rules that the driver's ``Records.security_rules`` returns for a guest from now on.
        applied: returns the rules that a host applies to a guest, without those that every guest needs, or None if
            the guest is not filtered.
    """

    rig: Rig
    give: Callable[[UUID, frozenset[Rule]], None]
    applied: Callable[[HostAddress, UUID], frozenset[Rule] | None]


class SecurityGroupContract(AbilityContract, of=SecurityGroupFilters):
    """The contract that a guest has its rules wherever it runs.

    Subclasses define the fixture ``filtering``, a ``Filtering``.
    """

    def test_a_guest_starts_with_its_rules_and_gets_others(self, filtering: Filtering) -> None:
        """A guest is filtered by its rules from its start and after each change of the rules.

        A guest in no group is not filtered.
        """
        rig = filtering.rig
        caller, guest, free = Caller(rig.driver, timeout_s=rig.patience_s), rig.new_guest(), rig.new_guest()
        filtering.give(guest.uuid, frozenset({WEB, PING}))
        for one in (guest, free):
            caller.run(rig.hosts[0], one)
        assert filtering.applied(rig.hosts[0], guest.uuid) == frozenset({WEB, PING})
        assert filtering.applied(rig.hosts[0], free.uuid) is None
        for rules in map(frozenset, ({PING, NAMES, EVERYTHING}, {NAMES}, set[Rule](), {WEB})):
            filtering.give(guest.uuid, rules)
            for _ in range(2):
                SecurityGroupFilters.of(rig.driver).ensure_filters(rig.hosts[0], [guest.uuid], timeout_s=PATIENCE_S)
            assert filtering.applied(rig.hosts[0], guest.uuid) == rules
        assert guests_of(rig.driver)[guest.uuid].power is PowerState.RUNNING

    def test_rules_go_with_the_guest(self, filtering: Filtering) -> None:
        """The rules of a guest are applied on its new host after a migration, and removed when it stops."""
        rig, host = filtering.rig, filtering.rig.hosts[0]
        caller, guest = Caller(rig.driver, timeout_s=rig.patience_s), rig.new_guest()
        filtering.give(guest.uuid, frozenset({WEB}))
        caller.run(host, guest)
        if LiveMigration in rig.driver.abilities:
            caller.migrate(host, rig.hosts[1], guest)
            assert filtering.applied(host, guest.uuid) is None
            host = rig.hosts[1]
        assert filtering.applied(host, guest.uuid) == frozenset({WEB})
        filtering.give(guest.uuid, frozenset({PING}))
        SecurityGroupFilters.of(rig.driver).ensure_filters(host, [guest.uuid], timeout_s=PATIENCE_S)
        assert filtering.applied(host, guest.uuid) == frozenset({PING})
        caller.stop(host, guest)
        assert filtering.applied(host, guest.uuid) is None

    def test_what_does_not_run_is_left_out(self, filtering: Filtering) -> None:
        """A guest that does not run is omitted, and the rules of the other guests are applied."""
        rig = filtering.rig
        caller, guest, absent = Caller(rig.driver, timeout_s=rig.patience_s), rig.new_guest(), rig.new_guest()
        for one in (guest, absent):
            filtering.give(one.uuid, frozenset({WEB}))
        caller.run(rig.hosts[0], guest)
        filtering.give(guest.uuid, frozenset({PING}))
        both = [absent.uuid, guest.uuid]
        assert [*SecurityGroupFilters.of(rig.driver).ensure_filters(rig.hosts[0], both, timeout_s=PATIENCE_S)] == [
            guest.uuid
        ]
        assert filtering.applied(rig.hosts[0], guest.uuid) == frozenset({PING})
