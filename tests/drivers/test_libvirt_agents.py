"""A guest agent that hangs delays no answers of the other guests of its host."""

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestCheck
from bulkdeploy.drivers.hosts import HostAddress
from tests.support.runs.waiting import PATIENCE_S

pytest.importorskip("libvirt", reason="needs pip install 'bulkdeploy[libvirt]'")
libvirt_driver = pytest.importorskip("bulkdeploy.drivers.libvirt.driver")
qemu_monitor = pytest.importorskip("bulkdeploy.drivers.libvirt.qemu_monitor")
connections = pytest.importorskip("bulkdeploy.drivers.libvirt.connections")

HOST = HostAddress(uuid4(), "host", "10.0.0.1", "KVM", "qemu+ssh://host/system")


def _driver(run: Callable[..., Any]) -> Any:
    driver = object.__new__(libvirt_driver.LibvirtDriver)
    driver._links = SimpleNamespace(run=run)
    return driver


def _answers(driver: Any, guests: list[UUID], timeout_s: float) -> Any:
    checks = [GuestCheck(HOST, guest, None, HealthCheck()) for guest in guests]
    return driver.answers_of_guests(checks, timeout_s=timeout_s)


def test_a_hung_agent_leaves_the_answers_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hung guest does not answer; guests after it are asked again."""
    before, hung, _ = guests = [uuid4() for _ in range(3)]
    ended = Event()

    def run(step: str, host: HostAddress, deadline: Any, work: Callable[[Any], Any]) -> Any:
        call = SimpleNamespace(deadline=SimpleNamespace(left_s=lambda: 60.0))
        return connections.in_time(step, host.name, deadline, lambda: work(call))

    monkeypatch.setattr(libvirt_driver, "find_domain", lambda _, uuid: uuid)
    monkeypatch.setattr(libvirt_driver, "ping_agent", lambda domain: domain != hung or ended.wait(PATIENCE_S))
    try:
        assert _answers(_driver(run), guests, 0.5) == {before: True, hung: False}
    finally:
        ended.set()


def test_guests_of_a_host_that_does_not_answer_do_not_answer() -> None:
    """No answer of any guest came from there."""

    def run(*_: Any) -> Any:
        raise DriverError("connect", "host", "no route", transient=True)

    guests = [uuid4(), uuid4()]
    assert _answers(_driver(run), guests, 1) == dict.fromkeys(guests, False)


def test_the_synchronization_with_an_agent_has_the_time_of_a_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default libvirt would wait five seconds for it."""
    calls: list[tuple[Any, ...]] = []
    domain = SimpleNamespace(agentSetResponseTimeout=lambda *given: calls.append(("timeout", *given)))
    fake = SimpleNamespace(qemuAgentCommand=lambda _, __, *given: calls.append(("ping", *given)))
    monkeypatch.setattr(qemu_monitor, "libvirt_qemu", fake)
    assert qemu_monitor.ping_agent(domain)
    assert calls == [("timeout", qemu_monitor.PING_S, 0), ("ping", qemu_monitor.PING_S, 0)]
