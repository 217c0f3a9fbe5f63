"""A zone of 25,000 hosts in a real browser: the map, the lists and the graphs stay light, fluid and accessible."""

import gzip
from collections.abc import Callable, Iterator

import pytest

from benchmarks.generation import Size, generate_zones
from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.console.browser.conftest import Tab
from tests.support.browsers.accessibility import barriers
from tests.support.browsers.console_server import OwnConsole, own_console
from tests.support.zones.zone_queries import Zone

LARGE = Size(zones=1, pods=25, clusters=625, hosts=25_000, vms=2000)
PAGES = ("overview", "topology", "capacity", "hosts", "clusters", "virtual-machines", "host", "cluster")
LIGHT_BYTES = 150_000
MEASURED = (
    "INSERT INTO host_usage_intervals (host_id, interval_s, begun, measurements, cpu_measurements, cpu_shares,"
    " memory_used_kib, received_kib, sent_kib)"
    " SELECT h.id, i.length, now() - i.number * make_interval(secs => i.length), 1, 1,"
    "  1000 + 500 * (i.number % 7), 8388608, 100000 * i.number, 5000"
    " FROM hosts h, (SELECT length, number FROM (VALUES (300), (3600)) l (length), generate_series(1, 60) number) i"
    " WHERE h.cluster_id = :cluster"
)


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
    return {
        **{page: f"{page}?zoneid={zone_id}" for page in ("topology", "capacity", "hosts", "clusters")},
        "host": f"host?id={host}",
        "cluster": f"cluster?id={cluster}",
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
