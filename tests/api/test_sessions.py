"""Calling by session and logging out, over a real socket, with a client that keeps cookies."""

from datetime import timedelta
from http.cookiejar import Cookie
from typing import Any, cast

import pytest
import requests
from sqlalchemy import Engine, func, select, update

from bulkdeploy.store.tables.accounts import accounts, sessions, users
from bulkdeploy.store.tables.groups import ssh_key_pairs
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.accounts import TestUser
from tests.support.api.session_client import PASSWORD, Browser, error_of
from tests.support.runs.waiting import PATIENCE_S


def count_sessions(engine: Engine) -> int:
    """Rows in the table of sessions."""
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(sessions)).scalar_one()


def test_calls_by_session(browser: Browser) -> None:
    """The session key comes as a parameter, with its cookie beside it or without."""
    key = browser.login("admin", ADMIN_PASSWORD).json()["loginresponse"]["sessionkey"]
    assert browser.call(sessionkey=key).status_code == 200
    browser.http.cookies.clear(
        "localhost.local" if "localhost" in browser.address else "127.0.0.1", "/client", "sessionkey"
    )
    assert browser.call(sessionkey=key).status_code == 200


@pytest.mark.parametrize("key", ["wrong", "", None])
def test_a_wrong_session_key_ends_the_session(browser: Browser, engine: Engine, key: str | None) -> None:
    """Without its key, or with another, a session is refused and over."""
    right = browser.login("admin", ADMIN_PASSWORD).json()["loginresponse"]["sessionkey"]
    token = browser.http.cookies["JSESSIONID"]
    browser.http.cookies.clear()
    cookie = {"Cookie": f"JSESSIONID={token}"}
    query = {"command": "listCapabilities", "response": "json"} | ({} if key is None else {"sessionkey": key})
    answer = requests.get(browser.address, params=query, headers=cookie, timeout=PATIENCE_S)
    assert (answer.status_code, error_of(answer)["errortext"]) == (401, "unable to verify user credentials")
    assert count_sessions(engine) == 0
    retried = requests.get(
        browser.address, params=query | {"sessionkey": right}, headers=cookie, timeout=PATIENCE_S
    )
    assert retried.status_code == 401


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("command", ["listCapabilities", "createSSHKeyPair"])
def test_cookies_alone_are_no_session(browser: Browser, engine: Engine, method: str, command: str) -> None:
    """What another site makes a browser send carries all cookies and no key: it is refused and changes nothing."""
    browser.login("admin", ADMIN_PASSWORD)
    form = {"command": command, "response": "json", "name": "planted"}
    sent: dict[str, Any] = {"params": form} if method == "get" else {"data": form}
    answer = browser.http.request(method, browser.address, timeout=PATIENCE_S, **sent)
    assert (answer.status_code, error_of(answer)["errortext"]) == (401, "unable to verify user credentials")
    assert count_sessions(engine) == 0
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(ssh_key_pairs)).scalar_one() == 0


@pytest.mark.parametrize("wrong", ["parameter", "cookie"])
def test_both_keys_must_be_right(browser: Browser, wrong: str) -> None:
    """The right key as a parameter beside another one's cookie is refused, and so is the reverse."""
    key = browser.login("admin", ADMIN_PASSWORD).json()["loginresponse"]["sessionkey"]
    token = browser.http.cookies["JSESSIONID"]
    browser.http.cookies.clear()
    cookie = f"JSESSIONID={token}; sessionkey={'x' * len(key) if wrong == 'cookie' else key}"
    query = {"command": "listCapabilities", "sessionkey": "x" * len(key) if wrong == "parameter" else key}
    answer = requests.get(browser.address, params=query, headers={"Cookie": cookie}, timeout=PATIENCE_S)
    assert answer.status_code == 401


def test_cookies_behind_tls_stay_there(browser: Browser) -> None:
    """Where a proxy ends TLS, cookies are marked to be sent over TLS only."""
    browser.http.headers["X-Forwarded-Proto"] = "https"
    cookies = cast("list[Cookie]", list(browser.login("admin", ADMIN_PASSWORD).cookies))
    assert [(cookie.secure, cookie.get_nonstandard_attr("SameSite")) for cookie in cookies] == [
        (True, "Strict")
    ] * 2


def test_unknown_command_by_session(browser: Browser, ann: TestUser) -> None:
    """A root admin learns that a command does not exist; others only that it is not there for them."""
    browser.login("admin", ADMIN_PASSWORD)
    answer = browser.call("listNonsense")
    assert (answer.status_code, list(answer.json())) == (432, ["errorresponse"])
    assert error_of(answer)["errortext"] == "Unknown API command: listNonsense"
    browser.login(ann.username, PASSWORD)
    assert (
        "The API [listNonsense] does not exist or is not available"
        in error_of(browser.call("listNonsense"))["errortext"]
    )


def test_no_command_by_session(browser: Browser) -> None:
    """A session without a command is told so."""
    browser.login("admin", ADMIN_PASSWORD)
    answer = browser.call("")
    assert (answer.status_code, error_of(answer)["errortext"]) == (400, "no command specified")


def test_roles_hold_for_sessions(browser: Browser, ann: TestUser) -> None:
    """A user's session may do what the user may."""
    browser.login(ann.username, PASSWORD)
    answer = browser.call("bulkDeployVirtualMachine")
    assert (answer.status_code, list(answer.json())) == (432, ["errorresponse"])


def test_login_begins_a_session_of_its_own(browser: Browser, engine: Engine) -> None:
    """A session that was planted before the login is not the one after it, and is over."""
    browser.login("admin", ADMIN_PASSWORD)
    planted = dict(browser.http.cookies)
    browser.login("admin", ADMIN_PASSWORD)
    assert set(planted.values()).isdisjoint(dict(browser.http.cookies).values())
    assert count_sessions(engine) == 1
    browser.http.cookies.clear()
    browser.http.cookies.update(planted)
    assert browser.call().status_code == 401


def test_secrets_are_not_stored(browser: Browser, engine: Engine) -> None:
    """The table of sessions holds neither token nor key."""
    browser.login("admin", ADMIN_PASSWORD)
    with engine.connect() as connection:
        row = connection.execute(select(sessions)).one()
    for secret in browser.http.cookies.values():
        assert secret is not None
        assert secret.encode() not in (row.token_hash, row.session_key_hash)


def age_sessions(engine: Engine, minutes: int) -> None:
    """Let all sessions have been used last so many minutes ago."""
    ago = timedelta(minutes=minutes)
    with engine.begin() as connection:
        older = {"last_used": sessions.c.last_used - ago, "expires": sessions.c.expires - ago}
        connection.execute(update(sessions).values(older))


def test_sessions_end_after_half_an_hour(browser: Browser, engine: Engine) -> None:
    """A session that was used 29 minutes ago lasts, and another half hour from then; one of 30 minutes is over."""
    browser.login("admin", ADMIN_PASSWORD)
    age_sessions(engine, 29)
    assert browser.call().status_code == 200
    age_sessions(engine, 29)
    assert browser.call().status_code == 200
    age_sessions(engine, 30)
    assert browser.call().status_code == 401


def test_sessions_that_are_over_are_swept_away(browser: Browser, engine: Engine) -> None:
    """A login removes the rows of sessions that ended."""
    browser.login("admin", ADMIN_PASSWORD)
    age_sessions(engine, 31)
    browser.http.cookies.clear()
    browser.login("admin", ADMIN_PASSWORD)
    assert count_sessions(engine) == 1


@pytest.mark.parametrize("table", [users, accounts])
def test_disabling_ends_access_at_once(browser: Browser, engine: Engine, ann: TestUser, table: Any) -> None:
    """The session of a user who is disabled, or whose account is, is refused from then on."""
    browser.login(ann.username, PASSWORD)
    row = ann.user_id if table is users else ann.account_id
    with engine.begin() as connection:
        connection.execute(update(table).where(table.c.id == row).values(state="locked"))
    assert browser.call().status_code == 401


@pytest.mark.parametrize("method", ["get", "post"])
def test_logout(browser: Browser, engine: Engine, method: str) -> None:
    """Logging out ends the session on the server and removes both cookies."""
    browser.login("admin", ADMIN_PASSWORD)
    kept = dict(browser.http.cookies)
    values = {"command": "logout", "response": "json"}
    sent: dict[str, Any] = {"data": values} if method == "post" else {"params": values}
    answer = browser.http.request(method, browser.address, timeout=PATIENCE_S, **sent)
    assert answer.json() == {"logoutresponse": {"description": "success"}}
    assert not browser.http.cookies
    assert count_sessions(engine) == 0
    browser.http.cookies.update(kept)
    assert browser.call().status_code == 401


def test_logout_without_a_session(browser: Browser) -> None:
    """Logging out twice is no error."""
    assert browser.call("logout").status_code == 200


def test_a_signature_goes_before_a_session(browser: Browser, ann: TestUser) -> None:
    """A request with a wrong signature is refused even where a session would have let it in."""
    browser.login(ann.username, PASSWORD)
    assert browser.call(apiKey=ann.api_key, signature="wrong").status_code == 401
    assert browser.call().status_code == 200


@pytest.mark.parametrize("token", ["", "x", "\u00e9" * 10, "a" * 3000])
def test_unknown_tokens(browser: Browser, token: str) -> None:
    """A cookie that names no session is refused like no cookie at all."""
    headers = {"Cookie": f"JSESSIONID={token}; sessionkey=x".encode()}
    answer = requests.get(
        browser.address, params={"command": "listCapabilities"}, headers=headers, timeout=PATIENCE_S
    )
    assert answer.status_code == 401
