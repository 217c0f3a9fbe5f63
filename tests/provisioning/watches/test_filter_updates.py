"""The sweeper gives running guests the rules of their security groups, and again when these change."""

from collections.abc import Collection, Sequence
from uuid import UUID

import pytest

from bulkdeploy.drivers.abilities.security_groups import SecurityGroupFilters
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.provisioning.watches.filter_updates import FilterUpdates
from bulkdeploy.wiring.driver_records import records_in
from tests.support.processes.services import unique_name
from tests.support.zones.fleet import Fleet, OneDriver


class Firewall(OneDriver):
    """Hosts that remember what each guest may receive and send, in words."""

    abilities = frozenset({SecurityGroupFilters})
    silent = False

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(self)
        self._rules = records_in(fleet.engine, lambda _: True).security_rules
        self.applied: dict[UUID, set[str]] = {}
        self.calls = 0
        self.without_filter: set[UUID] = set()

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Do as the rows say, or fail."""
        del timeout_s
        self.calls += 1
        if self.silent:
            raise DriverError("filter", host.name, "silent", transient=True)
        filtered = [uuid for uuid in guest_uuids if uuid not in self.without_filter]
        for uuid, rules in self._rules.of(filtered).items():
            self.applied[uuid] = {f"{rule.direction} {rule.traffic.start_port} {rule.cidr}" for rule in rules}
        return filtered


@pytest.fixture
def firewall(fleet: Fleet) -> Firewall:
    """No guest has rules yet."""
    return Firewall(fleet)


@pytest.fixture
def sweep(fleet: Fleet, firewall: Firewall) -> FilterUpdates:
    """The pass."""
    return FilterUpdates(fleet.engine, firewall, 1.0)


def group(fleet: Fleet, kind: str, vm_ids: Collection[int]) -> int:
    """A security group with these VMs."""
    name = unique_name(kind)
    fleet.zone.change(
        "INSERT INTO security_groups (uuid, name, account_id) VALUES (gen_random_uuid(), :name, 1)", name=name
    )
    number = int(fleet.zone.scalar("SELECT id FROM security_groups WHERE name = :name", name=name))
    fleet.zone.change(
        "INSERT INTO vm_security_groups SELECT v, :group FROM unnest(CAST(:vms AS bigint[])) v",
        group=number, vms=list(vm_ids),
    )  # fmt: skip
    return number


def allow(fleet: Fleet, group_id: int, port: int, *, cidr: str | None = None, peer: int | None = None) -> None:
    """A rule for one port."""
    fleet.zone.change(
        "INSERT INTO security_group_rules (uuid, security_group_id, direction, protocol, start_port, end_port,"
        " cidr, peer_group_id) VALUES (gen_random_uuid(), :group, 'ingress', 'tcp', :port, :port, :cidr, :peer)",
        group=group_id, port=port, cidr=cidr, peer=peer,
    )  # fmt: skip


def test_guests_follow_the_rules_of_their_groups(fleet: Fleet, firewall: Firewall, sweep: FilterUpdates) -> None:
    """Each once, when they begin and when rules change; other guests are not touched."""
    fleet.deploy(3)
    fleet.run()
    first, second, free = fleet.vms()
    web = group(fleet, "web", [first.id, second.id])
    allow(fleet, web, 80, cidr="10.0.0.0/8")
    sweep.update_filters()
    assert firewall.applied == {vm.uuid: {"ingress 80 10.0.0.0/8"} for vm in (first, second)}
    assert free.uuid not in firewall.applied
    calls = firewall.calls
    sweep.update_filters()
    assert firewall.calls == calls
    fleet.zone.change("DELETE FROM security_group_rules WHERE security_group_id = :web", web=web)
    sweep.update_filters()
    assert firewall.applied == {first.uuid: set(), second.uuid: set()}


def test_a_guest_without_a_filter_is_asked_for_again(
    fleet: Fleet, firewall: Firewall, sweep: FilterUpdates
) -> None:
    """It ran before there were filters: others have their rules, and it gets its own once it can."""
    fleet.deploy(2)
    fleet.run()
    old, new = fleet.vms()
    allow(fleet, group(fleet, "web", [old.id, new.id]), 80, cidr="10.0.0.0/8")
    firewall.without_filter = {old.uuid}
    for _ in range(2):
        sweep.update_filters()
        assert firewall.applied.keys() == {new.uuid}
    firewall.without_filter = set()
    sweep.update_filters()
    assert firewall.applied.keys() == {old.uuid, new.uuid}
    calls = firewall.calls
    sweep.update_filters()
    assert firewall.calls == calls


def test_groups_at_the_other_end_are_their_guests_addresses(
    fleet: Fleet, firewall: Firewall, sweep: FilterUpdates
) -> None:
    """A VM that joins them is let in, one that leaves is not any more."""
    fleet.deploy(3)
    fleet.run()
    server, client, late = fleet.vms()
    servers, clients = group(fleet, "servers", [server.id]), group(fleet, "clients", [client.id])
    allow(fleet, servers, 5432, peer=clients)

    def let_in() -> set[str]:
        sweep.update_filters()
        return {rule.split()[2] for rule in firewall.applied[server.uuid]}

    def addresses(*vm_ids: int) -> set[str]:
        found = fleet.zone.rows(
            "SELECT host(ip_address) || '/32' AS cidr FROM nics WHERE vm_id = ANY(:vms) AND removed IS NULL",
            vms=list(vm_ids),
        )
        return {row.cidr for row in found}

    assert let_in() == addresses(client.id)
    fleet.zone.change("INSERT INTO vm_security_groups VALUES (:vm, :group)", vm=late.id, group=clients)
    assert let_in() == addresses(client.id, late.id)
    fleet.zone.change("DELETE FROM vm_security_groups WHERE vm_id = :vm", vm=client.id)
    assert let_in() == addresses(late.id)


def test_what_a_host_did_not_take_is_given_again(fleet: Fleet, firewall: Firewall, sweep: FilterUpdates) -> None:
    """A host that fails is asked in the next round, as is one to which two sweepers spoke at once."""
    fleet.deploy(1)
    fleet.run()
    (vm,) = fleet.vms()
    web = group(fleet, "web", [vm.id])
    allow(fleet, web, 80, cidr="10.0.0.0/8")
    firewall.silent = True
    sweep.update_filters()
    assert firewall.applied == {}
    firewall.silent = False
    sweep.update_filters()
    assert firewall.applied == {vm.uuid: {"ingress 80 10.0.0.0/8"}}
    fleet.zone.change("UPDATE guest_filters SET digest = 'of other rules'")
    fleet.zone.change("UPDATE security_group_rules SET start_port = 81 WHERE security_group_id = :web", web=web)
    slow = FilterUpdates(fleet.engine, Overtaken(fleet, sweep), 1.0)
    slow.update_filters()
    firewall.applied.clear()
    sweep.update_filters()
    assert firewall.applied == {vm.uuid: {"ingress 81 10.0.0.0/8"}}


class Overtaken(Firewall):
    """Hosts that another sweeper reaches while this one speaks to them."""

    def __init__(self, fleet: Fleet, other: FilterUpdates) -> None:
        super().__init__(fleet)
        self._other = other

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Let the other one go first."""
        self._other.update_filters()
        return super().ensure_filters(host, guest_uuids, timeout_s=timeout_s)
