"""Logging in: answers, cookies, domains, and what wrong passwords lead to."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

from bulkdeploy.store.tables.accounts import users
from bulkdeploy.store.tables.jobs import configuration_values
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.support.accounts import TestUser, add_domain, add_user
from tests.support.browser import PASSWORD, Browser, error_of


def column(engine: Engine, user: TestUser, name: str) -> Any:
    """One column of a user's row."""
    with engine.connect() as connection:
        return connection.execute(select(users.c[name]).where(users.c.id == user.user_id)).scalar_one()


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
    """Guesses made at once are counted one by one, and disable the user as if made in turn."""
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
