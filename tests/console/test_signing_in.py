"""Sessions of the console: the API's own, under the API's rules."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.api.app import create_app
from bulkdeploy.cli.connection.catalogue import read_catalogue
from bulkdeploy.console.app import with_console
from bulkdeploy.console.calls import ApiRefused, Calls, ChangeByGet, Environ
from bulkdeploy.services.system import System
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.api_server import serving
from tests.support.api.console_client import Visitor, words_of
from tests.support.runs.waiting import PATIENCE_S

DEPLOY = {"zoneid": "x"}


def test_who_is_not_signed_in_is_sent_to_the_form(visitor: Callable[[], Visitor]) -> None:
    """And comes back to the page that was wanted, with its filters."""
    person = visitor()
    answer = person.get("virtual-machines?state=Running")
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "sign-in?next=virtual-machines%3Fstate%3DRunning",
    )
    answer = person.sign_in("admin", ADMIN_PASSWORD, next="virtual-machines?state=Running")
    assert answer.url == f"{person.root}virtual-machines?state=Running"


@pytest.mark.parametrize(
    "target", ["https://elsewhere.example/", "//elsewhere.example", "/client/api", "a\\b", "a#b"]
)
def test_the_form_leads_nowhere_else(visitor: Callable[[], Visitor], target: str) -> None:
    """An address that somebody planted in a link is not followed."""
    person = visitor()
    form = {"username": "admin", "password": ADMIN_PASSWORD, "next": target}
    assert person.send("sign-in", form).headers["Location"] == "./"


def test_a_wrong_password_is_told_in_the_words_of_the_api(visitor: Callable[[], Visitor]) -> None:
    """The name stays in the form, the password does not, and there is no session."""
    person = visitor()
    answer = person.sign_in("admin", "wr0ng-one")
    assert answer.status_code == 403
    assert "Failed to authenticate user admin" in words_of(answer.text)
    assert 'value="admin"' in answer.text
    assert "wr0ng-one" not in answer.text
    assert not person.http.cookies


def test_signing_out_ends_the_session_on_the_server(own_session: Visitor, count_of: Callable[[str], int]) -> None:
    """Its cookies are good for nothing from then on."""
    before, kept = count_of("sessions"), dict(own_session.http.cookies)
    answer = own_session.send("sign-out", {})
    assert (answer.headers["Location"], count_of("sessions")) == ("sign-in", before - 1)
    assert not own_session.http.cookies
    own_session.http.cookies.update(kept)
    assert own_session.get("jobs").status_code == 303


def test_a_session_that_is_over_is_said_to_be(own_session: Visitor, console_engine: Engine) -> None:
    """To who looks at a page, and to a page that asks for its live parts."""
    with console_engine.begin() as connection:
        connection.execute(text("DELETE FROM sessions WHERE created = (SELECT max(created) FROM sessions)"))
    answer = own_session.get("jobs")
    assert answer.headers["Location"] == "sign-in?over=1&next=jobs"
    assert "Your session has ended" in own_session.page("sign-in?over=1&next=jobs").text
    headers = {"HX_Request": "true", "HX_Current_URL": f"{own_session.root}health"}
    assert own_session.get("health-live", **headers).headers["HX-Redirect"] == "sign-in?over=1&next=health"


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_form_without_the_sessions_key_changes_nothing(
    own_session: Visitor, count_of: Callable[[str], int], key: str
) -> None:
    """Cookies alone, which any site can make a browser send, are no session; the API ends it."""
    before = count_of("deployments")
    answer = own_session.send("deploy", DEPLOY, key=key)
    assert (answer.status_code, answer.headers["Location"][:7]) == (303, "sign-in")
    assert count_of("deployments") == before
    assert own_session.get("jobs").status_code == 303


@pytest.mark.parametrize("page", ["deploy", "sign-in", "sign-out", "theme", "virtual-machines-change"])
def test_forms_of_other_sites_are_refused(admin: Visitor, page: str) -> None:
    """Also the one that would sign somebody in as somebody else. ``Origin`` alone tells the site, too."""
    for headers in (
        {"Sec_Fetch_Site": "cross-site"},
        {"Origin": "https://other.example"},
        {"Origin": "null"},
        {"Origin": "https://other.example", "Sec_Fetch_Site": "same-origin"},
    ):
        assert admin.send(page, DEPLOY, **headers).status_code == 403
    assert admin.get("jobs").status_code == 200


def test_forms_of_this_site_are_accepted(admin: Visitor) -> None:
    """A browser names the console's own origin with each form."""
    own = admin.root.partition("/console")[0]
    assert admin.send("theme", {"theme": "dark"}, Origin=own).status_code == 303


def test_cookies_are_out_of_reach_of_scripts(visitor: Callable[[], Visitor]) -> None:
    """And go over TLS only where a proxy ends TLS; their folder is where the browser sees the console."""
    person = visitor()
    person.http.headers["X-Forwarded-Proto"] = "https"
    answer = person.send("sign-in", {"username": "admin", "password": ADMIN_PASSWORD})
    cookies = answer.raw.headers.getlist("Set-Cookie")
    assert len(cookies) == 3
    for cookie in cookies:
        assert {"Secure", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
        assert "Path" not in cookie


def test_pages_that_are_looked_at_change_nothing() -> None:
    """A page that would call a changing command for a GET is a defect, and stopped before the API hears of it."""

    def never(environ: Environ, start_response: object) -> list[bytes]:
        raise AssertionError((environ, start_response))

    declared = [{"name": "destroyVirtualMachine", "description": "", "isasync": True, "params": [], "response": []}]
    calls = Calls(never, {"REQUEST_METHOD": "GET"}, "key", {api.name: api for api in read_catalogue(declared)})
    for more in ({}, {"dryrun": True}):
        with pytest.raises(ChangeByGet):
            calls("destroyVirtualMachine", {"id": "x", **more})
    with pytest.raises(ApiRefused, match="not available"):
        calls("rebootVirtualMachine", {"id": "x", "dryrun": True})


def test_behind_a_path_prefix(console_system: System) -> None:
    """Whatever a proxy puts before the console, signing in, links and sessions work."""
    app = with_console(create_app(console_system))

    def behind(environ: Environ, start_response: object) -> object:
        prefix, _, rest = environ["PATH_INFO"].partition("/bulk")
        return app({**environ, "PATH_INFO": rest if not prefix else "/nothing"}, start_response)  # type: ignore[arg-type]

    with serving(behind) as url:  # type: ignore[arg-type]
        person = Visitor(url, "/cloud/bulk".removeprefix("/cloud"))
        answer = person.sign_in("admin", ADMIN_PASSWORD)
        assert answer.status_code == 200
        assert answer.url == f"{person.root}overview"
        assert {cookie.path for cookie in person.http.cookies} == {"/bulk/console"}
        for page in ("", "jobs", "capacity"):
            assert person.http.get(person.root + page, timeout=PATIENCE_S).status_code == 200
        person.close()
