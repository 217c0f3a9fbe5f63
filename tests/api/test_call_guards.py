"""What operators may ask of calls: POST with a timestamp for changes, and where calls may come from."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.domain.accounts.call_guards import CallGuards
from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.store.configuration.configurations import GLOBAL_ID, write_values
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.accounts import TestUser, add_user
from tests.support.api.api_client import ApiClient
from tests.support.api.session_client import PASSWORD, Browser
from tests.support.runs.waiting import PATIENCE_S

ENFORCED, SOURCES = "enforce.post.requests.and.timestamps", "api.allowed.source.cidr.list"
CHANGE: dict[str, Any] = {
    "command": "updateResourceLimit",
    "resourcetype": 0,
    "max": -1,
    "account": "ann",
    "domainid": 1,
}


@pytest.fixture
def ann(engine: Engine, cipher: FernetCipher) -> TestUser:
    """An ordinary user with a password."""
    return add_user(engine, cipher, "ann", password=PASSWORD)


def put(engine: Engine, name: str, value: str, account_id: int | None = None) -> None:
    """Set a value globally or for an account."""
    scope, scope_id = (Scope.GLOBAL, GLOBAL_ID) if account_id is None else (Scope.ACCOUNT, account_id)
    with engine.begin() as connection:
        write_values(connection, {(scope, scope_id, name): value})


def ahead(minutes: int) -> dict[str, str]:
    """A version 3 timestamp."""
    return {
        "signatureVersion": "3",
        "expires": (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def test_changes_come_by_post_with_a_near_expiry(client: ApiClient, engine: Engine, ann: TestUser) -> None:
    """Where that is enforced a change by GET is 405, one without or with a far timestamp 401; reads are free."""
    assert ann.username == "ann"
    assert client.get(**CHANGE).status == 200
    put(engine, ENFORCED, "true")
    assert client.get(**CHANGE, **ahead(10)).status == 405
    assert "HTTP POST" in client.get(**CHANGE, **ahead(10)).body["errortext"]
    assert client.post(**CHANGE).status == 401
    assert client.post(**CHANGE, **ahead(20)).status == 401
    assert client.post(**CHANGE, **ahead(-1)).status == 401
    assert client.post(**CHANGE, **ahead(10)).status == 200
    assert client.get("listZones").status == 200


def test_sessions_change_by_post(browser: Browser, engine: Engine, ann: TestUser) -> None:
    """A session needs no timestamp, but POST."""
    assert ann.username == "ann"
    put(engine, ENFORCED, "true")
    browser.login("admin", ADMIN_PASSWORD)
    assert browser.call(**CHANGE).status_code == 405
    sent = {**CHANGE, "response": "json", "sessionkey": browser.http.cookies["sessionkey"]}
    assert browser.http.post(browser.address, data=sent, timeout=PATIENCE_S).status_code == 200


def test_calls_come_from_allowed_networks(
    client: ApiClient, browser: Browser, engine: Engine, ann: TestUser
) -> None:
    """Keys, sessions and passwords are refused from elsewhere; an account's own list goes before the global one."""
    hers = ApiClient(client.url, ann.api_key, ann.secret_key)
    browser.login("ann", PASSWORD)
    put(engine, SOURCES, "10.0.0.0/8,2001:db8::/32", ann.account_id)
    assert (hers.get("listZones").status, client.get("listZones").status) == (401, 200)
    assert browser.call("listZones").status_code == 401
    assert Browser(client.url).login("ann", PASSWORD).status_code == 531
    put(engine, SOURCES, "10.0.0.0/8")
    put(engine, SOURCES, "127.0.0.0/8", ann.account_id)
    assert (hers.get("listZones").status, client.get("listZones").status) == (200, 401)
    assert browser.call("listZones").status_code == 200
    put(engine, "api.source.cidr.checks.enabled", "false")
    assert client.get("listZones").status == 200


@pytest.mark.parametrize(
    ("sources", "address", "admitted"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("192.168.1.7", "192.168.1.7", True),
        ("10.0.0.0/8, fe80::/10", "fe80::1%eth0", True),
        ("10.0.0.0/8", "", False),
        ("10.0.0.0/8", "unix:", False),
    ],
)
def test_networks(sources: str, address: str, admitted: bool) -> None:
    """IPv4, IPv6, IPv4 in IPv6, zones, and what is no address."""
    assert CallGuards(False, False, sources).admits(address) == admitted


@pytest.mark.parametrize("value", ["", "10.0.0.0/33", "10.0.0.0/8,", "everywhere", "10.0.0.0/8;11.0.0.0/8"])
def test_only_networks_can_be_set(value: str) -> None:
    """A list that would lock everybody out by a slip is refused."""
    assert BY_NAME[SOURCES].broken_rule(value) is not None
    assert BY_NAME[SOURCES].broken_rule("10.0.0.0/8, 2001:db8::/32") is None
