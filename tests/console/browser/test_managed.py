"""The life of a managed deployment in a real browser: kept, scaled, replaced, paused, rolled back, scheduled."""

import re
from collections.abc import Callable

import pytest

from tests.console.browser.conftest import Tab
from tests.console.browser.test_browser import END, deploy_as_filled_in, fill_in
from tests.support.browsers.accessibility import barriers
from tests.support.processes.whole_service import WholeService

REPLACEMENT = "section:has(h2:text-is('Rolling replacement'))"
FORMS = ("updateBulkDeployment", "replaceBulkDeployment")


@pytest.fixture(scope="module")
def deployments() -> list[str]:
    """Ids of managed deployments, once there are any."""
    return []


def figure(tab: Tab, name: str) -> int:
    """Return the figure of this name on the page of a deployment."""
    return int(tab.text(f"dl.figures div:has(dt:text-is('{name}')) dd").replace(",", ""))


def open_form(tab: Tab, button: str) -> None:
    """Open a form of the deployment's page."""
    tab.page.click(f"#deployment .head a:has-text('{button}')")
    tab.page.wait_for_selector("form.stack")


def test_a_managed_deployment_from_its_form_to_its_rollback(tab: Tab, deployments: list[str]) -> None:
    """The number is kept and changed; a replacement pauses, continues and is rolled back, all seen on the page."""
    fill_in(tab, 6, "kept")
    tab.page.click("details:has(#managed) summary")
    tab.page.select_option("#managed", "true")
    tab.page.wait_for_load_state("networkidle")
    deployment = deploy_as_filled_in(tab)
    deployments.append(deployment)
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    assert (figure(tab, "VMs wanted"), figure(tab, "VMs there")) == (6, 6)

    open_form(tab, "Change the number")
    tab.page.fill("#virtualmachinecount", "many")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("#wrong-virtualmachinecount:not(:empty)")
    tab.complaints.clear()  # the browser's own line about the status 422
    tab.page.fill("#virtualmachinecount", "8")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    assert (figure(tab, "VMs wanted"), figure(tab, "VMs there")) == (8, 8)

    open_form(tab, "Replace its VMs")
    tab.page.fill("#maxsurge", "2")
    tab.page.fill("#pauseafter", "50")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector(
        "section:has(h2:text-is('Rolling replacement')) .state:text-is('Paused')", timeout=END
    )
    assert re.search(r"[4-7] of 8 VMs replaced", tab.text("section:has(h2:text-is('Rolling replacement')) p.soft"))
    tab.page.click("button[value=resume]")
    tab.page.wait_for_selector("button[value=pause]")
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    assert "8 of 8 VMs replaced, 0 failed" in tab.text("#deployment")

    tab.page.click("button[value=rollback]")
    tab.page.click("button:text-is('Roll back')")
    tab.page.wait_for_selector("button[value=pause]")
    tab.page.click("button[value=pause]")
    tab.page.wait_for_selector("button[value=resume]")
    tab.page.click("button[value=resume]")
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    assert "8 of 8 VMs replaced, 0 failed" in tab.text("#deployment")
    assert (figure(tab, "VMs wanted"), figure(tab, "VMs there")) == (8, 8)


def test_a_schedule_of_a_deployment(tab: Tab, deployments: list[str]) -> None:
    """Its form is filled in with the deployment; by keyboard alone it becomes a schedule of the list."""
    tab.go(f"deployment?id={deployments[0]}")
    tab.page.focus("#deployment .head a:has-text('New schedule')")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("form.stack")
    tab.page.select_option("#action", "STOP")
    tab.page.fill("#schedule", "0 20 * * 5")
    tab.page.fill("#timezone", "Europe/Berlin")
    tab.page.focus("#timezone")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(re.compile("/schedule"))
    tab.go(f"schedules?deploymentid={deployments[0]}")
    assert "0 20 * * 5" in tab.text("tbody")
    assert tab.page.locator("tbody tr").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_no_barriers(
    open_tab: Callable[..., Tab], service: WholeService, deployments: list[str], theme: str, width: int
) -> None:
    """Axe finds nothing on the pages of managed deployments, and nothing stands beyond the edge of the screen."""
    tab = open_tab(theme=theme, width=width)
    tab.go("")
    tab.sign_in("admin", service.password)
    pages = [
        f"deployment?id={deployments[0]}",
        *(f"act?of=deployments&command={command}&id={deployments[0]}" for command in FORMS),
        f"act?of=schedules&command=createVMSchedule&deploymentid={deployments[0]}",
        f"schedules?deploymentid={deployments[0]}",
    ]
    found = {}
    for page in pages:
        tab.go(page)
        found[page] = barriers(tab.page)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page
    assert {page: there for page, there in found.items() if there} == {}
