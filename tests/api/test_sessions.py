"""Logging in, calling by session, logging out: over a real socket, with a client that keeps cookies."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import requests
from sqlalchemy import Engine, func, insert, select, update

from bulkdeploy.store.tables.accounts import accounts, sessions, users
from bulkdeploy.store.tables.jobs import configuration_values
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.support.accounts import TestUser, add_domain, add_user

PASSWORD = "open sesame"


class Browser:
    """A client with cookies."""

    def __init__(self, url: str) -> None:
        self.address = f"{url}/client/api"
        self.http = requests.Session()

    def login(self, username: str, password: str, **more: str) -> requests.Response:
        """Log in by POST, as consoles do."""
        form = {"command": "login", "response": "json", "username": username, "password": password, **more}
        return self.http.post(self.address, data=form, timeout=60)

    def call(self, command: str = "listCapabilities", **parameters: str) -> requests.Response:
        """A call by GET, with whatever cookies there are."""
        query = {"command": command, "response": "json", **parameters}
        return self.http.get(self.address, params=query, timeout=60)


@pytest.fixture
def browser(api_url: str) -> Iterator[Browser]:
    """A browser without cookies."""
    browser = Browser(api_url)
    yield browser
    browser.http.close()


@pytest.fixture
def ann(engine: Engine, cipher: FernetCipher) -> TestUser:
    """A user with a password in the ROOT domain."""
    return add_user(engine, cipher, "ann", password=PASSWORD)


def column(engine: Engine, user: TestUser, name: str) -> Any:
    """One column of a user's row."""
    with engine.connect() as connection:
        return connection.execute(select(users.c[name]).where(users.c.id == user.user_id)).scalar_one()


def count_sessions(engine: Engine) -> int:
    """Rows in the table of sessions."""
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(sessions)).scalar_one()


def error_of(response: requests.Response) -> dict[str, Any]:
    """The object of an error answer."""
    ((_, content),) = response.json().items()
    return dict(content)


def test_login_answers_all_fields(browser: Browser) -> None:
    """The answer has the fields and types that consoles and cmk read, bare under loginresponse."""
    answer = browser.login("admin", ADMIN_PASSWORD)
    content = answer.json()["loginresponse"]
    assert answer.status_code == 200
    assert content["timeout"] == 1800
    expected = {"username": "admin", "account": "admin", "type": "1", "registered": "false"}
    assert expected.items() <= content.items()
    assert {"userid", "domainid", "firstname", "lastname", "sessionkey"} <= content.keys()


def test_cookies(browser: Browser) -> None:
    """Two cookies for scripts to leave alone and for /client only; cmk reads the session key from its cookie."""
    answer = browser.login("admin", ADMIN_PASSWORD)
    cookies = {cookie.name: cookie for cookie in browser.http.cookies}
    assert set(cookies) == {"JSESSIONID", "sessionkey"}
    assert cookies["sessionkey"].value == answer.json()["loginresponse"]["sessionkey"]
    for cookie in cookies.values():
        assert (cookie.path, cookie.has_nonstandard_attr("HttpOnly")) == ("/client", True)


def test_calls_by_session(browser: Browser) -> None:
    """The session key may come as parameter or as cookie."""
    key = browser.login("admin", ADMIN_PASSWORD).json()["loginresponse"]["sessionkey"]
    assert browser.call().status_code == 200
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
    answer = requests.get(browser.address, params=query, headers=cookie, timeout=60)
    assert (answer.status_code, error_of(answer)["errortext"]) == (401, "unable to verify user credentials")
    assert count_sessions(engine) == 0
    retried = requests.get(browser.address, params=query | {"sessionkey": right}, headers=cookie, timeout=60)
    assert retried.status_code == 401


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


def test_login_by_get(browser: Browser) -> None:
    """Passwords do not travel in URLs: 405, whatever else is wrong with the request."""
    for query in ({"username": "admin", "password": ADMIN_PASSWORD}, {}):
        answer = browser.call("login", **query)
        assert (answer.status_code, list(answer.json())) == (405, ["loginresponse"])
        assert error_of(answer)["errortext"] == "Please use HTTP POST to authenticate using this API"


@pytest.mark.parametrize(
    ("username", "password", "more"),
    [
        ("admin", "wrong", {}),
        ("admin", " " + ADMIN_PASSWORD, {}),
        ("nobody", ADMIN_PASSWORD, {}),
        ("system", "anything", {}),
        ("admin", ADMIN_PASSWORD, {"domain": "/ROOT/nowhere"}),
        ("admin", ADMIN_PASSWORD, {"domain": "elsewhere"}),
    ],
)
def test_failed_logins(browser: Browser, username: str, password: str, more: dict[str, str]) -> None:
    """A failed login answers 531 under loginresponse, sets no cookie, and tells users from passwords never."""
    answer = browser.login(username, password, **more)
    assert (answer.status_code, list(answer.json())) == (531, ["loginresponse"])
    assert error_of(answer)["errortext"].startswith(("Failed to authenticate user", "Unable to find the domain"))
    assert not browser.http.cookies


@pytest.mark.parametrize("path", ["sales", "/sales/", "ROOT/sales", "/ROOT/sales", "/root/SALES/"])
def test_domains(browser: Browser, engine: Engine, cipher: FernetCipher, path: str) -> None:
    """A user of a domain logs in with the domain's path, however it is written, or with its id."""
    domain_id = add_domain(engine, "sales")
    add_user(engine, cipher, "ben", domain_id=domain_id, password=PASSWORD)
    assert browser.login("ben", PASSWORD).status_code == 531
    assert browser.login("ben", PASSWORD, domain=path).status_code == 200
    assert browser.login("ben", PASSWORD, domain="nowhere", domainId=str(domain_id)).status_code == 200


def test_failures_in_a_row_disable_the_user(browser: Browser, engine: Engine, ann: TestUser) -> None:
    """The fifth wrong password in a row disables the user; the right one no longer helps then."""
    for _ in range(4):
        browser.login("ann", "wrong")
    assert browser.login("ann", PASSWORD).status_code == 200
    assert column(engine, ann, "failed_logins") == 0
    for _ in range(5):
        assert column(engine, ann, "state") == "enabled"
        browser.login("ann", "wrong")
    assert column(engine, ann, "state") == "disabled"
    answer = browser.login("ann", PASSWORD)
    assert answer.status_code == 531
    assert "disabled or locked" in error_of(answer)["errortext"]
    assert "disabled" not in error_of(browser.login("ann", "wrong"))["errortext"]


@pytest.mark.parametrize(("allowed", "state"), [("2", "disabled"), ("0", "enabled")])
def test_allowed_failures_are_a_setting(
    browser: Browser, engine: Engine, ann: TestUser, allowed: str, state: str
) -> None:
    """``incorrect.login.attempts.allowed`` says how many; 0 disables nobody."""
    setting = {"scope": "Global", "scope_id": 0, "name": "incorrect.login.attempts.allowed", "value": allowed}
    with engine.begin() as connection:
        connection.execute(insert(configuration_values).values(setting))
    for _ in range(3):
        browser.login("ann", "wrong")
    assert column(engine, ann, "state") == state


def test_parallel_guesses_are_counted(browser: Browser, engine: Engine, ann: TestUser, api_url: str) -> None:
    """Guesses made at once are counted one by one: not one more is evaluated for it."""
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: Browser(api_url).login("ann", "wrong").status_code, range(6)))
    assert answers == [531] * 6
    assert (column(engine, ann, "failed_logins"), column(engine, ann, "state")) == (6, "disabled")
    assert browser.login("ann", PASSWORD).status_code == 531


def test_the_default_admin_is_never_disabled(browser: Browser) -> None:
    """Nobody can lock the default admin out by guessing."""
    for _ in range(6):
        assert browser.login("admin", "wrong").status_code == 531
    assert browser.login("admin", ADMIN_PASSWORD).status_code == 200


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
    answer = browser.http.request(
        method, browser.address, timeout=60, **{"data" if method == "post" else "params": values}
    )
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
    answer = requests.get(browser.address, params={"command": "listCapabilities"}, headers=headers, timeout=60)
    assert answer.status_code == 401
