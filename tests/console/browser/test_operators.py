"""What an operator does with hosts, VMs and things of all kinds, in a real browser before the sample zone."""

import json
import re
from typing import Any

import pytest

from tests.console.browser.conftest import Tab
from tests.console.browser.test_browser import END, deploy, fill_in
from tests.support.api.api_client import ApiClient
from tests.support.processes.whole_service import WholeService

MEASURED_EVERY_MS = 2000


@pytest.fixture(scope="module")
def client(service: WholeService) -> ApiClient:
    """A client of the root admin."""
    keys = json.loads(service.run("admin", "credentials", "--json"))
    return ApiClient(service.url, keys["apikey"], keys["secretkey"])


def open_action(tab: Tab, action: str) -> None:
    """Open the form of an action of a thing's page: a button, or an entry of its menu."""
    if tab.page.locator("details.columns:has(a[href^='act?'])").count():
        tab.page.click("details.columns:has(a[href^='act?']) summary")
    tab.page.click(f".head a:has-text('{action}')")
    tab.page.wait_for_selector("form.stack")


def one_with(page: Any, field: str, part: str) -> str:
    """Return the text of the first choice that contains a text."""
    labels = page.locator(f"{field} option").all_inner_texts()
    return str(next(label for label in labels if part in label))


def open_first_vm(tab: Tab, prefix: str, count: int = 3) -> str:
    """Deploy VMs, wait until they run, and open the page of the first; its name."""
    deploy(tab, count, prefix)
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    tab.go(f"virtual-machines?keyword={prefix}&state=Running")
    tab.page.click("tbody a.name >> nth=0")
    tab.page.wait_for_selector("#virtual-machine")
    return tab.text("h1")


def test_the_map_is_used_by_mouse_and_keyboard(tab: Tab) -> None:
    """A cell tells its host; Enter and a click open it; the VMs of a deployment are highlighted."""
    deployment = deploy(tab, 12, "mapped")
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    tab.go("topology")
    tab.page.wait_for_selector("canvas")
    assert "120 hosts in 12 clusters" in tab.text("[data-line]")
    assert tab.page.locator("canvas").count() == 3
    tab.page.focus("canvas")
    first = tab.text("[data-line] a")
    tab.page.keyboard.press("ArrowRight")
    second = tab.text("[data-line] a")
    assert second != first
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#host")
    assert tab.text("h1") == second
    tab.go("topology")
    tab.page.wait_for_selector("canvas")
    tab.page.click("canvas >> nth=0", position={"x": 8, "y": 26})
    tab.page.wait_for_selector("#host")
    assert tab.text("h1") == first
    tab.go("topology")
    tab.page.select_option("#vms", f"deployment:{deployment}")
    tab.page.wait_for_url(re.compile("vms=deployment"))
    tab.page.wait_for_selector("canvas")
    tab.page.focus("canvas")
    assert re.search(r"\d highlighted VMs", tab.text("[data-line]"))


def test_maintenance_names_its_plan(tab: Tab) -> None:
    """The question names the host and each VM with the host that it moves to; ended, the host is enabled again."""
    open_first_vm(tab, "moved", 12)
    tab.page.click("#virtual-machine a[href^='host?']")
    tab.page.wait_for_selector("#host")
    name = tab.text("h1")
    tab.page.click("button[value=prepareHostForMaintenance]")
    tab.page.wait_for_selector(".headline")
    assert name in tab.text("h1")
    assert tab.page.locator("main tbody a[href^='host?']").count() >= 1
    tab.page.click("button.danger.primary")
    tab.page.wait_for_selector("#host:not([data-live])", timeout=END)
    assert "Maintenance" in tab.text(".head")
    tab.page.click("button[value=cancelHostMaintenance]")
    tab.page.wait_for_selector("button[value=prepareHostForMaintenance]")


def test_hosts_in_trouble_are_seen(tab: Tab) -> None:
    """Overview, capacity and health lead to the list of hosts that are disabled."""
    for page in ("overview", "capacity", "health"):
        tab.go(page)
        tab.page.click(".notice a[href*='resourcestate=Disabled']")
        tab.page.wait_for_url(re.compile("/hosts"))
        assert "Disabled" in tab.text("tbody")


def test_an_action_on_all_that_match(tab: Tab) -> None:
    """All VMs that match a filter are stopped by one bulk operation, whatever page they are on."""
    deploy(tab, 60, "fleet")
    tab.page.wait_for_selector("#deployment:not([data-live])", timeout=END)
    tab.go("virtual-machines?keyword=fleet&state=Running&size=50")
    tab.page.check("[data-everything]")
    count = int(tab.text("[data-chosen]"))
    assert count > 50
    tab.page.click("button[value=stopVirtualMachine]")
    tab.page.click(f"button:has-text('Stop {count} VMs')")
    tab.page.wait_for_url(re.compile("bulk-operation"))
    tab.page.wait_for_selector("main:has-text('Completed')", timeout=END)
    tab.go("virtual-machines?keyword=fleet&state=Stopped&size=100")
    assert tab.page.locator("tbody tr").count() == count


def test_a_volume_from_its_form_to_its_end(tab: Tab) -> None:
    """A thing of a declared kind is made, found by the search and deleted; a mistake is told beside its field."""
    tab.go("act?of=volumes&command=createVolume")
    tab.page.click("details.more summary")
    tab.page.fill("#name", "made-by-form")
    tab.page.select_option("#diskofferingid", label=one_with(tab.page, "#diskofferingid", " GiB"))
    tab.page.select_option("#zoneid", index=1)
    tab.page.fill("#size", "3")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("#wrong-size:has-text('fixed size')")
    tab.complaints.clear()  # the browser's own line about the status 422
    assert tab.page.input_value("#name") == "made-by-form"
    tab.page.fill("#size", "")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("main:has-text('Succeeded')", timeout=END)
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("made-by-form")
    tab.page.keyboard.press("Enter")
    tab.page.click("main a:has-text('made-by-form')")
    open_action(tab, "Delete volume")
    tab.page.click("form.stack button.primary")
    tab.go("volumes?keyword=made-by-form")
    assert tab.page.locator("tbody a.name").count() == 0


def test_a_vm_is_tagged_and_moved(tab: Tab, client: ApiClient) -> None:
    """Tags are set by a form; the form for migrating names fitting hosts, and why others do not fit."""
    name = open_first_vm(tab, "chosen")
    open_action(tab, "Create tags")
    tab.page.fill("#tags", "team=blue")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("#job")
    (vm,) = client.call("listVirtualMachines", name=name, listall="true")["virtualmachine"]
    assert [(tag["key"], tag["value"]) for tag in vm["tags"]] == [("team", "blue")]
    others = client.call("findHostsForMigration", virtualmachineid=vm["id"])["host"]
    client.call("updateHost", id=others[0]["id"], allocationstate="Disable")
    try:
        tab.go(f"act?of=virtual-machines&command=migrateVirtualMachine&id={vm['id']}")
        labels = tab.page.locator("#hostid option").all_inner_texts()[1:]
        assert labels
        assert not [label for label in labels if not re.search(r" · .* · memory \d.*%", label)]
        assert not [label for label in labels if label.startswith(others[0]["name"])]
        (planned,) = client.call("migrateVirtualMachine", virtualmachineid=vm["id"], dryrun="true")["plan"]["move"]
        assert tab.page.input_value("#hostid") == planned["hostid"]
        assert f"{planned['planner']} chose {planned['hostname']}: " in tab.text("#hint-hostid")
        tab.page.click("details.wide-field summary")
        assert others[0]["name"] in tab.text("details.wide-field tbody")
    finally:
        client.call("updateHost", id=others[0]["id"], allocationstate="Enable")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("main:has-text('Succeeded')", timeout=END)
    (moved,) = client.call("listVirtualMachines", id=vm["id"], listall="true")["virtualmachine"]
    assert moved["hostname"] == labels[0].partition(" · ")[0]


def test_graphs_of_a_vm_and_of_jobs(tab: Tab, client: ApiClient) -> None:
    """Two minutes after its start a VM has graphs of the last hour; health has the deployments of each hour."""
    client.call("updateConfiguration", name="vm.stats.interval", value=MEASURED_EVERY_MS)
    try:
        open_first_vm(tab, "measured")
        vm = tab.page.url.partition("/console/")[2]
        for _ in range(END // 5000):
            tab.go(vm)
            if tab.page.locator("polyline").count():
                break
            tab.page.wait_for_timeout(5000)
        assert tab.page.locator("polyline").count() == 6
        assert tab.page.locator("nav a:has-text('Hour')[aria-current]").count() == 1
        tab.page.click("nav a:has-text('Week')")
        tab.page.wait_for_url(re.compile("period=week"))
        assert tab.page.locator("section:has(h2:text-is('What it used'))").count() == 1
    finally:
        client.call("updateConfiguration", name="vm.stats.interval", value=60_000)
    tab.go("health")
    tab.page.wait_for_selector("#history svg.bars rect.done:not([height='0.00'])")


def test_the_plan_tells_limits(tab: Tab, client: ApiClient) -> None:
    """The cores that remain of an account's limit after the deployment stand beside its plan."""
    given = {"username": "limited", "password": "correct horse battery", "email": "limited@example.org"}
    account = client.call("createAccount", **given, firstname="L", lastname="L", accounttype=0)["account"]
    owned = {"account": "limited", "domainid": account["domainid"]}
    client.call("updateResourceLimit", **owned, resourcetype=8, max=7777)
    fill_in(tab, 5, "limited")
    tab.page.select_option("#owner", f"account:{account['domainid']}:limited")
    tab.page.wait_for_selector("#plan:has-text('7,777')")
