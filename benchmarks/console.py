"""What pages of the console cost: ``make bench-console``.

In one process, from the browser's request to the bytes of the answer, without a socket. Objects are collected as
seldom as in the API program. ``cpu`` is that of the thread that answers; the rest of ``wall`` is the database, and
other programs on the machine. Then, where there is one, in a Chromium whose CPU is slowed down four times, over a
socket.
"""

import gc
import gzip
import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from html import unescape
from statistics import median
from typing import Any
from urllib.parse import urlencode

import structlog
from rich.console import Console
from rich.table import Table
from sqlalchemy import text
from werkzeug.test import Client, TestResponse

from benchmarks.generation import Size
from benchmarks.ground import BenchmarkZone, ground, say
from bulkdeploy.api.app import create_app
from bulkdeploy.console.app import with_console
from bulkdeploy.console.nouns import NOUNS
from bulkdeploy.wiring.garbage import collect_seldom
from bulkdeploy.wiring.system import build_system
from tests.support.api.api_server import serving
from tests.support.browsers.chromium import chromium, why_not

REPEATS = 15
DEPLOYED = 10_000
KEYS = 50
"""Arrow keys that are pressed on the map."""
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
        collect_seldom()
        application = with_console(create_app(build_system(bench.settings)))
        gc.freeze()
        client = Client(application)
        client.post("/console/sign-in", data={"username": "admin", "password": PASSWORD})
        client.get("/console/jobs")
        key = _key(client)
        form = _form(bench)
        deployment = _deploy(form, client)
        sent = {**form, "virtualmachinecount": "1000", "sessionkey": key}
        all_vms = {
            "action": "stopVirtualMachine",
            "everything": "1",
            "next": "virtual-machines?keyword=vm",
            "sessionkey": key,
        }
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
            "  its last part": lambda: client.get("/console/search-part?q=host-24&from=20"),
            f"capacity, 50 of {SIZE.clusters} clusters": lambda: client.get("/console/capacity"),
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
            "the form for deploying": lambda: client.get(f"/console/deploy?{urlencode(form)}"),
            "  its plan of 1,000 VMs": lambda: client.post("/console/deploy-plan", data=sent),
            "the form for migrating a VM": lambda: client.get(
                f"/console/act?of=virtual-machines&command=migrateVirtualMachine&id={places.vm}"
            ),
            "the question before maintenance": lambda: client.post(
                "/console/host-change",
                data={"action": "prepareHostForMaintenance", "id": places.host, "sessionkey": key},
            ),
            f"the question before {SIZE.vms:,} VMs stop": lambda: client.post(
                "/console/virtual-machines-change", data=all_vms
            ),
            "health": lambda: client.get("/console/health-live"),
            "  the last 24 hours": lambda: client.get("/console/job-history"),
        }
        pages |= {
            f"list: {noun.page}": partial(client.get, f"/console/{noun.page}")
            for noun in NOUNS
            if noun.page not in ("hosts", "settings")
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
    for name, address, last in (
        ("500 VMs", "virtual-machines?size=500", "tbody"),
        (f"map of {SIZE.hosts:,} hosts", "topology", "canvas"),
        (f"{DEPLOYED:,} VMs deployed", f"deployment?id={deployment}", "#deployment"),
    ):
        spent = [_spent_drawing(page, tools, root + address, last) for _ in range(BROWSER_REPEATS)]
        table.add_row(f"{name}: CPU to draw it, not slowed down", f"{median(spent):.0f} ms")
    requested.clear()
    page.wait_for_timeout(1000 * WATCHED_S)
    table.add_row("  left open: requests per second", f"{len(requested) / WATCHED_S:.2f}")
    page.goto(f"{root}topology")
    page.wait_for_selector("canvas")
    page.focus("canvas")
    before = _spent(tools)
    for _ in range(KEYS):
        page.keyboard.press("ArrowRight")
    page.evaluate(DRAWN)
    table.add_row(f"map of {SIZE.hosts:,} hosts: CPU of an arrow key", f"{(_spent(tools) - before) / KEYS:.1f} ms")
    return table


def _spent(tools: Any) -> float:
    """Return the milliseconds of CPU that the thread of a page has used for scripts, layout and painting."""
    metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
    return 1000 * float(metrics["TaskDuration"])


def _spent_drawing(page: Any, tools: Any, address: str, last: str) -> float:
    """Return the milliseconds of CPU until a page and the element that it draws last stand there."""
    page.goto("about:blank")
    before = _spent(tools)
    page.goto(address)
    page.wait_for_selector(last)
    page.evaluate(DRAWN)
    return _spent(tools) - before


def _form(bench: BenchmarkZone) -> dict[str, str]:
    """Return the fields of the bulk form."""
    with bench.engine.connect() as connection:
        return {
            name: str(connection.execute(text(f"SELECT uuid FROM {table} ORDER BY id LIMIT 1")).scalar_one())  # noqa: S608
            for name, table in {
                "zoneid": "zones",
                "serviceofferingid": "service_offerings",
                "templateid": "templates",
                "networkids": "networks",
            }.items()
        }


def _key(client: Client) -> str:
    """Return the key of the client's session."""
    key = client.get_cookie("sessionkey", path="/console")
    return "" if key is None else key.value


def _deploy(form: Mapping[str, str], client: Client) -> str:
    """Make a deployment whose jobs no worker takes; return its id."""
    say(f"deploying {DEPLOYED} VMs")
    answer = client.post(
        "/console/deploy", data={**form, "virtualmachinecount": str(DEPLOYED), "sessionkey": _key(client)}
    )
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
    if answer.status_code not in (200, 304):
        raise RuntimeError(f"{answer.request.path}: {answer.status_code}")
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
