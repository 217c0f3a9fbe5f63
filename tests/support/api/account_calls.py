"""Making accounts through the API, logging in as them, and telling what a refusal was."""

from itertools import count
from typing import Any

from tests.support.api.api_client import Answer, ApiClient
from tests.support.api.session_client import Browser
from tests.support.zones.world import ADMIN, World

NUMBERS = count(1)
PASSWORD = "a long enough password"
PERSON = {"firstname": "First", "lastname": "Last", "email": "first@last.example", "password": PASSWORD}


def new_name(noun: str = "person") -> str:
    """A name that nobody has."""
    return f"{noun}-{next(NUMBERS)}"


def make_account(world: World, by: str = ADMIN, domain: str = "acme", **more: object) -> dict[str, Any]:
    """An account with a user of the same name; a plain user unless ``more`` says otherwise."""
    sent = {"username": new_name(), "accounttype": 0, "domainid": world.id_of("domains", domain), **PERSON, **more}
    return dict(world.client(by).call("createAccount", **sent)["account"])


def keyed(world: World, account: dict[str, Any]) -> ApiClient:
    """A client with fresh keys of an account's first user."""
    keys = world.client().call("registerUserKeys", id=account["user"][0]["id"])["userkeys"]
    return ApiClient(world.url, keys["apikey"], keys["secretkey"])


def can_log_in(world: World, username: str, domain: str, password: str = PASSWORD) -> bool:
    """Whether a login with this password succeeds."""
    browser = Browser(world.url)
    try:
        return browser.login(username, password, domain=domain).status_code == 200
    finally:
        browser.http.close()


def done(world: World, answer: dict[str, Any], by: str = ADMIN) -> dict[str, Any]:
    """The result of the finished job that a call answered."""
    job = world.client(by).call("queryAsyncJobResult", jobid=answer["jobid"])
    assert job["jobstatus"] == 1, job
    return dict(job["jobresult"])


def refusal(answer: Answer) -> tuple[int, str]:
    """Code and text of a refused call."""
    return answer.body["errorcode"], answer.body["errortext"]
