"""Opens every page of CloudStack's own UI in a real browser before the service, and prints what failed on each.

``python -m tests.cloudstack_ui CHECKOUT [PICTURES]`` takes a source tree of CloudStack whose UI is built, in
``ui/dist``. The browser gets the files of the UI at an address of the service, so that its calls go to the service.
A page fails if a call is rejected, a script ends with an error, or the UI shows an error. ``expected.toml`` beside
this module names pages that are known to fail, with the reason. The program ends with exit code 1 if other pages
fail, or if these do not. Pictures of all pages are written to the folder PICTURES, if it is given.
"""

import mimetypes
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Error

from tests.support.browsers.chromium import chromium, why_not
from tests.support.processes.services import server_directory
from tests.support.processes.whole_service import WholeService, whole_service

EXPECTED = Path(__file__).parent / "expected.toml"
PLACE = "/cloudstack-ui/"
"""Where the browser finds the UI on the service's address."""

CONTENT = ".ant-layout-content"
"""The part of the UI between its menu, its header and its footer."""

PROBES = frozenset({"cloudianIsEnabled", "listAndSwitchSamlAccount"})
"""Commands of plug-ins that the UI calls when it is loaded, and whose refusal it takes for their absence."""

PATIENCE_MS = 60_000
QUIET_MS = 700
"""How long a page has made no calls when it is taken as complete."""

COMPLETE = """() => {
  const content = document.querySelector('.ant-layout-content');
  const busy = '.ant-spin-spinning, .ant-skeleton-active, .ant-message-loading, .ant-table-loading';
  return content && content.innerText.trim() && !document.querySelector(busy);
}"""
"""Holds when the page shows something and nothing that says that it waits."""

ROUTES = """() => document.querySelector('#app').__vue_app__.config.globalProperties.$router.getRoutes()
  .filter(route => !route.path.includes(':') && !route.path.includes('*') && route.meta && route.meta.permission)
  .map(route => route.path)"""


LONGEST = 400
"""Characters of a page's failures that the table shows."""

VMS = 3
"""VMs that are there when the pages are opened."""


DIALOGS = "/action/"
"""The beginning of addresses of forms; the UI opens most of them from a thing only."""


@dataclass(slots=True)
class Visit:
    """A tab of the browser in which somebody is signed in, and what went wrong since the page was opened."""

    page: Any
    root: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> list[str]:
        """Open a page, wait until it is quiet, and return what failed on it."""
        try:
            self.page.goto("about:blank")  # else a page that fails may leave all pages after it empty
            self.problems.clear()
            self.page.goto(f"{self.root}{PLACE}#{path}")
            self.wait()
            self.page.wait_for_function(COMPLETE, timeout=PATIENCE_MS)
            self.wait()
        except Error as error:
            self.problems.append(f"browser: {error.message[:200]}")
        return self.failures()

    def failures(self) -> list[str]:
        """Return what failed since the page was opened, each failure once; an empty page has failed."""
        if not "".join(self.page.locator(CONTENT).all_inner_texts()).strip():
            self.problems.append("the page is empty")
        shown = self.page.locator(".ant-notification-notice-error, .ant-message-error").all_inner_texts()
        return list(dict.fromkeys([*self.problems, *(f"shows: {' '.join(text.split())}" for text in shown)]))

    def call(self, command: str, **parameters: str) -> dict[str, Any]:
        """Call the API with the session of the browser, and return what is in the envelope."""
        cookies = {cookie["name"]: cookie["value"] for cookie in self.page.context.cookies()}
        sent = {"command": command, "response": "json", "sessionkey": cookies["sessionkey"], **parameters}
        answer = self.page.request.post(f"{self.root}/client/api", form=sent)
        if not answer.ok:
            raise AssertionError(f"{command}: {answer.text()}")
        (content,) = answer.json().values()
        return dict(content)

    def wait(self) -> None:
        """Wait until the page has made its calls."""
        self.page.wait_for_load_state("networkidle", timeout=PATIENCE_MS)
        self.page.wait_for_timeout(QUIET_MS)
        self.page.wait_for_load_state("networkidle", timeout=PATIENCE_MS)


def main() -> None:
    """Open the pages and print a table of them."""
    folder = Path(sys.argv[1]) / "ui" / "dist"
    pictures = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    reason = why_not()
    if reason is not None or not (folder / "index.html").is_file():
        sys.exit(reason or f"{folder} has no index.html: build the UI of the checkout (npm install, npm run build)")
    expected = tomllib.loads(EXPECTED.read_text())
    with server_directory() as data, whole_service(data / "data") as service, signed_in(service, folder) as visit:
        deploy(visit)
        outcomes = {}
        for path, failures in _walk(visit, pictures):
            outcomes[path] = failures
            note = "as expected" if failures and path in expected else ""
            state = "failed" if failures else "passed"
            sys.stdout.write(f"{state}  {path}  {'; '.join(failures)[:LONGEST]}  {note}\n")
            sys.stdout.flush()
    failed = {path for path, failures in outcomes.items() if failures}
    sys.stdout.write(f"{len(outcomes)} pages, {len(failed)} failed, {len(expected)} expected to fail\n")
    differ = failed ^ expected.keys()
    sys.exit(f"not as expected: {', '.join(sorted(differ))}" if differ else 0)


def deploy(visit: Visit) -> None:
    """Deploy VMs, so that lists of VMs and volumes have rows, and wait until they run."""
    first = {
        name: visit.call(f"list{name}", **more)[key][0]["id"]
        for name, key, more in (
            ("Zones", "zone", {}),
            ("ServiceOfferings", "serviceoffering", {}),
            ("Templates", "template", {"templatefilter": "executable"}),
        )
    }
    visit.call(
        "bulkDeployVirtualMachine",
        zoneid=first["Zones"],
        serviceofferingid=first["ServiceOfferings"],
        templateid=first["Templates"],
        virtualmachinecount=str(VMS),
    )
    while visit.call("listVirtualMachines", state="Running").get("count") != VMS:
        visit.page.wait_for_timeout(QUIET_MS)


def _walk(visit: Visit, pictures: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield each page with its failures; of a list also the page of its first row."""
    paths = {path for path in visit.page.evaluate(ROUTES) if not path.startswith(DIALOGS)}
    for path in sorted(paths):
        failures = visit.open(path)
        _draw(visit, pictures, path)
        yield path, failures
        first = visit.page.locator(f".ant-table-tbody a[href^='#{path}/']").first
        href = first.get_attribute("href") if first.count() else None
        if href is not None:
            failures = visit.open(href.removeprefix("#"))
            _draw(visit, pictures, f"{path}/one")
            yield f"{path}/one", failures


def _draw(visit: Visit, pictures: Path | None, path: str) -> None:
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        visit.page.screenshot(path=pictures / f"{path.strip('/').replace('/', '-') or 'root'}.png")


@contextmanager
def signed_in(service: WholeService, folder: Path) -> Iterator[Visit]:
    """Sign in to the UI as the administrator."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        visit = Visit(page, service.url)
        page.route(f"**{PLACE}**", lambda route: _serve(route, folder))
        page.on("pageerror", lambda error: visit.problems.append(f"script: {str(error)[:200]}"))
        page.on("response", lambda response: _note(visit, response))
        page.goto(f"{service.url}{PLACE}")
        visit.wait()  # the UI loads its login page twice; what is typed into the first is lost
        page.locator("#formLogin input[type=text]").first.fill("admin")
        page.locator("#formLogin input[type=password]").first.fill(service.password)
        page.locator("#formLogin button[type=submit]").click()
        page.wait_for_url("**/#/dashboard*")
        visit.wait()
        yield visit


def _serve(route: Any, folder: Path) -> None:
    name = urlsplit(route.request.url).path.removeprefix(PLACE) or "index.html"
    file = folder / name
    if file.is_file():
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        route.fulfill(body=file.read_bytes(), content_type=kind)
    else:
        route.fulfill(status=404, body="")


def _note(visit: Visit, response: Any) -> None:
    """Note a call that was rejected."""
    address = urlsplit(response.url)
    if address.path.rstrip("/") == "/client/api" and response.status >= 400:
        sent = {**parse_qs(address.query), **parse_qs(response.request.post_data or "")}
        command = sent.get("command", ["?"])[0]
        if command not in PROBES:
            visit.problems.append(f"{command}: {response.status} {response.headers.get('x-description', '')[:200]}")


if __name__ == "__main__":
    main()
