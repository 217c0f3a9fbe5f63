"""What pages of the console cost: ``make bench-console``.

In one process, from the browser's request to the bytes of the answer, without a socket. ``cpu`` is that of the
thread that answers; the rest of ``wall`` is the database, and other programs on the machine. Then, where there is
one, in a Chromium whose CPU is slowed down four times, over a socket.
"""

import gzip
import logging
import re
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import structlog
from rich.console import Console
from rich.table import Table
from sqlalchemy import text
from werkzeug.test import Client, TestResponse

from benchmarks.generation import Size
from benchmarks.ground import BenchmarkZone, ground, say
from bulkdeploy.api.app import create_app
from bulkdeploy.console.app import with_console
from bulkdeploy.wiring.system import build_system
from tests.support.api.api_server import serving
from tests.support.browsers.chromium import chromium, why_not

REPEATS = 15
DEPLOYED = 10_000
PASSWORD = "benchmark"  # noqa: S105 - of the database that is dropped afterwards
SLOWDOWN, BROWSER_REPEATS, WATCHED_S, PATIENCE_MS = 4, 5, 20, 240_000
INTERACTIVE = "performance.getEntriesByType('navigation')[0].domInteractive"
DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
"""Milliseconds until scripts may begin; and what is over once the page was drawn."""
SIZE = Size(zones=1, pods=4, clusters=40, hosts=2000, vms=1000)


def main() -> None:
    """Measure, and print a table."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    table = Table("page", "kB", "kB compressed", "CPU ms", "wall ms")
    with ground() as shared, shared.zone(SIZE, audited=False) as bench:
        application = with_console(create_app(build_system(bench.settings)))
        client = Client(application)
        client.post("/console/sign-in", data={"username": "admin", "password": PASSWORD})
        client.get("/console/jobs")
        deployment = _deploy(bench, client)
        live = f"/console/deployment-live?id={deployment}"
        tag = client.get(live).headers["ETag"]
        pages: dict[str, Callable[[], TestResponse]] = {
            "500 VMs": lambda: client.get("/console/virtual-machines?size=500"),
            "500 jobs": lambda: client.get("/console/jobs?size=500"),
            "capacity, 40 clusters": lambda: client.get("/console/capacity"),
            f"a deployment of {DEPLOYED:,}, changed": lambda: client.get(live),
            f"a deployment of {DEPLOYED:,}, unchanged (304)": lambda: client.get(
                live, headers={"If-None-Match": tag}
            ),
            "health": lambda: client.get("/console/health-live"),
        }
        for name, look in pages.items():
            table.add_row(name, *_measured(look))
        table.add_row("first load: sign-in, page, script, style", *_first_load(client))
        Console().print(table)
        missing = why_not()
        if missing is None:
            with serving(application) as url, chromium() as browser:
                Console().print(_in_a_browser(browser, f"{url}/console/", deployment))
        else:
            say(f"not in a browser: {missing}")


def _in_a_browser(browser: Any, root: str, deployment: str) -> Table:
    """How long a page takes in a browser on a slow machine, and how often an open one asks the server."""
    table = Table("in a browser", f"CPU slowed down {SLOWDOWN} times")
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    tools = page.context.new_cdp_session(page)
    tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    requested: list[str] = []
    sizes: list[int] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.goto(root)
    table.add_row("first load: interactive after", f"{page.evaluate(INTERACTIVE):.0f} ms")
    page.fill("#username", "admin")
    page.fill("#password", PASSWORD)
    page.click("button.primary")
    page.wait_for_selector("header.bar")
    table.add_row("  with the page after signing in", f"{sum(sizes) / 1000:.1f} kB, not compressed")
    tools.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    for name, address in (
        ("500 VMs", "virtual-machines?size=500"),
        (f"{DEPLOYED:,} VMs deployed", f"deployment?id={deployment}"),
    ):
        spent = [_spent_drawing(page, tools, root + address) for _ in range(BROWSER_REPEATS)]
        table.add_row(f"{name}: CPU to draw it, not slowed down", f"{median(spent):.0f} ms")
    requested.clear()
    page.wait_for_timeout(1000 * WATCHED_S)
    table.add_row("  left open: requests per second", f"{len(requested) / WATCHED_S:.2f}")
    return table


def _spent_drawing(page: Any, tools: Any, address: str) -> float:
    """Milliseconds of CPU of the thread that parses, runs scripts, lays out and paints, until the page is there."""

    def spent() -> float:
        metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
        return 1000 * float(metrics["TaskDuration"])

    page.goto("about:blank")
    before = spent()
    page.goto(address)
    page.evaluate(DRAWN)
    return spent() - before


def _deploy(bench: BenchmarkZone, client: Client) -> str:
    """A deployment whose jobs no worker takes; its id."""
    say(f"deploying {DEPLOYED} VMs")
    with bench.engine.connect() as connection:
        ids = {
            name: str(connection.execute(text(f"SELECT uuid FROM {table} ORDER BY id LIMIT 1")).scalar_one())  # noqa: S608
            for name, table in {
                "zoneid": "zones",
                "serviceofferingid": "service_offerings",
                "templateid": "templates",
                "networkids": "networks",
            }.items()
        }
    key = client.get_cookie("sessionkey", path="/console")
    form = {**ids, "virtualmachinecount": str(DEPLOYED), "sessionkey": "" if key is None else key.value}
    answer = client.post("/console/deploy", data=form)
    if answer.status_code != 303:
        raise RuntimeError(str(re.findall(r"role=.alert.>([^<]*)", answer.text)))
    return answer.headers["Location"].partition("=")[2]


def _measured(look: Callable[[], TestResponse]) -> tuple[str, ...]:
    cpu, wall = [], []
    for _ in range(REPEATS):
        began, began_cpu = time.perf_counter(), time.thread_time()
        answer = look()
        cpu.append(1000 * (time.thread_time() - began_cpu))
        wall.append(1000 * (time.perf_counter() - began))
    body = answer.data
    sizes = (len(body), len(gzip.compress(body)) if body else 0)
    return (*(f"{size / 1000:.1f}" for size in sizes), f"{median(cpu):.1f}", f"{median(wall):.1f}")


def _first_load(client: Client) -> tuple[str, ...]:
    page = client.get("/console/deployments").text
    files = [f"/console/{name}" for name in re.findall(r'(?:src|href)="(static/[^"]+)"', page)]
    bodies = [client.get("/console/sign-in").data, page.encode(), *(client.get(name).data for name in files)]
    sizes = (sum(map(len, bodies)), sum(len(gzip.compress(body)) for body in bodies))
    return (*(f"{size / 1000:.1f}" for size in sizes), "", "")


if __name__ == "__main__":
    main()
