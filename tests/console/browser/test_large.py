"""A zone of 25,000 hosts in a real browser: the map, the lists and the graphs stay light, fluid and accessible."""

import gzip
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from benchmarks.generation import OFFERING, TEMPLATE, Size, generate_zones
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.console.browser.conftest import Tab
from tests.console.browser.test_operators import open_action
from tests.support.browsers.accessibility import barriers
from tests.support.browsers.console_server import OwnConsole, own_console
from tests.support.zones.zone_queries import Zone

LARGE = Size(zones=1, pods=25, clusters=625, hosts=25_000, vms=2000)
PAGES = (
    *(
        "overview",
        "topology",
        "capacity",
        "hosts",
        "clusters",
        "virtual-machines",
        "host",
        "cluster",
        "virtual-machine",
    ),
    *("search?q=large-1-", "deploy", "migrate"),
)
LIGHT_BYTES = 150_000
MEASURED = (
    "INSERT INTO host_usage_intervals (host_id, interval_s, begun, measurements, cpu_measurements, cpu_shares,"
    " memory_used_kib, received_kib, sent_kib)"
    " SELECT h.id, i.length, now() - i.number * make_interval(secs => i.length), 1, 1,"
    "  1000 + 500 * (i.number % 7), 8388608, 100000 * i.number, 5000"
    " FROM hosts h, (SELECT length, number FROM (VALUES (300), (3600)) l (length), generate_series(1, 60) number) i"
    " WHERE h.cluster_id = :cluster"
)
VM_SAMPLES = (
    "INSERT INTO guest_usage_samples (vm_id, seen, cpu_share, memory_kib, unused_kib, received_kib, sent_kib,"
    " read_requests, write_requests, read_kib, written_kib)"
    " SELECT :vm, now() - number * interval '1 minute', 100 * number, 1048576, 524288, 600, 60, 1, 1, 300, 30"
    " FROM generate_series(1, 50) number"
)
VM_INTERVALS = (
    "INSERT INTO guest_usage_intervals (vm_id, begun, measurements, cpu_shares, memory_kib, memory_used_kib,"
    " received_kib, sent_kib, read_kib, written_kib)"
    " SELECT :vm, now() - number * interval '30 minutes', 1, 100 * number, 1048576, 524288, 600, 60, 300, 30"
    " FROM generate_series(1, 300) number"
)
DISPLAY_OF_KEY_HINTS = """() => {
  const hint = document.createElement("span");
  hint.className = "keys-only";
  document.body.append(hint);
  return getComputedStyle(hint).display;
}"""
CORES = 777
"""The limit of cores of the tenant that has VMs in the zone."""


@pytest.fixture(scope="module")
def console(
    postgres_url: str,
    small_zone_database: str,
    redis_url: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OwnConsole]:
    """A console before the zone, with measurements of one cluster."""
    folder = tmp_path_factory.mktemp("large")
    with own_console(postgres_url, small_zone_database, redis_url, cipher, folder) as made:
        generate_zones(made.engine, LARGE, prefix="large")
        zone = Zone(made.engine)
        zone.change(MEASURED, cluster=zone.scalar("SELECT id FROM clusters WHERE name = 'large-1-cluster-1'"))
        yield made


@pytest.fixture(scope="module")
def places(console: OwnConsole) -> dict[str, str]:
    """Addresses of pages about the zone."""
    zone = Zone(console.engine)
    zone_id = zone.id_of("zones", "large-1")
    cluster = zone.id_of("clusters", "large-1-cluster-1")
    host = zone.scalar(
        "SELECT h.uuid FROM hosts h JOIN clusters c ON c.id = h.cluster_id WHERE c.uuid = :c LIMIT 1", c=cluster
    )
    vm = zone.scalar(
        "SELECT v.uuid FROM virtual_machines v JOIN zones z ON z.id = v.zone_id AND z.name = 'large-1' LIMIT 1"
    )
    network = zone.scalar("SELECT n.uuid FROM networks n JOIN zones z ON z.id = n.zone_id AND z.name = 'large-1'")
    form = {
        "serviceofferingid": zone.id_of("service_offerings", OFFERING),
        "templateid": zone.id_of("templates", TEMPLATE),
        "networkids": str(network),
    }
    return {
        **{page: f"{page}?zoneid={zone_id}" for page in ("topology", "capacity", "hosts", "clusters")},
        "host": f"host?id={host}",
        "cluster": f"cluster?id={cluster}",
        "virtual-machine": f"virtual-machine?id={vm}",
        "migrate": f"act?of=virtual-machines&command=migrateVirtualMachine&id={vm}",
        "deploy": f"deploy?{urlencode({'zoneid': zone_id, **form})}",
        "pinned": f"deploy?{urlencode({'zoneid': zone_id, **form, 'place': f'cluster:{cluster}'})}",
    }


@pytest.fixture
def open_large(console: OwnConsole, open_tab_at: Callable[..., Tab]) -> Iterator[Callable[..., Tab]]:
    """Tabs of the root admin in which nothing goes wrong."""
    tabs: list[Tab] = []

    def come(**named: object) -> Tab:
        tab = open_tab_at(console.url, **named)
        tab.go("")
        tab.sign_in("admin", ADMIN_PASSWORD)
        tabs.append(tab)
        return tab

    yield come
    for tab in tabs:
        assert tab.complaints == []


def test_the_map_of_25000_hosts(open_large: Callable[..., Tab], places: dict[str, str]) -> None:
    """The map is small on the wire, needs one answer, obeys the arrow keys and opens each host."""
    tab = open_large(width=1440)
    bodies: list[int] = []
    tab.page.on("response", lambda answer: bodies.append(len(gzip.compress(answer.body()))))
    tab.requested.clear()
    tab.go(places["topology"])
    tab.page.wait_for_selector("canvas")
    assert sum(bodies) < LIGHT_BYTES
    assert len([url for url in tab.requested if "zone-map" in url]) == 1
    assert "25,000 hosts in 625 clusters" in tab.text("[data-line]")
    assert tab.page.locator("canvas").count() == 25
    tab.page.focus("canvas")
    hosts = set()
    for _ in range(30):
        tab.page.keyboard.press("ArrowRight")
        hosts.add(tab.text("[data-line] a"))
    assert len(hosts) == 30
    tab.page.locator("canvas").last.scroll_into_view_if_needed()
    tab.page.locator("canvas").last.focus()
    tab.page.keyboard.press("End")
    last = tab.text("[data-line] a")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#host")
    assert tab.text("h1") == last


def test_graphs_of_a_vm(open_large: Callable[..., Tab], console: OwnConsole, places: dict[str, str]) -> None:
    """Each period has its line for CPU and memory, two for the network and two for the disks; each is described."""
    zone, vm_id = Zone(console.engine), places["virtual-machine"].partition("id=")[2]
    vm = zone.scalar("SELECT id FROM virtual_machines WHERE uuid = :id", id=vm_id)
    zone.change(VM_SAMPLES, vm=vm)
    zone.change(VM_INTERVALS, vm=vm)
    tab = open_large()
    for period in ("hour", "day", "week"):
        tab.go(f"{places['virtual-machine']}&period={period}")
        assert tab.page.locator("polyline").count() == 6
        assert tab.page.locator("figure.graph svg[aria-label]").count() == 4
        assert barriers(tab.page) == []


def test_graphs_of_a_host_and_a_cluster(open_large: Callable[..., Tab], places: dict[str, str]) -> None:
    """Each period has its line for CPU and memory, and two for the network."""
    tab = open_large()
    for page in ("host", "cluster"):
        for period in ("hour", "day", "week"):
            tab.go(f"{places[page]}&period={period}")
            assert tab.page.locator("polyline").count() == 4
            assert tab.page.locator("figure.graph svg[aria-label]").count() == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_no_barriers_in_a_large_zone(
    open_large: Callable[..., Tab], places: dict[str, str], theme: str, width: int
) -> None:
    """Axe finds nothing, and nothing stands beyond the edge of the screen."""
    tab = open_large(width=width, theme=theme)
    found = {}
    for page in PAGES:
        tab.go(places.get(page, page))
        found[page] = barriers(tab.page)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page
    assert {page: there for page, there in found.items() if there} == {}


def test_maintenance_of_one_host_among_many(open_large: Callable[..., Tab], places: dict[str, str]) -> None:
    """The question names each VM and its new host; then the page shows each move; the maintenance can be ended."""
    tab = open_large(width=1440)
    tab.go(places["virtual-machine"])
    tab.page.click("#virtual-machine a[href^='host?']")
    tab.page.wait_for_selector("#host")
    host, count = tab.text("h1"), tab.page.locator("#host tbody a[href^='virtual-machine?']").count()
    tab.page.click("button[value=prepareHostForMaintenance]")
    tab.page.wait_for_selector(".headline")
    assert host in tab.text("h1")
    assert re.match(f"{count} of {count} VMs? finds? a host", tab.text(".headline"))
    assert tab.page.locator("main tbody a[href^='host?']").count() == count
    assert barriers(tab.page) == []
    tab.page.click(f"button:has-text('Begin maintenance of {host}')")
    tab.page.wait_for_selector("#host")
    assert "Preparing maintenance" in tab.text(".head")
    moves = tab.page.locator("section:has(h2:text-is('Moves off the host')) tbody tr")
    assert moves.count() == count
    assert tab.page.locator("dt:text-is('VMs') + dd").inner_text() == str(count)
    tab.go("overview")
    assert "in state Preparing maintenance" in tab.text("#overview")
    tab.page.go_back()
    tab.page.click("button[value=cancelHostMaintenance]")
    tab.page.wait_for_selector("button[value=prepareHostForMaintenance]")


def test_plans_in_a_large_zone(open_large: Callable[..., Tab], places: dict[str, str]) -> None:
    """Bars are true to scale, the command has names, and reasons tell what would help VMs that do not fit."""
    tab = open_large(width=1440, theme="dark")
    tab.go(f"{places['deploy']}&virtualmachinecount=5000")
    tab.page.wait_for_selector("#plan .headline >> text=All 5,000 VMs fit")
    scale = int(re.sub(r"\D", "", tab.text("#plan p.soft:has-text('whole length of a bar')")))
    row = tab.page.locator("#plan table.spread tr:has(td.picture)").first
    had, added, free = (int(text.replace(",", "")) for text in row.locator("td.number").all_inner_texts())
    drawn = {one.get_attribute("class"): float(one.get_attribute("width")) for one in row.locator("svg rect").all()}
    expected = {"had": had, "added": added, "room": free}
    assert drawn == {kind: pytest.approx(100 * part / scale, abs=0.01) for kind, part in expected.items() if part}
    tab.page.click("details:has(#line) summary")
    assert "zoneid=large-1 " in tab.text("#line")
    assert barriers(tab.page) == []
    tab.go(f"{places['pinned']}&virtualmachinecount=50000")
    tab.page.wait_for_selector("#plan .headline >> text=of 50,000 VMs would fit")
    assert tab.page.locator("#plan th:text-is('What would help')").count() == 1
    assert tab.text("#plan table:has(th:text-is('What would help')) tbody td:last-child")


def test_limits_beside_a_plan_in_a_large_zone(
    open_large: Callable[..., Tab], console: OwnConsole, places: dict[str, str]
) -> None:
    """The plan tells how many cores of the owner's limit remain, and that too many VMs would pass the limit."""
    zone = Zone(console.engine)
    (owner,) = zone.rows(
        "SELECT a.id, a.name, d.uuid AS domain FROM accounts a JOIN domains d ON d.id = a.domain_id"
        " WHERE a.id = (SELECT account_id FROM virtual_machines WHERE uuid = :vm)",
        vm=places["virtual-machine"].partition("id=")[2],
    )
    tab = open_large(width=1440)
    tab.go("accounts?keyword=" + owner.name)
    tab.page.click(f"tbody a.name:text-is('{owner.name}')")
    tab.page.wait_for_selector("#thing")
    open_action(tab, "Update resource limit")
    tab.page.select_option("#resourcetype", label="CPU cores")
    used = int(
        zone.scalar(
            "SELECT amount FROM resource_counts WHERE owner_kind = 'account' AND owner_id = :id"
            " AND resource_type = 8",
            id=owner.id,
        )
    )
    tab.page.fill("#max", str(used + CORES))
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_load_state("networkidle")
    form = f"{places['deploy']}&owner=account:{owner.domain}:{owner.name}"
    tab.go(f"{form}&virtualmachinecount=5")
    row = tab.page.locator(f"#plan tr:has(td:text-is('{used + CORES:,}'))")
    row.wait_for()
    limit, needed, left = (int(cell.replace(",", "")) for cell in row.locator("td.number").all_inner_texts())
    assert (limit, left) == (used + CORES, CORES - needed)
    assert barriers(tab.page) == []
    tab.go(f"{form}&virtualmachinecount={CORES + 1}")
    tab.page.wait_for_selector("#plan .notice.bad")
    assert re.search("cpu", tab.text("#wrong-owner"), re.IGNORECASE)


def test_an_action_on_all_vms_of_a_large_zone(open_large: Callable[..., Tab]) -> None:
    """A filter selects VMs of all pages; the bar of actions stays in view; one operation stops them."""
    tab = open_large()
    tab.go("virtual-machines?keyword=large-1-vm&size=100")
    tab.page.check("[data-everything]")
    assert tab.text("[data-chosen]") == f"{LARGE.vms}"
    tab.page.locator("tbody tr").last.scroll_into_view_if_needed()
    assert tab.page.locator("button[value=stopVirtualMachine]").bounding_box()["y"] >= 0
    tab.page.click("button[value=stopVirtualMachine]")
    tab.page.wait_for_selector(f"button:has-text('Stop {LARGE.vms:,} VMs')")
    assert barriers(tab.page) == []
    tab.page.click("button.danger.primary")
    tab.page.wait_for_url(re.compile("bulk-operation"))
    assert f"{LARGE.vms:,}" in tab.text("main")
    tab.page.click(".head a:has-text('Cancel bulk operation')")
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_selector("main:has-text('Cancelled')")


def test_things_of_a_large_zone_by_form_and_search(
    open_large: Callable[..., Tab], console: OwnConsole, places: dict[str, str]
) -> None:
    """A volume comes from its form; names, ids and addresses are found; a VM's move names the planner's choice."""
    tab = open_large()
    zone = places["hosts"].partition("zoneid=")[2]
    tab.go(f"act?of=volumes&command=createVolume&zoneid={zone}&name=large-volume")
    offering = tab.page.locator("#diskofferingid option:has-text(' GiB')").first.get_attribute("value")
    tab.page.select_option("#diskofferingid", offering)
    tab.page.click("form.stack button.primary")
    tab.page.wait_for_load_state("networkidle")
    address = places["virtual-machine"].partition("id=")[2]
    tab.go(places["virtual-machine"])
    name = tab.text("h1")
    (ip,) = re.findall(r"10\.\d+\.\d+\.\d+", tab.text("dl.facts"))
    (host,) = Zone(console.engine).rows("SELECT name, ip_address FROM hosts WHERE name = 'large-1-host-17000'")
    for text, found in (
        *((address, name), (ip, name), (name, name), ("large-volume", "large-volume")),
        *((host.name, host.name), (host.ip_address, host.name)),
    ):
        tab.page.keyboard.press("/")
        tab.page.keyboard.type(text)
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_selector(f"main td a:text-is('{found}')")
    tab.go(places["migrate"])
    options = tab.page.locator("#hostid option").count()
    assert 2 <= options <= 502
    chosen = tab.page.locator("#hostid option:checked").inner_text().partition(" · ")[0]
    assert f"chose {chosen}: " in tab.text("#hint-hostid")


def test_hosts_are_filtered_by_choices(
    open_large: Callable[..., Tab], console: OwnConsole, places: dict[str, str]
) -> None:
    """The list offers the states of hosts; the columns tell promised and used CPU and memory, power and HA."""
    Zone(console.engine).change("UPDATE hosts SET resource_state = 'Disabled' WHERE name = 'large-1-host-24000'")
    tab = open_large(width=1440)
    tab.go(places["hosts"])
    headings = tab.page.locator("thead th").all_inner_texts()
    assert {"State", "Resource state", "Cluster"} <= set(headings)
    tab.page.select_option("#resourcestate", "Disabled")
    tab.page.wait_for_url(re.compile("resourcestate=Disabled"))
    assert tab.page.locator("tbody tr").count() == 1
    assert tab.text("tbody a.name") == "large-1-host-24000"
    for page in (places["capacity"], "health"):
        tab.go(page)
        assert tab.page.locator(".notice a[href*='resourcestate=Disabled']").count() == 1
    Zone(console.engine).change("UPDATE hosts SET resource_state = 'Enabled'")


def test_hints_about_keys_are_for_keyboards(open_large: Callable[..., Tab], places: dict[str, str]) -> None:
    """At a keyboard the form and the map tell its keys; on a touch device the map tells to tap a cell."""
    for is_touched, width in ((True, 390), (False, 1440)):
        tab = open_large(width=width, is_touched=is_touched)
        tab.go(places["deploy"])
        assert (tab.page.evaluate(DISPLAY_OF_KEY_HINTS) == "none") is is_touched
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        tab.go(places["topology"])
        tab.page.wait_for_selector("canvas")
        hint = tab.text("[data-line]")
        assert ("arrow keys" in hint, "Tap" in hint) == (not is_touched, is_touched)
        if is_touched:
            tab.page.locator("canvas").first.tap(position={"x": 8, "y": 26})
            assert tab.text("[data-line] a").startswith("large-1-host-")
