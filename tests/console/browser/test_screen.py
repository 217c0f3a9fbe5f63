"""The page of a VM's screen, in a real browser, over the product's websocket, before a VNC server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bulkdeploy.services.system import System
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.conftest import ADMIN_PASSWORD
from tests.console.browser.conftest import Tab
from tests.support.api.api_process import api_process
from tests.support.browsers.accessibility import barriers
from tests.support.hypervisors.drivers import always
from tests.support.hypervisors.screens import AFTER, BEFORE, Screen, ScreenDriver
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import World, open_world

CONTROL, ALT, DELETE = 0xFFE3, 0xFFE9, 0xFFFF
SHOWS = """(screen, colour) => new Promise((done) => {
  const look = () => {
    const canvas = screen.querySelector("canvas");
    const shown = canvas && canvas.width && canvas.getContext("2d").getImageData(5, 5, 1, 1).data;
    return shown && colour.every((part, at) => shown[at] === part) ? done(true) : requestAnimationFrame(look);
  };
  look();
})"""


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """Accounts and places, and VMs that run as far as rows say."""
    with open_world(request, populated_database) as made:
        yield made


@pytest.fixture
def screen() -> Screen:
    """The screen of the guest."""
    return Screen("a guest that is seen")


@pytest.fixture
def url(world: World, screen: Screen, request: pytest.FixtureRequest) -> Iterator[str]:
    """A service whose guests have this screen."""
    folder = request.getfixturevalue("tmp_path")
    redis_url = request.getfixturevalue("redis_url")
    settings = Settings(database_url=str(world.engine.url), redis_url=redis_url, data_dir=folder)
    system = System(world.engine, build_job_queue(settings), world.cipher, folder, always(ScreenDriver(screen)))
    with api_process(system, settings) as found:
        yield found


@pytest.fixture(scope="module")
def vm(world: World) -> str:
    """A VM that runs."""
    return deployed_vm(world, "looked-at")


@pytest.fixture
def admin(url: str, open_tab_at: Callable[..., Tab]) -> Tab:
    """The root admin's tab."""
    tab = open_tab_at(url)
    tab.go("")
    tab.sign_in("admin", ADMIN_PASSWORD)
    return tab


def opened(tab: Tab, vm: str) -> Any:
    """The page that the button on a VM's page opens."""
    tab.go(f"virtual-machine?id={vm}")
    with tab.page.context.expect_page() as found:
        tab.page.click("form[action=vnc] button")
    return found.value


def test_a_screen_is_seen_and_typed_at(admin: Tab, vm: str, screen: Screen) -> None:
    """From the VM's page: what the guest shows is there, and what is typed reaches its keyboard."""
    page = opened(admin, vm)
    page.wait_for_selector("#state >> text=Connected")
    assert page.locator("#screen").evaluate(SHOWS, BEFORE)
    assert page.title() == "a guest that is seen"
    page.keyboard.type("hi!")
    assert page.locator("#screen").evaluate(SHOWS, AFTER)
    page.click("#ctrl-alt-del")
    page.keyboard.press("Enter")
    while 0xFF0D not in screen.keys:
        page.wait_for_timeout(50)
    typed = [key for key in screen.keys if key not in (0xFFE1, 0xFFE2)]
    assert typed == [ord("h"), ord("i"), ord("!"), CONTROL, ALT, DELETE, 0xFF0D]


def test_a_token_opens_one_screen_once(admin: Tab, vm: str, world: World) -> None:
    """It leaves the address at once; reloading, or a token that is used or too old, says what to do next."""
    page = opened(admin, vm)
    page.wait_for_selector("#state >> text=Connected")
    assert "token" not in page.url
    page.reload()
    page.wait_for_selector("#state >> text=Open a console from the page of a running VM")
    late = endpoint(admin, vm)
    world.change("UPDATE console_tokens SET expires = now() - interval '1 second'")
    for token in (late, "token=nothing"):
        page.goto("about:blank")
        page.goto(f"{admin.root}vnc#{token}")
        page.wait_for_selector("#state >> text=Each link is good once, for a minute")
        assert page.locator("#ctrl-alt-del").is_disabled()


def endpoint(tab: Tab, vm: str) -> str:
    """What stands behind the # of a screen's address."""
    key = next(one["value"] for one in tab.page.context.cookies() if one["name"] == "sessionkey")
    form = {"id": vm, "sessionkey": key}
    answer = tab.page.context.request.post(f"{tab.root}vnc", form=form, max_redirects=0)
    return str(answer.headers["location"].partition("#")[2])


def test_a_screen_that_ends_says_so(admin: Tab, vm: str, screen: Screen) -> None:
    """When the guest goes."""
    page = opened(admin, vm)
    page.wait_for_selector("#state >> text=Connected")
    screen.hang_up()
    page.wait_for_selector("#state >> text=the guest's console has ended")
    assert page.locator("#ctrl-alt-del").is_disabled()


def test_a_server_that_takes_no_websockets(console_url: str, open_tab_at: Callable[..., Tab]) -> None:
    """As behind a proxy that keeps them away: what is wrong is said, not that something has ended."""
    tab = open_tab_at(console_url)
    tab.page.goto(f"{tab.root}vnc#token=x")
    tab.page.wait_for_selector("#state >> text=No connection to the console")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_barriers_around_a_screen(
    url: str, vm: str, open_tab_at: Callable[..., Tab], theme: str, width: int
) -> None:
    """Axe finds nothing, and the page is as wide as the window."""
    tab = open_tab_at(url, theme=theme, width=width)
    tab.go("")
    tab.sign_in("admin", ADMIN_PASSWORD)
    page = opened(tab, vm)
    page.wait_for_selector("#state >> text=Connected")
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
