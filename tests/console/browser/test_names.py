"""Names that would run as scripts, end an attribute, turn text around or burst a page, in a real browser."""

from collections.abc import Callable, Iterator

import pytest

from bulkdeploy.wiring.cipher import FernetCipher
from tests.conftest import ADMIN_PASSWORD
from tests.console.browser.conftest import Tab
from tests.support.api.console_client import Visitor
from tests.support.browsers.console_server import own_console
from tests.support.zones.zone_queries import Zone

MARKUP = "<img src=x onerror='window.ran=1'><script>window.ran=1</script>"
QUOTES = "\"'` autofocus onfocus='window.ran=1' {{ 7*7 }} ${7*7} %s &amp;"
TURNED = "\u05e9\u05dc\u05d5\u05dd"
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3f3\ufe0f\u200d\U0001f308"
LONG = "W" * 90
NAME = f"{MARKUP}{QUOTES} {FAMILY} {LONG} \u202e{TURNED}"
NAMED = {
    "name": (
        *("accounts", "affinity_groups", "clusters", "disk_offerings", "domains", "hosts", "instance_groups"),
        *("networks", "pods", "projects", "security_groups", "service_offerings", "ssh_key_pairs"),
        *("storage_pools", "templates", "user_data", "virtual_machines", "volumes", "zones"),
    ),
    "username": ("users",),
    "display_name": ("virtual_machines",),
    "description": ("events",),
}
"""Tables of what pages name, by the column that names it."""
SHOWN = {
    "deploy": ("zones", "service_offerings", "templates", "networks", "accounts", "pods", "clusters"),
    "deployments": ("accounts", "zones"),
    "virtual-machines": ("virtual_machines", "accounts", "service_offerings", "templates", "zones", "clusters"),
    "jobs": ("accounts",),
    "events": ("accounts", "events", "users"),
    "capacity": ("zones", "pods", "clusters", "service_offerings"),
    "topology": ("zones", "pods", "accounts"),
    "health": (),
    "deployment": ("zones", "clusters", "pods"),
    "virtual-machines?column=domain&column=group": ("domains",),
    "virtual-machine": ("virtual_machines", "accounts", "service_offerings", "templates", "hosts"),
    "job": (),
    "cluster": ("zones", "pods", "clusters", "hosts"),
    "host": ("zones", "pods", "clusters", "hosts", "virtual_machines", "service_offerings"),
}
"""Whose names each page shows, if only in a list to choose from."""
LEAKS = """() => {
  const places = "main, .card, .cell, .bar, .menu, h1, .crumbs, .notice, button, .button, select, dd, svg.meter";
  const wide = [...document.querySelectorAll(places)]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
    .filter((one) => !one.closest(".scroll, .bar nav"));
  const foreign = document.querySelectorAll("img, main script, [onerror], [onfocus]");
  return [...wide, ...foreign].map((one) => one.outerHTML.slice(0, 160));
}"""
"""What stands beyond the edge of the screen, and what names made that is not text."""
ORDER = """(place) => {
  const range = document.createRange();
  range.selectNode(place.firstChild);
  const name = [...range.getClientRects()].at(-1), more = place.lastElementChild.getClientRects()[0];
  return name.right <= more.left + 1 || name.bottom <= more.top + 1;
}"""


@pytest.fixture(scope="module")
def console(
    postgres_url: str,
    small_zone_database: str,
    redis_url: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, dict[str, str]]]:
    """The URL of a service in which everything is called so, after a deployment; and addresses of single things."""
    folder = tmp_path_factory.mktemp("names")
    with own_console(postgres_url, small_zone_database, redis_url, cipher, folder) as made:
        yield made.url, everything_named(made.url, Zone(made.engine))


def everything_named(url: str, zone: Zone) -> dict[str, str]:
    """Deploy two VMs that run as far as rows say, and call all there is by the name; addresses of single things."""
    person = Visitor(url)
    person.sign_in("admin", ADMIN_PASSWORD)
    owner = f"account:{zone.id_of('domains', 'acme')}:acme"
    form = {name: str(value) for name, value in zone.bulk_parameters(2).items()}
    sent = person.send(
        "deploy", {**form, "owner": owner, "requesttoken": "names", "group": "g", "userdata": MARKUP}
    )
    assert sent.status_code == 303, sent.text
    person.close()
    zone.change("UPDATE virtual_machines SET state = 'Running'")
    for column, tables in NAMED.items():
        for table in tables:
            zone.change(f"UPDATE {table} SET {column} = :name || '|{table}|' || id", name=NAME)
    things = {"virtual-machine": "virtual_machines", "job": "async_jobs", "host": "hosts", "cluster": "clusters"}
    found = {page: zone.scalar(f"SELECT uuid FROM {table} ORDER BY id LIMIT 1") for page, table in things.items()}
    found["host"] = zone.scalar("SELECT h.uuid FROM hosts h JOIN virtual_machines v ON v.host_id = h.id LIMIT 1")
    chosen = {name: form[name] for name in ("serviceofferingid", "templateid")}
    return (
        chosen
        | {"deployment": sent.headers["Location"]}
        | {page: f"{page}?id={one}" for page, one in found.items()}
    )


@pytest.fixture
def visit(console: tuple[str, dict[str, str]], open_tab_at: Callable[..., Tab]) -> Iterator[Callable[..., Tab]]:
    """Tabs of the root admin, whose name is no better; nothing goes wrong in them."""
    tabs: list[Tab] = []

    def come(**size: int) -> Tab:
        tab = open_tab_at(console[0], **size)
        tab.go("")
        tab.sign_in(f"{NAME}|users|2", ADMIN_PASSWORD)
        tabs.append(tab)
        return tab

    yield come
    for tab in tabs:
        assert tab.complaints == []
        assert tab.page.evaluate("window.ran") is None


@pytest.mark.parametrize("width", [390, 1280])
def test_names_are_text_within_their_places(
    visit: Callable[..., Tab], console: tuple[str, dict[str, str]], width: int
) -> None:
    """On every page that shows them: they make no element, run nothing and push nothing off the screen."""
    tab = visit(width=width)
    for page, kinds in SHOWN.items():
        tab.go(console[1].get(page, page))
        content = str(tab.page.locator("main").evaluate("main => main.textContent"))
        for kind in kinds:
            assert f"{NAME}|{kind}|" in content, (page, kind)
        assert tab.page.evaluate(LEAKS) == [], page
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page
        assert tab.page.evaluate("window.ran") is None, page


def test_what_follows_a_name_is_not_turned_around(
    visit: Callable[..., Tab], console: tuple[str, dict[str, str]]
) -> None:
    """What stands behind a name from right to left stays behind it."""
    tab = visit()
    tab.go(console[1]["virtual-machine"])
    places = tab.page.locator("dd:has(> span.soft)")
    assert places.count()
    assert [place.inner_text() for place in places.all() if not place.evaluate(ORDER)] == []


def test_a_plan_and_a_question_with_such_names(
    visit: Callable[..., Tab], console: tuple[str, dict[str, str]]
) -> None:
    """What is drawn later, by scripts, keeps to the same; and what is typed into fields."""
    tab = visit()
    tab.go("deploy")
    for field in ("serviceofferingid", "templateid"):
        tab.page.select_option(f"#{field}", console[1][field])
        tab.page.wait_for_load_state("networkidle")
    tab.page.fill("#virtualmachinecount", "2")
    tab.page.click("details:has(#userdata) summary")
    tab.page.fill("#userdata", NAME)
    tab.page.fill("#nameprefix", NAME[:60])
    tab.page.wait_for_selector("#wrong-nameprefix:not(:empty)")
    assert tab.page.evaluate(LEAKS) == []
    tab.page.fill("#nameprefix", "fine")
    tab.page.wait_for_selector("#wrong-nameprefix:empty", state="attached")
    tab.go("virtual-machines")
    tab.page.check("tbody input[data-row] >> nth=0")
    tab.page.click("button[value=destroyVirtualMachine]")
    tab.page.wait_for_selector("text=Destroy this VM?")
    assert NAME in str(tab.page.locator("main").evaluate("main => main.textContent"))
    assert tab.page.evaluate(LEAKS) == []
