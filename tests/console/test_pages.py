"""What holds of every page: who sees it, what it is made of, and what it costs to ask again."""

import gzip
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.api.app import create_app
from bulkdeploy.console import rendering
from bulkdeploy.console.app import with_console
from bulkdeploy.console.rendering import STATIC, TEMPLATES
from bulkdeploy.console.texts import FILE, read_texts
from bulkdeploy.services.system import System
from bulkdeploy.store.auditing.audit import Finding, record_audit
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.jobs.driver_errors import DriverErrorKind, add_driver_errors
from tests.conftest import ADMIN_PASSWORD
from tests.support.api.api_server import serving
from tests.support.api.console_client import Page, Visitor, each_form_has_the_key, words_of
from tests.support.browsers.console_server import NOWHERE
from tests.support.zones.zone_queries import Zone

FOR_ALL = ("overview", "virtual-machines", "volumes", "networks", "jobs", "events")
FOR_ADMINS = (*("deploy", "deployments", "capacity", "topology", "health", "hosts", "settings"),)
WITH_PARAMETERS = ("search?q=a", "act?of=volumes&command=createVolume")
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
NAMED = (
    *("hosts", "clusters", "pods", "networks", "templates", "service_offerings", "disk_offerings", "storage_pools"),
    *("volumes", "instance_groups", "affinity_groups", "security_groups", "ssh_key_pairs", "user_data", "projects"),
)
"""Tables of things whose names pages show."""
VENDORED = {"htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"}
"""Of htmx.org 4.0.1, as its npm package has it."""


@pytest.fixture(scope="module")
def things(console_engine: Engine, zone_ids: Zone, console_url: str) -> Iterator[dict[str, str]]:
    """Pages of single things, after a deployment of two VMs whose names, and all others, are hostile.

    Names of the zone are given back afterwards: other tests of the session look things up by them.
    """
    person = Visitor(console_url)
    person.sign_in("admin", ADMIN_PASSWORD)
    owner = f"account:{zone_ids.id_of('domains', 'acme')}:acme"
    parameters = {name: str(value) for name, value in zone_ids.bulk_parameters(2).items()}
    sent = {**parameters, "owner": owner, "userdata": EVIL, "requesttoken": "two"}
    location = person.send("deploy", sent).headers["Location"]
    person.close()
    with console_engine.begin() as connection:
        renamed = {"name": EVIL}
        names = {table: connection.execute(text(f"SELECT id, name FROM {table}")).all() for table in NAMED}
        for table in NAMED:
            connection.execute(text(f"UPDATE {table} SET name = :name || id"), renamed)
        connection.execute(text("UPDATE virtual_machines SET name = :name || id, display_name = :name"), renamed)
        connection.execute(text("UPDATE events SET description = :name"), renamed)
        failed = {"result": '{"errorcode": 530, "errortext": "<b>no</b>"}'}
        connection.execute(text("UPDATE async_jobs SET status = 2, result = :result, completed = now()"), failed)
        one = {
            table: connection.execute(text(f"SELECT uuid FROM {table} ORDER BY id LIMIT 1")).scalar_one()
            for table in ("virtual_machines", "async_jobs", "hosts", "clusters")
        }
    yield {
        "deployment": location,
        "virtual-machine": f"virtual-machine?id={one['virtual_machines']}",
        "job": f"job?id={one['async_jobs']}",
        "host": f"host?id={one['hosts']}",
        "cluster": f"cluster?id={one['clusters']}",
    }
    with console_engine.begin() as connection:
        for table, rows in names.items():
            for row in rows:
                connection.execute(text(f"UPDATE {table} SET name = :name WHERE id = :id"), row._asdict())


@pytest.fixture(
    params=[
        *FOR_ALL,
        *FOR_ADMINS,
        *WITH_PARAMETERS,
        "deployment",
        "virtual-machine",
        "job",
        "host",
        "cluster",
        "sign-in",
    ]
)
def address(request: pytest.FixtureRequest, things: dict[str, str]) -> str:
    """Every page."""
    return things.get(str(request.param), str(request.param))


def test_pages_are_nothing_but_their_own(admin: Visitor, address: str) -> None:
    """No script, style or handler within a page, nothing of another host, every address relative to the page.

    A name with markup in it stays a name: it makes no element.
    """
    answer = admin.get(address)
    page = Page(answer.text)
    assert answer.status_code == 200
    for tag, attributes in page.elements:
        assert tag not in ("style", "img", "b")
        assert not [name for name in attributes if name == "style" or re.fullmatch(r"(hx-)?on.*", name)]
        for name in ("src", "href", "action", "hx-get", "hx-post"):
            assert not re.match(r"/|[a-z]+:", attributes.get(name, "")), (tag, attributes)
    assert all(script["src"].startswith("static/") for script in page.all("script"))
    assert each_form_has_the_key(page)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "private, no-cache"


def test_the_first_load_is_light(admin: Visitor) -> None:
    """Sign-in, the map as the page with most scripts, and all its files take less than 150 kB compressed."""
    bodies = [admin.get("sign-in").content, admin.get("topology").content]
    names = {name for body in bodies for name in re.findall(r'(?:src|href)="(static/[^"]+)"', body.decode())}
    assert len(names) >= 5
    bodies += [admin.get(unescape(name)).content for name in names]
    assert sum(len(gzip.compress(body)) for body in bodies) < 150_000


def test_hostile_names_were_there(admin: Visitor, things: dict[str, str]) -> None:
    """What the test above looks for is in those pages."""
    for name in ("virtual-machine", "host", "cluster"):
        assert EVIL in admin.page(things[name]).text
    assert "<b>no</b>" in admin.page(things["deployment"]).text


def test_health_tells_of_drivers_and_of_the_last_audit(admin: Visitor, console_engine: Engine) -> None:
    """Failed driver calls by kind, whatever became of their jobs; what was not as promised, and an alarm for it."""
    assert "It has not run yet." in admin.page("health").text
    with console_engine.begin() as connection:
        add_driver_errors(connection, [DriverErrorKind("boot", "KVM", "transient")] * 3)
        record_audit(connection, [Finding("pools", "pools hold what rows say", 7, ("volume <i>9</i> is nowhere",))])
    shown = admin.page("health")
    assert "may succeed later" in shown.text
    assert "The last audit found something that is not as promised." in shown.text
    assert "volume <i>9</i> is nowhere" in shown.text
    with console_engine.begin() as connection:
        record_audit(connection, [Finding("pools", "pools hold what rows say", 7, ())])
    assert "Everything was as promised: 7 things compared." in admin.page("health").text


def test_graphs_of_hosts_and_of_jobs(admin: Visitor, things: dict[str, str], console_engine: Engine) -> None:
    """Two measurements make graphs of a host and of its cluster, within the period that is chosen; jobs by hour."""
    assert "Not enough measurements yet" in admin.page(things["host"]).text
    with console_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO host_usage_intervals (host_id, interval_s, begun, measurements, cpu_measurements,"
                " cpu_shares, memory_used_kib, received_kib, sent_kib) SELECT id, 300,"
                " now() - i * interval '2 hours', 2, 2, 2 * 1000 * i, 2 * 1048576, 300 * 1024, 0"
                " FROM hosts, generate_series(1, 2) i"
            )
        )
    for address in (things["host"], things["cluster"]):
        graphs = admin.page(address)
        assert [len(one["points"].split()) for one in graphs.all("polyline")] == [2, 2, 2, 2]
        assert "now 10.0 % · highest 20.0 %" in graphs.text.replace("\u00a0", " ")
        assert not admin.page(f"{address}&period=hour").all("polyline")
    assert "1.0 MiB/s" in admin.page(things["host"]).text.replace("\u00a0", " ")
    shown = admin.page("job-history")
    assert "VMs deployed per hour" in shown.text
    assert "<b>no</b>" in shown.text


def test_the_map_leads_to_hosts(admin: Visitor, console_engine: Engine) -> None:
    """The script's answer holds every host's name, and the page of a host opens by its cluster and name."""
    page = admin.page("topology")
    (canvas,) = page.all("div", id="map")
    found = admin.get(canvas["data-source"])
    assert found.headers["Content-Type"] == "application/json"
    clusters = found.json()["clusters"]
    with console_engine.connect() as connection:
        live = connection.execute(text("SELECT count(*) FROM hosts WHERE removed IS NULL")).scalar_one()
    assert sum(len(cluster["hosts"]) for cluster in clusters) == live
    named = {"clusterid": clusters[0]["id"], "name": clusters[0]["hosts"][0]}
    assert named["name"] in admin.page(f"host?{urlencode(named)}").text
    again = admin.get(canvas["data-source"], If_None_Match=found.headers["ETag"])
    assert (again.status_code, again.content) == (304, b"")


def test_asking_again_costs_little(admin: Visitor, things: dict[str, str]) -> None:
    """Where nothing has changed the answer is 304 without a body; who signs in anew gets a page of their own."""
    for page in (things["deployment"], things["deployment"].replace("deployment", "deployment-live", 1), "jobs"):
        first = admin.get(page)
        again = admin.get(page, If_None_Match=first.headers["ETag"])
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


@pytest.mark.parametrize("page", FOR_ADMINS)
def test_users_are_offered_what_they_may(alice: Visitor, page: str) -> None:
    """No bulk form and nothing of the infrastructure; who asks for it all the same hears what the API says."""
    links = {link["href"] for link in alice.page("virtual-machines").all("a")}
    assert page not in links
    assert {*FOR_ALL} <= links
    answer = alice.get(page)
    assert answer.status_code == 422
    assert "is not available" in answer.text


def test_users_see_their_own(
    alice: Visitor, admin: Visitor, things: dict[str, str], console_engine: Engine
) -> None:
    """The same rows as the API shows them."""
    assert alice.page(things["virtual-machine"]).all("h1")
    with console_engine.begin() as connection:
        connection.execute(text("UPDATE virtual_machines SET account_id = 2"))
    try:
        refused = alice.get(things["virtual-machine"])
        assert (refused.status_code, EVIL in refused.text) == (422, False)
        assert admin.get(things["virtual-machine"]).status_code == 200
    finally:
        with console_engine.begin() as connection:
            connection.execute(
                text("UPDATE virtual_machines SET account_id = (SELECT id FROM accounts WHERE name = 'acme')")
            )


@pytest.mark.parametrize("page", ["nothing", "deploy-plan", "static/../app.py", "static/nothing.js"])
def test_pages_that_are_not_there(admin: Visitor, page: str) -> None:
    """Are told so, with a way back."""
    assert admin.get(page).status_code in (404, 405)


@pytest.mark.parametrize("page", ["virtual-machine", "job", "host", "cluster", "deployment"])
def test_things_that_are_not_there(admin: Visitor, page: str) -> None:
    """A sentence, never a failure."""
    for given in ("", "?id=", "?id=x", "?id=00000000-0000-0000-0000-000000000000"):
        answer = admin.get(page + given)
        assert answer.status_code in (404, 422)
        assert 'role="alert"' in answer.text


def test_a_database_that_is_away(console_system: System) -> None:
    """Is said in the words of the API, with the status that tells proxies and scripts that it may pass."""
    engine = create_engine(NOWHERE)
    with serving(with_console(create_app(replace(console_system, engine=engine)))) as url:
        person = Visitor(url)
        person.http.cookies.update({"JSESSIONID": "of-before", "sessionkey": "of-before"})
        for answer in (person.sign_in("admin", ADMIN_PASSWORD), person.get(""), person.get("jobs")):
            assert answer.status_code == 503
            assert "The database cannot be reached at the moment" in words_of(answer.text)
        person.close()
    engine.dispose()


@pytest.mark.parametrize("theme", ["light", "dark", ""])
def test_themes(admin: Visitor, theme: str) -> None:
    """What is chosen stays chosen; the system decides where nothing is."""
    answer = admin.send("theme", {"theme": theme, "next": "jobs"})
    assert answer.headers["Location"] == "jobs"
    for page in ("jobs", "vnc"):
        assert admin.page(page).all("html")[0].get("data-theme", "") == theme


def test_files_of_a_release_are_kept(admin: Visitor) -> None:
    """Their addresses name the release, so a browser never asks again, and never shows those of another."""
    scripts = [one["src"] for one in admin.page("jobs").all("script")]
    assert all(re.fullmatch(r"static/[\w.]+\?[0-9a-f]{16}", script) for script in scripts)
    assert "immutable" in admin.get(scripts[0]).headers["Cache-Control"]


def test_vendored_files_are_what_they_say() -> None:
    """Byte for byte what their makers published, with their licence beside them."""
    for name, digest in VENDORED.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
        assert (STATIC / f"{name.partition('.')[0]}.LICENSE").is_file()


def templates() -> list[Path]:
    """All templates."""
    return sorted(TEMPLATES.rglob("*.html"))


def test_what_scrolls_is_reached_by_keyboard() -> None:
    """Each part of a page that may be wider than the screen takes the focus, and has a name."""
    parts = {
        (path.name, part)
        for path in templates()
        for part in re.findall(r'<[^>]*class="scroll"[^>]*>', path.read_text())
    }
    assert not {(name, part) for name, part in parts if 'tabindex="0" role="region" aria-label="' not in part}


def test_all_words_stand_in_one_file() -> None:
    """Templates have none: a translation is one file."""
    for template in templates():
        assert not words_in(template), template


def words_in(template: Path) -> set[str]:
    """Words that somebody would read."""
    source = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", " ", template.read_text(), flags=re.DOTALL)
    words = re.sub(r"<[^>]*>|[\w-]+=\"[^\"]*\"", " ", source)
    spoken = re.findall(r"(?:aria-label|title|placeholder)=\"([^\"]*[A-Za-z][^\"]*)\"", source)
    left = {*re.findall(r"[A-Za-z]{2,}", words)} - {
        *("docs", "how", "to"),
        "operations",
        "md",
        "bulkdeploy",
        "audit",
        "inventory",
        "load",
    }
    return left | set(spoken) - {"#cloud-config"}


def test_every_text_is_used() -> None:
    """A text that no page shows any more goes."""
    sources = " ".join(path.read_text() for path in [*templates(), *rendering.FOLDER.rglob("*.py")])
    groups = FILE.read_text().split("\n[")
    looked_up_by_name = {
        "states",
        "columns",
        "actions",
        "questions",
        "themes",
        "nav",
        "empty",
        "capacities",
        "job_states",
        "driver_errors",
        "periods",
        "alarms",
        "groups",
        "flags",
        "resources",
        "resource_types",
        "errors",
        "deploy",
        "replacement",
    }
    unused = [
        f"{group.partition(']')[0]}.{name}"
        for group in groups[1:]
        if group.partition("]")[0] not in looked_up_by_name
        for name in re.findall(r"^([\w-]+) = ", group, re.MULTILINE)
        if f"{group.partition(']')[0]}.{name}" not in sources
    ]
    assert not unused


def test_one_and_many() -> None:
    """Counts have their own words for one."""
    texts = read_texts()
    assert texts.capacity.vms(count=1) == "1 VM"
    assert texts.capacity.vms(count=2000) == "2,000 VMs"
    assert texts.states.get("Brand New") == "Brand New"
    with pytest.raises(AttributeError, match="nothing"):
        _ = texts.nothing
