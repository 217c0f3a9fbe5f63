"""What people do with the console, in a real browser."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.console.browser.conftest import Tab
from tests.support.api.api_client import ApiClient
from tests.support.browsers.accessibility import barriers
from tests.support.processes.whole_service import WholeService

EVIL = "<img src=x onerror='window.ran=1'><script>window.ran=1</script>"
HIDEABLE = """window.hide = (hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};"""
END = 240_000
"""Patience in milliseconds."""
PAGES = (
    *("overview", "deploy", "deployments", "virtual-machines", "jobs", "events", "capacity", "topology", "health"),
    *("search?q=a", "hosts", "volumes", "networks", "settings", "accounts", "service-offerings", "storage-pools"),
    *("act?of=volumes&command=createVolume", "act?of=networks&command=createNetwork"),
    *("deployment", "virtual-machine", "job", "cluster", "host"),
)


def fill_in(tab: Tab, count: int, prefix: str, place: str = "") -> None:
    """Fill in the bulk form as a person does, and wait for its plan."""
    page = tab.page
    tab.go("deploy")
    page.select_option("#serviceofferingid", label=one_of(page, "#serviceofferingid", "Tiny"))
    page.wait_for_load_state("networkidle")
    page.select_option("#templateid", label=one_of(page, "#templateid", "Debian 12 (KVM)"))
    page.wait_for_load_state("networkidle")
    page.select_option("#networkids", index=0)
    if place:
        page.click("details:has(#place) summary")
        page.select_option("#place", label=place)
    page.fill("#nameprefix", prefix)
    page.fill("#virtualmachinecount", str(count))
    page.wait_for_selector(f"#plan .headline >> text={count:,} VMs fit")


def one_of(page: Any, field: str, begins: str) -> str:
    """The choice that begins so."""
    labels = page.locator(f"{field} option").all_inner_texts()
    return str(next(label for label in labels if label.startswith(begins)))


def deploy(tab: Tab, count: int, prefix: str, place: str = "") -> str:
    """Deploy; the deployment's id."""
    fill_in(tab, count, prefix, place)
    return deploy_as_filled_in(tab)


def deploy_as_filled_in(tab: Tab) -> str:
    """Send the bulk form; the deployment's id."""
    tab.page.click("#deploy button.primary")
    tab.page.wait_for_selector("#deployment")
    return str(tab.page.url.partition("id=")[2])


@pytest.fixture(scope="session")
def things() -> dict[str, str]:
    """Addresses of single things, once they were found."""
    return {}


def address_of(tab: Tab, page: str, things: dict[str, str]) -> str:
    """The address of a page; of one thing where it shows one."""
    if page in ("deployment", "virtual-machine", "job", "cluster", "host") and page not in things:
        tables = {"deployment": "deployments", "virtual-machine": "virtual-machines", "job": "jobs"}
        if page == "host":
            tab.go(address_of(tab, "cluster", things))
        else:
            tab.go(tables.get(page, "capacity"))
            if not tab.page.locator(f"a[href^='{page}?']").count():
                deploy(tab, 8, "first")
                tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
                tab.go(tables[page])
        things[page] = str(tab.page.locator(f"a[href^='{page}?']").first.get_attribute("href"))
    return things.get(page, page)


def test_plan_deploy_and_watch_to_the_end(tab: Tab) -> None:
    """200 VMs, from the form to the last one running; less than two requests a second, and none afterwards."""
    deploy(tab, 200, "web")
    assert tab.page.title() == f"Deployment {tab.page.url.partition('id=')[2][:8]} · bulkdeploy"
    tab.requested.clear()
    tab.page.wait_for_timeout(6000)
    assert len(tab.requested) <= 12
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    assert tab.text(".head .state") == "Completed"
    assert tab.text("dl.figures dd") == "200"
    assert tab.page.locator("table.spread rect.done").count() >= 1
    assert tab.page.locator("table.spread rect.queued").count() == 0
    tab.requested.clear()
    tab.page.wait_for_timeout(5000)
    assert tab.requested == []


def test_failures_come_with_reasons_and_what_would_help(tab: Tab) -> None:
    """Where a call is pinned to a pod, a host that fails its guests fails their jobs."""
    deploy(tab, 60, "pinned", "pod-c")
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    assert "on host c-kvm-2-01: out of disk" in tab.text("#deployment")
    assert "Look at the state of hosts" in tab.text("#deployment")
    tab.page.click("#deployment a[href^='job?']")
    tab.page.wait_for_selector("#job")
    assert "out of disk" in tab.text("#job")


def test_cancelling(tab: Tab, service: WholeService) -> None:
    """Is asked about, and stops what has not begun."""
    service.run("simulator", "latency", "set", "boot", "4000")
    try:
        deploy(tab, 1500, "stopped")
        tab.page.click("text=Cancel…")
        tab.page.click("text=Cancel the rest")
        tab.page.wait_for_selector("#deployment")
        assert tab.text(".head .state") == "Cancelled"
        tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
        assert "It was cancelled" in tab.text("#deployment")
    finally:
        service.run("simulator", "latency", "set", "boot", "300")


def test_filters_stand_in_the_address(tab: Tab) -> None:
    """And going back and forward goes through them."""
    tab.go("virtual-machines")
    tab.page.fill("#keyword", "web-1")
    tab.page.press("#keyword", "Enter")
    tab.page.wait_for_url(re.compile("keyword=web-1"))
    tab.page.wait_for_load_state("networkidle")
    tab.page.select_option("#state", "Stopped")
    tab.page.wait_for_url(re.compile("state=Stopped"))
    tab.page.go_back()
    tab.page.wait_for_url(re.compile("keyword=web-1&state=&"))
    assert tab.page.input_value("#keyword") == "web-1"
    assert tab.page.input_value("#state") == ""
    tab.page.go_forward()
    tab.page.wait_for_url(re.compile("state=Stopped"))
    assert tab.page.input_value("#state") == "Stopped"


def test_rows_out_of_sight_are_not_laid_out(tab: Tab) -> None:
    """Until they are scrolled to; then they stand in the same columns as all others, and as their headings."""
    deploy(tab, 120, "long")
    tab.go("virtual-machines?keyword=long-&size=200")
    last = tab.page.locator("tbody tr").last
    laid_out = "row => row.firstElementChild.checkVisibility({ contentVisibilityAuto: true })"
    assert tab.page.locator("tbody tr").count() == 120
    assert tab.page.locator("tbody tr").first.evaluate(laid_out)
    assert not last.evaluate(laid_out)
    last.locator("a.name").first.hover()
    assert last.evaluate(laid_out)
    columns = "row => [...row.children].map((cell) => Math.round(cell.getBoundingClientRect().left))"
    assert last.evaluate(columns) == tab.page.locator("thead tr").evaluate(columns)


def test_choosing_vms(tab: Tab, things: dict[str, str]) -> None:
    """Buttons wait for a choice, and count it."""
    address_of(tab, "virtual-machine", things)
    tab.go("virtual-machines")
    assert tab.page.locator("button[value=stopVirtualMachine]").is_disabled()
    tab.page.check("input[data-all]")
    assert int(tab.text("[data-chosen]")) == tab.page.locator("input[data-row]").count()
    tab.page.click("button[value=stopVirtualMachine]")
    tab.page.wait_for_selector("text=Guests are shut down")


def test_a_session_that_ends(tab: Tab, service: WholeService) -> None:
    """Is said plainly by a page that was open, and the way back leads to where one was."""
    tab.go("health")
    cookies = tab.page.context.cookies()
    tab.page.context.clear_cookies()
    tab.page.context.add_cookies(
        [{**one, "value": "x" * 40} if one["name"] == "JSESSIONID" else one for one in cookies]
    )
    tab.page.wait_for_selector("text=Your session has ended", timeout=END)
    tab.sign_in("admin", service.password)
    assert urlsplit(tab.page.url).path.endswith("/console/health")


def test_a_server_that_goes_away_and_comes_back(tab: Tab) -> None:
    """The page says so, keeps what it shows, and goes on by itself."""
    tab.go("health")
    tab.page.context.set_offline(True)
    tab.page.wait_for_selector("#trouble:not([hidden])", timeout=END)
    tab.page.context.set_offline(False)
    tab.page.wait_for_selector("#trouble", state="hidden", timeout=END)
    tab.complaints[:] = [
        text for text in tab.complaints if "ERR_INTERNET_DISCONNECTED" not in text and "Failed to fetch" not in text
    ]


def test_a_page_left_for_a_day(open_tab: Callable[..., Tab], service: WholeService) -> None:
    """Hidden it asks nothing; looked at while nobody answers, at most once a minute; then it goes on by itself."""
    tab = open_tab()
    tab.page.add_init_script(HIDEABLE)
    tab.page.clock.install()
    tab.go("")
    tab.sign_in("admin", service.password)
    tab.page.goto(f"{tab.root}health")
    tab.page.wait_for_selector("#health")
    tab.page.evaluate("hide(true)")
    tab.requested.clear()
    tab.page.clock.run_for("24:00:00")
    assert tab.requested == []
    tab.page.context.set_offline(True)
    tab.page.evaluate("hide(false)")
    tab.page.wait_for_selector("#trouble:not([hidden])", timeout=END)
    for _ in range(60):
        tab.page.clock.run_for("01:00")
    assert 2 <= len(tab.requested) <= 70
    tab.page.context.set_offline(False)
    for _ in range(END // 1000):
        tab.page.clock.run_for("01:00")
        if tab.page.locator("#trouble").is_hidden():
            break
        tab.page.wait_for_timeout(1000)
    assert tab.page.locator("#trouble").is_hidden()


def test_names_with_markup_run_nothing(tab: Tab, service: WholeService, things: dict[str, str]) -> None:
    """Nor does user data: each is a text on every page that shows it."""
    keys = json.loads(service.run("admin", "credentials", "--json"))
    client = ApiClient(service.url, keys["apikey"], keys["secretkey"])
    for page in PAGES:
        address_of(tab, page, things)
    machine = things["virtual-machine"].partition("id=")[2]
    client.call("updateVirtualMachine", id=machine, displayname=EVIL)
    offering = client.call("listServiceOfferings", name="Tiny")["serviceoffering"][0]
    client.call("updateServiceOffering", id=offering["id"], displaytext=EVIL)
    client.call(
        "createTags", resourceids=machine, resourcetype="UserVm", **{"tags[0].key": "k", "tags[0].value": EVIL}
    )
    for page in PAGES:
        tab.go(address_of(tab, page, things))
        assert tab.page.evaluate("window.ran") is None, page
    tab.go("deploy")
    tab.page.click("details:has(#userdata) summary")
    tab.page.fill("#userdata", EVIL)
    tab.page.wait_for_load_state("networkidle")
    assert tab.page.evaluate("window.ran") is None
    tab.go(things["virtual-machine"])
    assert EVIL in tab.text("#virtual-machine")


def test_what_is_typed_is_not_lost(tab: Tab) -> None:
    """A choice that others depend on changes these and nothing else."""
    tab.go("deploy")
    tab.page.fill("#nameprefix", "typed")
    tab.page.select_option("#serviceofferingid", index=1)
    tab.page.wait_for_load_state("networkidle")
    assert tab.page.input_value("#nameprefix") == "typed"


def test_errors_stand_beside_their_field(tab: Tab) -> None:
    """As soon as they are typed."""
    fill_in(tab, 3, "fine")
    tab.page.fill("#nameprefix", "not fine")
    tab.page.wait_for_selector("#wrong-nameprefix:not(:empty)")
    tab.page.fill("#nameprefix", "fine")
    tab.page.wait_for_selector("#plan .headline")
    assert tab.text("#wrong-nameprefix") == ""


def test_by_keyboard_alone(open_tab: Callable[..., Tab], service: WholeService) -> None:
    """Signing in, skipping the navigation, opening and closing the menu."""
    tab = open_tab()
    tab.go("")
    tab.page.keyboard.type("admin")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.type(service.password)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("header.bar")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.className") == "skip"
    tab.page.focus("details.account summary")
    tab.page.keyboard.press("Enter")
    assert tab.page.locator("details.account[open]").count() == 1
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("details.account[open]").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_no_barriers(
    open_tab: Callable[..., Tab], service: WholeService, things: dict[str, str], theme: str, width: int
) -> None:
    """Axe finds nothing against WCAG 2.2 AA on any page."""
    tab = open_tab(theme=theme, width=width)
    tab.go("")
    found = {"sign-in": barriers(tab.page)}
    tab.sign_in("admin", service.password)
    for page in PAGES:
        tab.go(address_of(tab, page, things))
        found[page] = barriers(tab.page)
    assert {page: there for page, there in found.items() if there} == {}


@pytest.mark.parametrize("width", [360, 1920])
def test_no_page_is_wider_than_the_screen(
    open_tab: Callable[..., Tab], service: WholeService, things: dict[str, str], width: int
) -> None:
    """From phones to wide screens; tables scroll within themselves."""
    tab = open_tab(width=width)
    tab.go("")
    tab.sign_in("admin", service.password)
    for page in PAGES:
        tab.go(address_of(tab, page, things))
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page


def test_a_page_is_light(open_tab: Callable[..., Tab], service: WholeService) -> None:
    """First load under 200 kB on the wire, nothing from elsewhere, and kept by the browser afterwards."""
    tab = open_tab()
    sizes: list[int] = []
    tab.page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    tab.go("")
    tab.sign_in("admin", service.password)
    tab.go("deployments")
    assert sum(sizes) < 200_000
    assert {urlsplit(url).netloc for url in tab.requested} == {urlsplit(service.url).netloc}
