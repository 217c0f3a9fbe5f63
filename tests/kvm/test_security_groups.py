"""Rules of security groups as packets meet them: what of all that is sent to a running guest reaches its nic."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulkdeploy.domain.networks.security_group_rules import Direction, Protocol, Rule, Traffic
from bulkdeploy.drivers.abilities.security_groups import SecurityGroupFilters
from bulkdeploy.drivers.contract import Caller, Subjects
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.guests import GuestSpec
from tests.kvm.fixed_records import POOL, TEMPLATE, FixedRules, address_of, driver_on
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, why_not
from tests.support.hypervisors.libvirt_networks import BridgedHost, join, run_in_network

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

GUEST, NEIGHBOUR = "10.8.0.11", "10.8.0.99"
PORTS = (7, 53, 80)
LONG_S = 240.0
"""Hosts may be slow where much else runs: what is tried here is which packets pass."""


SENDING = """
import socket, sys
for port in map(int, sys.argv[2:]):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", (sys.argv[1], port))
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind(("", 67))
end.sendto(b"", (sys.argv[1], 68))
"""
"""UDP to these ports, and then as a DHCP server answers, which every guest hears."""

HEARING = """
import socket, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
tap.bind((sys.argv[1], 0))
print("ready", flush=True)
port = 0
while port != 68:
    packet = tap.recv(2000)
    if packet[12:14] == b"\\x08\\x00" and packet[23] == 17:
        port = int.from_bytes(packet[36:38], "big")
        print(port, flush=True)
"""
"""The UDP ports of what goes out of a host by a guest's tap, which is the guest's nic, until that answer."""


@dataclass(frozen=True)
class Yard:
    """Two hosts, a driver, and a neighbour on the same network that is on neither."""

    hosts: Sequence[BridgedHost]
    driver: HypervisorDriver
    rules: FixedRules
    neighbour: int

    def heard(self, host: int, guest: GuestSpec) -> set[int]:
        """Which of PORTS reach the guest when the neighbour sends to them."""
        pid = self.hosts[host].pid
        (mac,) = {nic.mac_address for nic in guest.nics}
        (tap,) = (
            line.split()[0]
            for line in run_in_network(pid, "ip", "-brief", "link").splitlines()
            if line.startswith("vnet") and f"fe{mac[2:]}" in line
        )
        entry = ("ip", "neighbour", "replace", GUEST, "lladdr", mac, "dev", "outside")
        run_in_network(self.neighbour, *entry)
        with subprocess.Popen(
            ["nsenter", "--net", "--target", str(pid), "python3", "-c", HEARING, tap],
            stdout=subprocess.PIPE, text=True,
        ) as hearing:  # fmt: skip
            assert hearing.stdout is not None
            assert hearing.stdout.readline() == "ready\n"
            run_in_network(self.neighbour, "python3", "-c", SENDING, GUEST, *map(str, PORTS))
            return {int(port) for port in hearing.stdout} - {68}


@pytest.fixture
def yard(bridged: LibvirtHosts, engine: Engine, tmp_path: Path) -> Iterator[Yard]:
    """The neighbour's network lasts as long as a process in it."""
    hosts = [host for host in bridged.hosts if isinstance(host, BridgedHost)]
    rules = FixedRules()
    with (
        driver_on(bridged, engine, tmp_path, rules, network="bridge") as driver,
        subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1) as neighbour,
    ):
        assert neighbour.stdout is not None
        neighbour.stdout.readline()
        join(neighbour.pid, hosts[0].pid, "neighbour")
        run_in_network(neighbour.pid, "ip", "address", "add", f"{NEIGHBOUR}/16", "dev", "outside")
        yield Yard(hosts, driver, rules, neighbour.pid)
        neighbour.kill()


def let_in(port: int, cidr: str) -> Rule:
    """UDP to a port of the guest."""
    return Rule(Direction.INGRESS, Traffic(Protocol.UDP, port, port), cidr)


def test_packets_reach_a_guest_as_its_rules_say(yard: Yard) -> None:
    """From the start on, after each change while it runs, and where it moves, whatever rules others have."""
    subjects = Subjects(pool_uuid=POOL, template_uuid=TEMPLATE, memory_mib=32)
    guest = subjects.new_guest()
    nic = replace(guest.nics[0], ip_address=GUEST)
    guest = replace(guest, nics=(nic,))
    caller, first, second = Caller(yard.driver, timeout_s=LONG_S), *map(address_of, yard.hosts)
    yard.rules.rules[guest.uuid] = frozenset({let_in(80, f"{NEIGHBOUR}/32"), let_in(7, "10.9.0.0/16")})
    caller.run(first, guest)
    assert yard.heard(0, guest) == {80}
    for rules, heard in (
        ({let_in(80, "10.8.0.0/24"), let_in(53, "0.0.0.0/0")}, {53, 80}),
        (set(), set()),
        ({Rule(Direction.INGRESS, Traffic(Protocol.ALL), f"{NEIGHBOUR}/32")}, {7, 53, 80}),
        ({let_in(53, f"{NEIGHBOUR}/32")}, {53}),
    ):
        yard.rules.rules[guest.uuid] = frozenset(rules)
        SecurityGroupFilters.of(yard.driver).ensure_filters(first, [guest.uuid], timeout_s=LONG_S)
        assert yard.heard(0, guest) == heard
    caller.migrate(first, second, guest)
    assert yard.heard(1, guest) == {53}
    yard.rules.rules[guest.uuid] = frozenset({let_in(7, f"{NEIGHBOUR}/32")})
    SecurityGroupFilters.of(yard.driver).ensure_filters(second, [guest.uuid], timeout_s=LONG_S)
    assert yard.heard(1, guest) == {7}


def test_a_guest_in_no_group_is_let_alone(yard: Yard) -> None:
    """Everything reaches it, whatever the rules of others are."""
    subjects = Subjects(pool_uuid=POOL, template_uuid=TEMPLATE, memory_mib=32)
    guest, other = subjects.new_guest(), subjects.new_guest()
    guest = replace(guest, nics=(replace(guest.nics[0], ip_address=GUEST),))
    yard.rules.rules[other.uuid] = frozenset()
    caller, first = Caller(yard.driver), address_of(yard.hosts[0])
    for one in (other, guest):
        caller.run(first, one)
    assert yard.heard(0, guest) == set(PORTS)
