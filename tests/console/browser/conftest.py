"""The whole service and a real browser before it, or the reason why there is none."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers.chromium import chromium, why_not
from tests.support.processes.services import server_directory
from tests.support.processes.whole_service import WholeService, whole_service

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where there is no browser, say so once for each promise."""
    reason = why_not()
    if reason is not None:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(slots=True)
class Tab:
    """A tab of a browser, and what went wrong in it.

    Attributes:
        requested: addresses of all requests, in order.
        complaints: messages of the console, and failures of scripts.
    """

    page: Any
    root: str
    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, address: str) -> None:
        """Open a page of the console and wait until it is quiet."""
        self.page.goto(self.root + address)
        self.page.wait_for_load_state("networkidle")

    def sign_in(self, username: str, password: str) -> None:
        """Sign in, from wherever the tab is."""
        self.page.fill("#username", username)
        self.page.fill("#password", password)
        self.page.click("button.primary")
        self.page.wait_for_selector("header.bar")

    def text(self, selector: str) -> str:
        """What stands in the first such element."""
        return str(self.page.locator(selector).first.inner_text())


@pytest.fixture(scope="session")
def service() -> Iterator[WholeService]:
    """Everything, with the sample zone; hosts take a moment to boot a guest, and one of them fails."""
    with server_directory() as folder, whole_service(folder / "data") as running:
        running.run("simulator", "latency", "set", "boot", "300", "--distribution", "normal", "--spread-ms", "100")
        running.run(
            "simulator", "faults", "add", "--step", "boot", "--host", "c-kvm-2-01", "--reason", "out of disk"
        )
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium."""
    with chromium() as running:
        yield running


@pytest.fixture
def open_tab_at(browser: Any) -> Iterator[Callable[..., Tab]]:
    """Tabs of browsers that know nothing of each other, each at a console of this address."""
    contexts: list[Any] = []

    def come(
        url: str, *, width: int = 1280, height: int = 800, theme: str = "light", is_touched: bool = False
    ) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            has_touch=is_touched,
            is_mobile=is_touched,
        )
        contexts.append(context)
        tab = Tab(context.new_page(), f"{url}/console/")
        tab.page.on("request", lambda request: tab.requested.append(request.url))
        tab.page.on("console", lambda message: tab.complaints.append(message.text))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        return tab

    yield come
    for context in contexts:
        context.close()


@pytest.fixture
def open_tab(service: WholeService, open_tab_at: Callable[..., Tab]) -> Callable[..., Tab]:
    """Such tabs at the whole service."""
    return partial(open_tab_at, service.url)


@pytest.fixture
def tab(open_tab: Callable[..., Tab], service: WholeService) -> Iterator[Tab]:
    """The root admin's tab, in which nothing goes wrong that a browser would complain of."""
    tab = open_tab()
    tab.go("")
    tab.sign_in("admin", service.password)
    yield tab
    assert tab.complaints == []
