"""Draws the pictures of docs/explanation/console.md: ``make console-pictures``, in a browser."""

import re
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support.browsers.chromium import chromium, why_not
from tests.support.processes.whole_service import WholeService, whole_service

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1280, 800
PHONE = {"width": 390, "height": 800}
MOVES_AFTER_MS = 4000
"""The time after which jobs that began together are at different stages."""
COLOURS = 255
HALF_WAY = 60
GRAPHS_AFTER_MIN = 3
"""A VM is measured once a minute; a graph needs two measurements with differences."""
TO_THE_END = ("health", "topology", "virtual-machine")
"""Shown below what fits a screen, too."""
IN_THE_DARK = ("virtual-machines", "capacity", "health")
WAITED_FOR = {"topology": "canvas", "health": "#history"}
"""Selectors of elements that a page shows last."""


def main() -> None:
    """Deploy three batches, with failures in the last, and look at every page."""
    missing = why_not()
    if missing is not None:
        sys.exit(f"No pictures: {missing}")
    with (
        tempfile.TemporaryDirectory() as folder,
        whole_service(Path(folder) / "data") as service,
        chromium() as browser,
    ):
        page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light").new_page()
        page.goto(f"{service.url}/console/")
        _take(page, "sign-in")
        page.fill("#username", "admin")
        page.fill("#password", service.password)
        page.click("button.primary")
        for place, count in (("pod-a", 250), ("pod-b", 120)):
            _deploy(page, "Large", count, f"shop-{place[-1]}", place)
            _wait_to_the_end(page)
        service.run(
            "simulator", "latency", "set", "boot", "9000", "--distribution", "normal", "--spread-ms", "3000"
        )
        service.run(
            "simulator", "faults", "add", "--step", "boot", "--host", "b-kvm-2-04", "--reason", "out of disk"
        )
        _deploy(page, "Small", 40, "cache", "pod-b")
        _wait_to_the_end(page)
        _take(page, "failures")
        _fill_in(page, "Small", 200, "web")
        _take(page, "deploy")
        page.click("#deploy button.primary")
        while int(page.locator(".figures dd").first.inner_text()) < HALF_WAY:  # the policy allows no script of ours
            page.wait_for_timeout(500)
        _take(page, "deployment")
        _wait_to_the_end(page)
        _look_around(page, service)
        _keep_a_number(page)
        _take_phone(browser, service)


def _fill_in(page: Any, offering: str, count: int, prefix: str) -> None:
    page.goto(re.sub(r"/console/.*", "/console/deploy", page.url))
    page.select_option("#serviceofferingid", label=_label(page, "#serviceofferingid", offering))
    page.wait_for_load_state("networkidle")
    page.select_option("#templateid", label=_label(page, "#templateid", "Debian 12 (KVM)"))
    page.wait_for_load_state("networkidle")
    page.select_option("#networkids", index=0)
    page.fill("#virtualmachinecount", str(count))
    page.fill("#nameprefix", prefix)
    page.wait_for_selector("#plan .headline")
    page.wait_for_load_state("networkidle")


def _label(page: Any, field: str, begins: str) -> str:
    labels = page.locator(f"{field} option").all_inner_texts()
    return str(next(label for label in labels if label.startswith(begins)))


def _deploy(page: Any, offering: str, count: int, prefix: str, place: str) -> None:
    _fill_in(page, offering, count, prefix)
    page.click("details:has(#place) summary")
    page.select_option("#place", label=place)
    page.click("#deploy button.primary")


def _wait_to_the_end(page: Any) -> None:
    page.wait_for_selector("#deployment:not([data-live])", timeout=240_000)


def _look_around(page: Any, service: WholeService) -> None:
    root = f"{service.url}/console/"
    service.run("audit")
    pages = (
        "overview",
        "deployments",
        "virtual-machines",
        "hosts",
        "jobs",
        "events",
        "capacity",
        "topology",
        "health",
    )
    for name in pages:
        page.goto(root + name)
        if name in WAITED_FOR:
            page.wait_for_selector(WAITED_FOR[name])
        _take(page, name)
        if name in IN_THE_DARK:
            page.emulate_media(color_scheme="dark")
            _take(page, f"{name}-dark")
            page.emulate_media(color_scheme="light")
    page.goto(f"{root}topology")
    page.select_option("#vms", index=1)
    page.wait_for_selector("canvas")
    page.hover("canvas", position={"x": 20, "y": 30})
    _take(page, "topology-deployment")
    page.goto(f"{root}capacity")
    page.click("a.cell >> nth=0")
    _take(page, "cluster")
    page.click(".cells a.cell >> nth=0")
    _take(page, "host")
    page.click("button[value=prepareHostForMaintenance]")
    _take(page, "maintenance")
    service.run("simulator", "latency", "set", "migrate", "9000", "--distribution", "normal", "--spread-ms", "3000")
    page.click("button.danger.primary")
    page.wait_for_selector("#host tbody .state.busy")
    page.wait_for_timeout(MOVES_AFTER_MS)
    _take(page, "moves")
    page.goto(f"{root}act?of=volumes&command=createVolume")
    page.click("details.more summary")
    page.fill("#name", "data-1")
    page.select_option(
        "#diskofferingid", page.locator("#diskofferingid option:has-text(' GiB')").first.get_attribute("value")
    )
    page.select_option("#zoneid", index=1)
    page.fill("#size", "3")
    page.click("form.stack button.primary")
    page.wait_for_selector("#wrong-size:not(:empty)")
    _take(page, "form")
    page.fill("#size", "")
    page.click("form.stack button.primary")
    page.wait_for_load_state("networkidle")
    for name, address in (("volumes", "volumes"), ("search", "search?q=shop-a-1"), ("settings", "settings")):
        page.goto(root + address)
        _take(page, name)
    page.goto(f"{root}virtual-machines?keyword=shop-b&state=Running&size=50")
    page.check("[data-everything]")
    page.click("button[value=stopVirtualMachine]")
    _take(page, "stop")
    page.click("button.danger.primary")
    page.wait_for_url(re.compile("bulk-operation"))
    page.wait_for_timeout(MOVES_AFTER_MS)
    _take(page, "bulk-operation")
    page.goto(f"{root}virtual-machines?keyword=shop-a&state=Running")
    page.click("tbody a.name >> nth=0")
    _wait_for_graphs(page)
    _take(page, "virtual-machine")
    page.click("details.columns:has(a[href^='act?']) summary")
    page.click("details.columns a:has-text('Migrate virtual machine')")
    _take(page, "migrate")


def _keep_a_number(page: Any) -> None:
    """Deploy a managed deployment and replace half of its VMs."""
    _fill_in(page, "Small", 30, "kept")
    page.click("details:has(#managed) summary")
    page.select_option("#managed", "true")
    page.click("#deploy button.primary")
    _wait_to_the_end(page)
    page.click("#deployment .head a:has-text('Replace its VMs')")
    page.fill("#maxsurge", "5")
    page.fill("#pauseafter", "50")
    _take(page, "replace")
    page.click("form.stack button.primary")
    page.wait_for_selector("button[value=resume]", timeout=240_000)
    _take(page, "replacement")


def _take_phone(browser: Any, service: WholeService) -> None:
    """Take pictures of a telephone's width, in the dark."""
    context = browser.new_context(viewport=PHONE, color_scheme="dark", has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{service.url}/console/")
    page.fill("#username", "admin")
    page.fill("#password", service.password)
    page.click("button.primary")
    _take(page, "phone")
    page.click("details.pages summary")
    _take(page, "phone-pages")
    context.close()


def _wait_for_graphs(page: Any) -> None:
    for _ in range(GRAPHS_AFTER_MIN):
        if page.locator("polyline").count():
            return
        page.wait_for_timeout(60_000)
        page.reload()


def _take(page: Any, name: str) -> None:
    page.wait_for_load_state("networkidle")
    picture = Image.open(
        BytesIO(page.screenshot(full_page=name.startswith(TO_THE_END) and not name.startswith("virtual-machines")))
    )
    picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(
        IMAGES / f"console-{name}.png", optimize=True
    )


if __name__ == "__main__":
    main()
