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
from html import unescape
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
SIZE = Size(zones=1, pods=25, clusters=625, hosts=25_000, vms=50_000)

PLACES = (
    "SELECT z.uuid AS zone, c.uuid AS cluster, h.uuid AS host, v.uuid AS vm FROM virtual_machines v"
    " JOIN hosts h ON h.id = v.host_id JOIN clusters c ON c.id = h.cluster_id JOIN zones z ON z.id = h.zone_id"
    " LIMIT 1"
)
OWNER = (
    "SELECT a.name, d.uuid FROM accounts a JOIN domains d ON d.id = a.domain_id"
    " WHERE a.id = (SELECT account_id FROM virtual_machines WHERE host_id IS NOT NULL LIMIT 1)"
)


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
        with bench.engine.connect() as connection:
            places, owner = connection.execute(text(PLACES)).one(), connection.execute(text(OWNER)).one()
        hosts = f"/console/zone-map?zoneid={places.zone}"
        pages: dict[str, Callable[[], TestResponse]] = {
            "500 VMs": lambda: client.get("/console/virtual-machines?size=500"),
            "500 jobs": lambda: client.get("/console/jobs?size=500"),
            "overview": lambda: client.get("/console/overview-live"),
            "search": lambda: client.get("/console/search?q=host-24"),
            f"capacity, 100 of {SIZE.clusters} clusters": lambda: client.get("/console/capacity"),
            "map": lambda: client.get("/console/topology"),
            f"  its {SIZE.hosts:,} hosts": lambda: client.get(hosts),
            f"  with the VMs of {owner.name}": lambda: client.get(
                f"{hosts}&vms=account:{owner.uuid}:{owner.name}&by=cpuallocated"
            ),
            "50 hosts": lambda: client.get("/console/hosts"),
            "50 settings": lambda: client.get("/console/settings"),
            "a cluster": lambda: client.get(f"/console/cluster?id={places.cluster}"),
            "a host": lambda: client.get(f"/console/host?id={places.host}"),
            "a VM": lambda: client.get(f"/console/virtual-machine?id={places.vm}"),
            f"a deployment of {DEPLOYED:,}, changed": lambda: client.get(live),
            f"a deployment of {DEPLOYED:,}, unchanged (304)": lambda: client.get(
                live, headers={"If-None-Match": tag}
            ),
            "health": lambda: client.get("/console/health-live"),
            "  the last 24 hours": lambda: client.get("/console/job-history"),
        }
        for name, look in pages.items():
            table.add_row(name, *_measured(look))
        table.add_row("first load: sign-in, page, script, style", *_first_load(client, "deployments"))
        table.add_row("  of the map, with its hosts", *_first_load(client, "topology"))
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


def _first_load(client: Client, name: str) -> tuple[str, ...]:
    page = client.get(f"/console/{name}").text
    parts = re.findall(r'(?:src|href|data-source)="((?:static/|zone-map)[^"]+)"', page)
    files = [f"/console/{unescape(one)}" for one in parts]
    bodies = [client.get("/console/sign-in").data, page.encode(), *(client.get(one).data for one in files)]
    sizes = (sum(map(len, bodies)), sum(len(gzip.compress(body)) for body in bodies))
    return (*(f"{size / 1000:.1f}" for size in sizes), "", "")


if __name__ == "__main__":
    main()
