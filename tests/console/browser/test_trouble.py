"""What goes wrong around people at the console, and what they may not do, in a real browser."""

from collections.abc import Callable, Iterator

import pytest

from benchmarks.generation import Size, generate_zones
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.console.browser.conftest import Tab
from tests.console.conftest import ALICE, ALICES_PASSWORD
from tests.support.api.console_client import Visitor
from tests.support.browsers.accessibility import barriers
from tests.support.browsers.console_server import OwnConsole, own_console
from tests.support.zones.zone_queries import Zone

END = 240_000
"""Patience in milliseconds."""
DEPLOYED = 10_000
LARGE = Size(zones=1, pods=4, clusters=40, hosts=2000, vms=0)
FOLLOWED_S = 6
ELSEWHERE = "http://elsewhere.example/"


@pytest.fixture(scope="module")
def console(
    postgres_url: str,
    small_zone_database: str,
    redis_url: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OwnConsole]:
    """A console whose database can be taken away."""
    folder = tmp_path_factory.mktemp("trouble")
    with own_console(postgres_url, small_zone_database, redis_url, cipher, folder) as made:
        yield made


@pytest.fixture
def tab(console: OwnConsole, open_tab_at: Callable[..., Tab]) -> Tab:
    """The root admin's tab."""
    tab = open_tab_at(console.url)
    tab.go("")
    tab.sign_in("admin", ADMIN_PASSWORD)
    return tab


def test_a_database_that_goes_away_and_comes_back(tab: Tab, console: OwnConsole) -> None:
    """An open page keeps what it shows and says so; a new one says what the API says; both go on by themselves."""
    tab.go("health")
    shown = tab.text("#health h2")
    console.is_cut_off = True
    try:
        tab.page.wait_for_selector("#trouble:not([hidden])", timeout=END)
        assert tab.text("#health h2") == shown
        tab.page.wait_for_selector("#trouble:not([hidden])", timeout=END)
        other = tab.page.context.new_page()
        other.goto(f"{tab.root}jobs")
        other.wait_for_selector("text=The database cannot be reached at the moment")
        other.close()
    finally:
        console.is_cut_off = False
    tab.page.wait_for_selector("#trouble", state="hidden", timeout=END)
    tab.requested.clear()
    while not tab.requested:
        tab.page.wait_for_timeout(100)


def test_a_plan_without_a_database(tab: Tab, console: OwnConsole) -> None:
    """What was typed and drawn stays; the strip says why nothing new comes."""
    tab.go("deploy")
    tab.page.fill("#virtualmachinecount", "3")
    tab.page.wait_for_load_state("networkidle")
    console.is_cut_off = True
    try:
        tab.page.fill("#nameprefix", "kept")
        tab.page.wait_for_selector("#trouble:not([hidden])", timeout=END)
    finally:
        console.is_cut_off = False
    assert "Still needed for a plan" in tab.text("#plan")
    tab.page.fill("#nameprefix", "kept-too")
    tab.page.wait_for_selector("#trouble", state="hidden", timeout=END)


def test_another_site_changes_nothing(tab: Tab) -> None:
    """A form there, sent by a user who is signed in here, is refused, and the session stays."""
    form = (
        f"<form action={tab.root}deployment-cancel method=post><input name=id value=x><button>Win!</button></form>"
    )
    tab.page.route(f"{ELSEWHERE}*", lambda route: route.fulfill(body=form, content_type="text/html"))
    tab.page.goto(ELSEWHERE)
    tab.page.click("button")
    tab.page.wait_for_selector("text=This form was sent by another site.")
    tab.go("jobs")
    assert tab.text("h1") == "Jobs"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_user_sees_what_users_may(console: OwnConsole, open_tab_at: Callable[..., Tab], width: int) -> None:
    """No bulk form and nothing of the infrastructure, also by its address; without barriers."""
    tab = open_tab_at(console.url, width=width)
    tab.go("")
    tab.page.click("summary")
    tab.page.fill("#domain", "/ROOT/customers/acme")
    tab.sign_in(ALICE, ALICES_PASSWORD)
    pages = tab.page.locator("header nav[aria-label=Pages] a").all_inner_texts()
    assert pages == ["Overview", "VMs", "Jobs", "Events"]
    assert tab.page.locator("details.pages a[href=volumes]").count() == 1
    assert tab.page.locator("details.pages a[href=hosts]").count() == 0
    for page in ("overview", "virtual-machines", "jobs", "events", "volumes", "search?q=a"):
        tab.go(page)
        assert barriers(tab.page) == []
    for page in ("deploy", "capacity", "health", "deployments"):
        tab.go(page)
        assert "is not available" in tab.text("[role=alert]")
        assert barriers(tab.page) == []


def test_ten_thousand_vms_are_followed_like_three(console: OwnConsole, tab: Tab) -> None:
    """Fewer than two requests a second while they are deployed, and what comes is drawn."""
    generate_zones(console.engine, LARGE)
    zone = Zone(console.engine)
    newest = {
        name: str(zone.scalar(f"SELECT uuid FROM {table} ORDER BY id DESC LIMIT 1"))
        for name, table in {
            "zoneid": "zones",
            "serviceofferingid": "service_offerings",
            "templateid": "templates",
            "networkids": "networks",
        }.items()
    }
    person = Visitor(console.url)
    person.sign_in("admin", ADMIN_PASSWORD)
    sent = person.send("deploy", {**newest, "virtualmachinecount": str(DEPLOYED), "requesttoken": "many"})
    assert sent.status_code == 303, sent.text
    person.close()
    tab.go(sent.headers["Location"])
    assert f"{DEPLOYED:,} VMs" in tab.text("h1")
    tab.requested.clear()
    zone.change(
        "UPDATE async_jobs SET status = 1, phase = 'done', result = '{}', completed = now()"
        " WHERE id IN (SELECT id FROM async_jobs WHERE status = 0 ORDER BY id DESC LIMIT 4000)"
    )
    tab.page.wait_for_selector("dl.figures dd >> text=4,000", timeout=END)
    tab.requested.clear()
    tab.page.wait_for_timeout(1000 * FOLLOWED_S)
    assert 1 <= len(tab.requested) < 2 * FOLLOWED_S
