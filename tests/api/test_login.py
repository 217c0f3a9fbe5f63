"""Logging in: answers, cookies, domains, and what wrong passwords lead to."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, delete, func, insert, select, update

from bulkdeploy.domain.accounts.login_delays import OF_A_USER, OF_AN_ADDRESS
from bulkdeploy.store.tables.accounts import domains, login_attempts, users
from bulkdeploy.store.tables.jobs import configuration_values
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.accounts import TestUser, add_domain, add_user
from tests.support.api.api_client import ApiClient
from tests.support.api.session_client import PASSWORD, Browser, error_of


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


@pytest.mark.parametrize(
    ("kept", "timezone", "offset"),
    [
        (None, "UTC", "0.0"),
        ("", "UTC", "0.0"),
        ("Nowhere/Atlantis", "UTC", "0.0"),
        ("Asia/Kolkata", "Asia/Kolkata", "5.5"),
    ],
)
def test_every_login_has_a_time_zone(
    browser: Browser, engine: Engine, kept: str | None, timezone: str, offset: str
) -> None:
    """CloudStack's UI keeps both fields and does not get past its login page without them."""
    with engine.begin() as connection:
        connection.execute(update(users).where(users.c.username == "admin").values(timezone=kept))
    content = browser.login("admin", ADMIN_PASSWORD).json()["loginresponse"]
    assert (content["timezone"], content["timezoneoffset"]) == (timezone, offset)


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
    """A failed login answers 531 under loginresponse, sets no cookie, and never tells what of it was wrong."""
    answer = browser.login(username, password, **more)
    assert (answer.status_code, list(answer.json())) == (531, ["loginresponse"])
    domain = more.get("domain", "ROOT")
    text = f"Failed to authenticate user {username} in domain {domain}; please provide valid credentials"
    assert error_of(answer)["errortext"] == text
    assert not browser.http.cookies


@pytest.mark.parametrize("path", ["sales", "/sales/", "ROOT/sales", "/ROOT/sales", "/root/SALES/"])
def test_domains(browser: Browser, engine: Engine, cipher: FernetCipher, path: str) -> None:
    """A user of a domain logs in with the domain's path, however it is written, or with its id."""
    domain_id = add_domain(engine, "sales")
    with engine.connect() as connection:
        uuid = connection.execute(select(domains.c.uuid).where(domains.c.id == domain_id)).scalar_one()
    add_user(engine, cipher, "ben", domain_id=domain_id, password=PASSWORD)
    assert browser.login("ben", PASSWORD).status_code == 531
    assert browser.login("ben", PASSWORD, domain=path).status_code == 200
    assert browser.login("ben", PASSWORD, domain="nowhere", domainId=str(uuid)).status_code == 200
    assert browser.login("ben", PASSWORD, domainId=str(domain_id)).status_code == 431


def tried(engine: Engine, subject: str, failures: int, seconds_ago: int = 0) -> None:
    """So many attempts of a subject failed, the last one so long ago."""
    moment = func.now() - timedelta(seconds=seconds_ago)
    row = {"subject": subject, "failures": failures, "last_attempt": moment}
    with engine.begin() as connection:
        connection.execute(delete(login_attempts).where(login_attempts.c.subject == subject))
        connection.execute(insert(login_attempts).values(row))


def set_allowed(engine: Engine, allowed: int) -> None:
    """After so many wrong passwords one is locked."""
    setting = {"scope": "Global", "scope_id": 0, "name": "incorrect.login.attempts.allowed", "value": str(allowed)}
    with engine.begin() as connection:
        connection.execute(insert(configuration_values).values(setting))


def test_failures_in_a_row_lock_the_password_and_nothing_else(
    client: ApiClient, browser: Browser, engine: Engine, ann: TestUser
) -> None:
    """After the fifth wrong password in a row the right one is wrong, too; keys and sessions go on."""
    session = Browser(client.url)
    assert session.login("ann", PASSWORD).status_code == 200
    for _ in range(4):
        browser.login("ann", "wrong")
    assert browser.login("ann", PASSWORD).status_code == 200
    assert column(engine, ann, "failed_logins") == 0
    refused = [error_of(browser.login("ann", "wrong")) for _ in range(5)]
    tried(engine, "user 1 ann from 127.0.0.1", 5, seconds_ago=60)
    assert error_of(browser.login("ann", PASSWORD)) == refused[0]
    assert ApiClient(client.url, ann.api_key, ann.secret_key).get("listZones").status == 200
    assert session.call("listZones").status_code == 200
    events = client.call("listEvents", type="USER.LOCK", listall="true")["event"]
    assert [event["description"] for event in events] == [
        "locked the password of user ann: too many wrong ones; enableUser unlocks it"
    ]
    client.call("enableUser", id=client.call("listUsers", username="ann", listall="true")["user"][0]["id"])
    assert browser.login("ann", PASSWORD).status_code == 200
    session.http.close()


@pytest.mark.parametrize(("allowed", "status"), [(2, 531), (0, 200)])
def test_allowed_failures_are_a_setting(
    browser: Browser, engine: Engine, ann: TestUser, allowed: int, status: int
) -> None:
    """``incorrect.login.attempts.allowed`` says how many; with 0 no password is locked."""
    set_allowed(engine, allowed)
    for _ in range(3):
        browser.login("ann", "wrong")
    assert browser.login("ann", PASSWORD).status_code == status
    assert column(engine, ann, "state") == "enabled"


def test_each_failure_doubles_the_wait() -> None:
    """From a second to the most there is, after those that are free."""
    assert [OF_A_USER.after(failures) for failures in range(14)] == [0] * 6 + [1, 2, 4, 8, 16, 32, 60, 60]
    assert [OF_AN_ADDRESS.after(failures) for failures in (20, 21, 29, 30, 1000)] == [0, 1, 256, 300, 300]


@pytest.mark.parametrize("username", ["admin", "ann", "nobody"])
def test_guesses_at_a_user_have_to_wait(browser: Browser, engine: Engine, ann: TestUser, username: str) -> None:
    """Whoever the user is, if there is one at all: no password is checked before its time, not the right one."""
    assert ann.username == "ann"
    set_allowed(engine, 0)
    tried(engine, f"user 1 {username} from 127.0.0.1", 12)
    for password in ("wrong", ADMIN_PASSWORD, PASSWORD):
        answer = browser.login(username.upper(), password)
        assert (answer.status_code, list(answer.json())) == (429, ["loginresponse"])
        assert error_of(answer)["cserrorcode"] == 4545
        assert f"the next login is possible in {answer.headers['Retry-After']} s" in error_of(answer)["errortext"]
    tried(engine, f"user 1 {username} from 127.0.0.1", 12, seconds_ago=60)
    assert [browser.login(username, "wrong").status_code for _ in range(2)] == [531, 429]


def test_who_waited_gets_in_and_is_forgiven(browser: Browser, engine: Engine) -> None:
    """The default admin's password is never locked; the right one, in its time, ends the delays."""
    tried(engine, "user 1 admin from 127.0.0.1", 12, seconds_ago=60)
    assert browser.login("admin", ADMIN_PASSWORD).status_code == 200
    for _ in range(6):
        assert browser.login("admin", "wrong").status_code == 531


def test_guesses_from_an_address_wait_whatever_user_they_are_at(
    browser: Browser, engine: Engine, ann: TestUser
) -> None:
    """An address waits as well; a good login between its guesses does not forgive what it tried.

    Only the correct password of a user who has logged in from the address before is accepted meanwhile.
    """
    for number in range(3):
        assert browser.login(f"user-{number}", "wrong").status_code == 531
    assert browser.login("admin", ADMIN_PASSWORD).status_code == 200
    with engine.connect() as connection:
        failures = select(login_attempts.c.failures).where(login_attempts.c.subject == "address 127.0.0.1")
        assert connection.execute(failures).scalar_one() == 3
    tried(engine, "address 127.0.0.1", 40)
    assert browser.login("another", "wrong").status_code == 429
    assert browser.login(ann.username, PASSWORD).status_code == 429
    assert browser.login("admin", "wrong").status_code == 429
    assert browser.login("admin", ADMIN_PASSWORD).status_code == 200
    tried(engine, "address 127.0.0.1", 40, seconds_ago=3601)
    assert browser.login("admin", ADMIN_PASSWORD).status_code == 200


def test_of_guesses_made_at_once_one_is_looked_at(browser: Browser, engine: Engine, ann: TestUser) -> None:
    """They are counted before they are looked at, in all API processes together."""
    tried(engine, "user 1 ann from 127.0.0.1", 12, seconds_ago=60)
    with ThreadPoolExecutor(8) as pool:
        url = browser.address.removesuffix("/client/api")
        answers = list(pool.map(lambda _: Browser(url).login("ann", "wrong").status_code, range(8)))
    assert sorted(answers) == [429] * 7 + [531]
    assert column(engine, ann, "failed_logins") == 1


def test_the_current_password_is_no_easier_to_guess(
    client: ApiClient, browser: Browser, engine: Engine, ann: TestUser
) -> None:
    """A caller that has a user's keys and guesses its password waits like one that logs in.

    These guesses do not delay the user's logins.
    """
    own = ApiClient(client.url, ann.api_key, ann.secret_key)
    user = client.call("listUsers", username="ann", listall="true")["user"][0]["id"]
    change = {"id": user, "password": "another long password"}
    assert own.post("updateUser", **change, currentpassword="wrong").status == 431
    tried(engine, "user 1 ann", 12)
    assert own.post("updateUser", **change, currentpassword=PASSWORD).status == 429
    assert browser.login("ann", PASSWORD).status_code == 200
    tried(engine, "user 1 ann", 12, seconds_ago=60)
    assert own.post("updateUser", **change, currentpassword=PASSWORD).status == 200
    assert browser.login("ann", "another long password").status_code == 200
