"""Callers behind proxies: their own addresses count, and nobody makes himself another one."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, insert
from structlog.testing import capture_logs

from bulkdeploy.api.app import create_app
from bulkdeploy.domain.configuration import BY_NAME
from bulkdeploy.domain.networks.proxies import ProxySettings
from bulkdeploy.domain.networks.source_networks import is_within
from bulkdeploy.services.system import System
from bulkdeploy.store.tables.jobs import configuration_values
from tests.support.api.api_client import Answer, ApiClient
from tests.support.api.api_server import serving

FORWARDED = "X-Forwarded-For"
TRUSTING = {"proxy.header.verify": "true", "proxy.cidr": "127.0.0.0/8,10.0.0.0/8"}
Asking = Callable[..., tuple[Answer, str]]


def set_global(engine: Engine, values: dict[str, str]) -> None:
    """Global settings, from now on."""
    rows = [{"scope": "Global", "scope_id": 0, "name": name, "value": value} for name, value in values.items()]
    with engine.begin() as connection:
        connection.execute(insert(configuration_values), rows)


@pytest.fixture
def job_requests(system: System) -> Iterator[Asking]:
    """A login by way of a proxy on this machine: the answer, and the address that the log has."""
    with serving(create_app(system)) as url:

        def request(headers: dict[str, str]) -> tuple[Answer, str]:
            form = "command=login&response=json&username=admin&password=wrong"
            sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
            with capture_logs() as entries:
                answer = ApiClient(url, "", "").request("POST", "/client/api", form, sent)
            (call,) = [entry for entry in entries if entry["event"] == "call"]
            return answer, call["address"]

        yield request


@pytest.mark.parametrize(
    ("configured", "headers", "address"),
    [
        ({}, {FORWARDED: "192.0.2.7"}, "127.0.0.1"),
        ({"proxy.cidr": "127.0.0.0/8"}, {FORWARDED: "192.0.2.7"}, "127.0.0.1"),
        ({"proxy.header.verify": "true"}, {FORWARDED: "192.0.2.7"}, "127.0.0.1"),
        ({**TRUSTING, "proxy.cidr": "10.0.0.0/8"}, {FORWARDED: "192.0.2.7"}, "127.0.0.1"),
        (TRUSTING, {FORWARDED: "192.0.2.7"}, "192.0.2.7"),
        (TRUSTING, {FORWARDED: "203.0.113.9, 192.0.2.7, 10.1.1.1"}, "192.0.2.7"),
        (TRUSTING, {FORWARDED: "10.2.2.2, 10.1.1.1"}, "10.2.2.2"),
        (TRUSTING, {FORWARDED: "[2001:db8::1]:4711"}, "2001:db8::1"),
        (TRUSTING, {FORWARDED: "192.0.2.7, unknown"}, "127.0.0.1"),
        (TRUSTING, {}, "127.0.0.1"),
        (
            {**TRUSTING, "proxy.header.names": "X-Real-IP"},
            {FORWARDED: "203.0.113.9", "X-Real-IP": "192.0.2.7"},
            "192.0.2.7",
        ),
    ],
)
def test_whose_calls_a_trusted_proxy_passes_on(
    job_requests: Asking, engine: Engine, configured: dict[str, str], headers: dict[str, str], address: str
) -> None:
    """With ``proxy.header.verify``, a proxy within ``proxy.cidr`` is believed; nobody else is."""
    if configured:
        set_global(engine, configured)
    assert job_requests(headers)[1] == address


def test_a_proxy_that_a_process_trusts_is_believed_without_settings(system: System, engine: Engine) -> None:
    """``trusted_proxies`` of a process is enough, and settings add to it; other peers are not believed."""
    for networks, address in (("127.0.0.0/8", "192.0.2.7"), ("10.0.0.0/8", "127.0.0.1")):
        with serving(create_app(replace(system, trusted_proxies=networks))) as url, capture_logs() as entries:
            ApiClient(url, "", "").request("GET", "/client/api?command=listZones", headers={FORWARDED: "192.0.2.7"})
        (call,) = [entry for entry in entries if entry["event"] == "call"]
        assert call["address"] == address
    set_global(engine, {**TRUSTING, "proxy.cidr": "127.0.0.0/8"})
    with serving(create_app(replace(system, trusted_proxies="10.0.0.0/8"))) as url, capture_logs() as entries:
        forwarded = {FORWARDED: "192.0.2.7, 10.1.1.1"}
        ApiClient(url, "", "").request("GET", "/client/api?command=listZones", headers=forwarded)
    assert [entry["address"] for entry in entries if entry["event"] == "call"] == ["192.0.2.7"]


def test_guessers_behind_a_proxy_wait_for_themselves_alone(job_requests: Asking, engine: Engine) -> None:
    """What counts by address counts by that of the client."""
    set_global(engine, {**TRUSTING, "incorrect.login.attempts.allowed": "0"})
    with engine.begin() as connection:
        tried = "INSERT INTO login_attempts VALUES ('address 192.0.2.7', 40, now())"
        connection.exec_driver_sql(tried)
    assert job_requests({FORWARDED: "192.0.2.7"})[0].status == 429
    assert job_requests({FORWARDED: "192.0.2.8"})[0].status == 531


def test_source_networks_are_those_of_clients(system: System, client: ApiClient, engine: Engine) -> None:
    """``api.allowed.source.cidr.list`` is about clients, not about the proxy that they come by."""
    set_global(engine, {**TRUSTING, "api.allowed.source.cidr.list": "192.0.2.0/24"})
    with serving(create_app(system)) as url:
        caller = ApiClient(url, client.api_key, client.secret_key)

        def status(address: str) -> int:
            target = f"/client/api?{urlencode(caller.signed('listZones'), quote_via=quote)}"
            return caller.request("GET", target, headers={FORWARDED: address}).status

        assert (status("192.0.2.7"), status("203.0.113.9")) == (200, 401)


def test_changes_are_heeded_within_a_moment(job_requests: Asking, client: ApiClient) -> None:
    """Operators change these settings at run time, as all global ones."""
    headers = {FORWARDED: "192.0.2.7"}
    assert job_requests(headers)[1] == "127.0.0.1"
    for name, value in TRUSTING.items():
        client.call("updateConfiguration", name=name, value=value)
    while job_requests(headers)[1] != "192.0.2.7":
        time.sleep(0.1)


@given(
    st.ip_addresses(),
    st.lists(st.one_of(st.ip_addresses().map(str), st.text(max_size=20)), max_size=6),
)
def test_who_is_no_proxy_says_nothing(peer: Any, reported: list[str]) -> None:
    """Whatever a client writes into headers, it comes from where it comes; a proxy's own word is read last."""
    settings = ProxySettings((FORWARDED,), "10.0.0.0/8")
    if not is_within(str(peer), "10.0.0.0/8"):
        assert settings.client(str(peer), lambda _: ",".join(reported)) == str(peer)
    assert settings.client("10.0.0.1", lambda _: ",".join([*reported, "192.0.2.7"])) == "192.0.2.7"


def test_settings_are_cloudstacks(client: ApiClient) -> None:
    """Names and defaults; a list of networks that is none is refused."""
    assert BY_NAME["proxy.header.verify"].default == "false"
    for value, status in (("10.0.0.0/8, 2001:db8::/32", 200), ("proxy.example", 431)):
        assert client.get("updateConfiguration", name="proxy.cidr", value=value).status == status
