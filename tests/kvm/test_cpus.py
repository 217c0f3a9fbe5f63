"""The CPU of guests is what all hosts of their cluster can give: two daemons, of which one can do less."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from signal import SIGTERM
from typing import Any
from xml.etree import ElementTree as Tree

import pytest
import structlog
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import Caller, Subjects, guests_of
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from tests.kvm.fixed_records import POOL, TEMPLATE, FixedRules, address_of, driver_on
from tests.support.hypervisors.libvirt_hosts import LibvirtHost, LibvirtHosts, libvirt_hosts, why_not

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

SUBJECTS = Subjects(pool_uuid=POOL, template_uuid=TEMPLATE, memory_mib=32)
LACKING = "avx2"
"""What emulated guests have, but not those of the weaker host."""


@dataclass(frozen=True)
class Cluster:
    """Two hosts, and what they say."""

    hosts: LibvirtHosts
    engine: Engine
    folder: Path

    def driver(self, *described: str | None, **options: Any) -> AbstractContextManager[HypervisorDriver]:
        """The driver, in a process of its own, where hosts of the cluster said this."""
        return driver_on(
            self.hosts, self.engine, self.folder, FixedRules(), hardware=frozenset(described), **options
        )

    def admitted(self, number: int, *others: str, **options: object) -> str:
        """What a host says as it is added to these others."""
        host = self.hosts.hosts[number]
        with self.driver(**options) as driver:
            promise = HostPromise(Decimal(1), Decimal(1), 50)
            new = NewHost(host.uuid, "KVM", HostAccess(host.url), promise, frozenset(others))
            described = driver.admit_host(new, timeout_s=30).guest_hardware
        assert described is not None
        return described

    def cpu_of(self, number: int, guest: GuestSpec) -> Tree.Element:
        """The CPU of a guest that runs there, and its machine type as an attribute of it."""
        import libvirt

        connection = libvirt.open(self.hosts.hosts[number].url.split("#")[0])
        try:
            root = Tree.fromstring(connection.lookupByUUID(guest.uuid.bytes).XMLDesc())  # noqa: S314
        finally:
            connection.close()
        cpu = root.find("cpu")
        assert cpu is not None
        cpu.set("machine", root.find("os/type").get("machine", ""))  # type: ignore[union-attr]
        return cpu


def features_of(cpu: Tree.Element, policy: str = "require") -> set[str]:
    """Features that a CPU has beside those of its model."""
    return {one.get("name", "") for one in cpu.findall("feature") if one.get("policy", "require") == policy}


def weaken(host: LibvirtHost) -> None:
    """Let a daemon know less of its QEMU than there is: what it remembers of that lacks a feature."""
    host.signal(SIGTERM)
    (remembered,) = (host.folder / "cache").rglob("capabilities/*.xml")
    text = remembered.read_text()
    weaker = re.sub(rf"(<property name='{LACKING}' type='boolean' value=)'true'", r"\1'false'", text)
    assert weaker != text
    remembered.write_text(weaker)
    host.start()
    host.wait()


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[LibvirtHosts]:
    """Two, of which the second has weaker guests."""
    import libvirt

    with libvirt_hosts(2) as made:
        weaker = made.hosts[1]
        connection = libvirt.open(weaker.url.split("#")[0])
        connection.getDomainCapabilities(None, "x86_64", "pc", "qemu", 0)
        connection.close()
        weaken(weaker)
        yield made


@pytest.fixture
def cluster(two_hosts: LibvirtHosts, engine: Engine, tmp_path: Path) -> Iterator[Cluster]:
    """The two, without guests."""
    yield Cluster(two_hosts, engine, tmp_path)
    two_hosts.clear()


def test_guests_have_what_all_hosts_of_their_cluster_can_give(cluster: Cluster) -> None:
    """So they go wherever they are sent, and take their CPU along, for as long as they run."""
    described = [cluster.admitted(number) for number in (0, 1)]
    strong, weak = (Tree.fromstring(one) for one in described)  # noqa: S314
    assert strong.findtext("cpu/model") != weak.findtext("cpu/model") or LACKING in features_of(weak[-1], "disable")
    guest = SUBJECTS.new_guest()
    source, destination = map(address_of, cluster.hosts.hosts)
    with cluster.driver(*described) as driver:
        Caller(driver).run(source, guest)
        before = cluster.cpu_of(0, guest)
        assert (before.get("mode"), before.get("machine")) == ("custom", strong.get("machine"))
        assert LACKING not in features_of(before)
        Caller(driver).migrate(source, destination, guest)
    with cluster.driver(*described) as driver:
        after = cluster.cpu_of(1, guest)
        assert (after.findtext("model"), features_of(after)) == (before.findtext("model"), features_of(before))
        Caller(driver).run(destination, guest)
        Caller(driver).migrate(destination, source, guest)
        assert guests_of(driver)[guest.uuid].host_uuid == source.uuid


def test_guests_start_beside_a_host_whose_cpu_their_own_libvirt_does_not_know(cluster: Cluster) -> None:
    """Such as one with a newer libvirt: they have what their host has, and the log says why."""
    strong = cluster.admitted(0)
    newer = strong.replace("</cpu>", '<feature policy="require" name="of-tomorrow"/></cpu>')
    guest = SUBJECTS.new_guest()
    with structlog.testing.capture_logs() as logged, cluster.driver(strong, newer) as driver:
        Caller(driver).run(address_of(cluster.hosts.hosts[0]), guest)
    assert cluster.cpu_of(0, guest).findtext("model")
    assert {one["event"] for one in logged if one["log_level"] == "warning"} == {"cluster_cpu_unknown"}


def test_a_weaker_host_lowers_what_guests_get_and_those_that_run_do_not_move_to_it(cluster: Cluster) -> None:
    """It is added, and the log says what guests have that it has not; a guest that is started anew goes there."""
    strong = cluster.admitted(0)
    guest = SUBJECTS.new_guest()
    source, destination = map(address_of, cluster.hosts.hosts)
    with cluster.driver(strong) as driver:
        Caller(driver).run(source, guest)
        with structlog.testing.capture_logs() as logged:
            weak = cluster.admitted(1, strong)
        assert [(one["event"], one["host"], LACKING in one["lacking"]) for one in logged] == [
            ("cluster_cpu_lowered", cluster.hosts.hosts[1].url, True)
        ]
        with pytest.raises(DriverError, match=rf"{LACKING}.*After a stop and start") as refused:
            Caller(driver).migrate(source, destination, guest)
        assert (refused.value.step, refused.value.transient) == ("migrate", False)
        assert guests_of(driver)[guest.uuid].host_uuid == source.uuid
        Caller(driver).stop(source, guest, forced=True)
    with cluster.driver(strong, weak) as driver:
        Caller(driver).run(source, guest)
        Caller(driver).migrate(source, destination, guest)
        assert guests_of(driver)[guest.uuid].host_uuid == destination.uuid


def test_a_host_that_has_nothing_in_common_is_refused(cluster: Cluster) -> None:
    """Of another maker, or with machine types of another distribution; the error says what helps."""
    described = Tree.fromstring(cluster.admitted(0))  # noqa: S314
    described[-1].find("model").text = "Haswell-noTSX"  # type: ignore[union-attr]
    described[-1].find("vendor").text = "Intel"  # type: ignore[union-attr]
    with pytest.raises(DriverError, match=r"CPU vendors do not match.*cluster of their own") as refused:
        cluster.admitted(0, Tree.tostring(described, encoding="unicode"))
    assert (refused.value.step, refused.value.transient) == ("connect", False)
    foreign = '<hardware machine="pc-rhel9"><knows machine="pc-rhel9"/><cpu><model>qemu64</model></cpu></hardware>'
    with pytest.raises(DriverError, match=r"machine type.*pc-rhel9.*driver\.libvirt\.machine"):
        cluster.admitted(0, foreign)


def test_guests_have_the_machine_type_of_the_oldest_qemu(cluster: Cluster) -> None:
    """Which newer ones know, too."""
    described = cluster.admitted(0)
    (known,) = {one.get("machine") for one in Tree.fromstring(described).findall("knows")} & {"pc-i440fx-5.2"}  # noqa: S314
    old = f'<hardware machine="{known}"><knows machine="{known}"/><cpu><model>qemu64</model></cpu></hardware>'
    guest = SUBJECTS.new_guest()
    with cluster.driver(described, old) as driver:
        Caller(driver).run(address_of(cluster.hosts.hosts[0]), guest)
        cpu = cluster.cpu_of(0, guest)
    assert (cpu.get("machine"), cpu.findtext("model")) == (known, "qemu64")


def test_guests_of_hosts_that_were_not_asked_are_as_their_host_is(cluster: Cluster) -> None:
    """Hosts of before, until they are reconnected; and where the option says so."""
    described = cluster.admitted(1)
    unknown: tuple[str | None, ...] = (described, None)
    for hardware, options in ((unknown, {}), ((described,), {"cpu_model": "host-model"})):
        guest = SUBJECTS.new_guest()
        with cluster.driver(*hardware, **options) as driver:
            Caller(driver).run(address_of(cluster.hosts.hosts[0]), guest)
        cpu = cluster.cpu_of(0, guest)
        alone = Tree.fromstring(cluster.admitted(0))[-1]  # noqa: S314
        assert cpu.findtext("model") == alone.findtext("model")
        assert features_of(cpu, "disable") == features_of(alone, "disable")
