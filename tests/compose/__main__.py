"""The production shape on a real engine, from start to restore, as the guides say (one file: one installation).

``python -m tests.compose``; ``make test-compose`` sees to an engine and to base images first.
"""

import gzip
import http.client
import http.server
import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from threading import Event, Thread
from typing import Any

from bulkdeploy.embedded.valkey import free_port
from tests.compose.production import Production, commands_of
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.runs.waiting import say, wait_for

VMS = 2000
BOOT_MS = 1500
COMPONENTS = ("worker", "api", "sweeper", "redis", "postgres", "proxy")
NEXT = "next"
OPERATIONS, BACKUP = "docs/how-to/operations.md", "docs/how-to/backup.md"


class Cloud:
    """What a caller sees of the service."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client
        self.zone = self._first("listZones", "zone")["id"]
        self.offering = self._first("listServiceOfferings", "serviceoffering", name="Small")["id"]
        self.template = self._first("listTemplates", "template", templatefilter="executable")["id"]

    def deploy(self, count: int) -> str:
        """One bulk call; its deployment."""
        answer = self.client.call(
            "bulkDeployVirtualMachine",
            zoneid=self.zone,
            serviceofferingid=self.offering,
            templateid=self.template,
            virtualmachinecount=count,
        )
        return str(answer["asyncjobs"][0]["deploymentid"])

    def jobs(self, deployment: str) -> Counter[str]:
        """Its jobs by status; nothing while the service does not answer."""
        try:
            found = self.client.call("listBulkDeployments", id=deployment)["bulkdeployment"][0]
        except (ApiFailure, OSError, ValueError):
            return Counter()
        return Counter(
            {name: found[name] for name in ("queued", "running", "succeeded", "failed") if name in found}
        )

    def wait(self, deployment: str, count: int) -> None:
        """Until every job has ended, all of them well."""
        wait_for(lambda: self.jobs(deployment)["succeeded"] == count, f"{count} jobs")

    def _first(self, command: str, noun: str, **parameters: str) -> dict[str, Any]:
        return dict(self.client.call(command, **parameters)[noun][0])


@contextmanager
def polling(cloud: Cloud, deployment: str, threads: int = 2) -> Iterator[Counter[int | str]]:
    """Callers that ask again and again; what they were answered."""
    answers: Counter[int | str] = Counter()
    ended = Event()

    def request() -> None:
        while not ended.is_set():
            try:
                status: int | str = cloud.client.get("listBulkDeployments", id=deployment).status
            except OSError as error:
                status = repr(error)
            answers[status] += 1
            ended.wait(0.02)

    callers = [Thread(target=request) for _ in range(threads)]
    for caller in callers:
        caller.start()
    try:
        yield answers
    finally:
        ended.set()
        for caller in callers:
            caller.join()


def start(site: Production) -> Cloud:
    """README's commands, and what an operator does next."""
    site.shell(commands_of("README.md", "Production"))
    assert len(site.containers("worker")) == 4, "as .env says"
    site.shell(commands_of("docs/how-to/inventory.md", "Under Compose"))
    site.tool(f"simulator latency set boot {BOOT_MS}")
    say("README's commands ran; a zone is loaded")
    return Cloud(site.client())


def only_calls_pass(site: Production) -> None:
    """The proxy hands out nothing that is for operators, and nobody in a container may more than it needs."""
    anybody = ApiClient(site.url, "", "")
    for path in ("/metrics", "/health/ready", "/health/live", "/"):
        assert anybody.request("GET", path).status == 404, path
    assert "Sign in" in anybody.request("GET", "/console/sign-in").text
    for service in (*COMPONENTS, "migrate"):
        for container in site.shell(f"docker compose ps --all --quiet {service}").split():
            host, config = (site.details(container)[part] for part in ("HostConfig", "Config"))
            assert service == "proxy" or config["User"] not in ("", "root", "0"), service
            assert all(host[bound] for bound in ("Memory", "NanoCpus", "PidsLimit")), service
    owner = "SELECT rolsuper FROM pg_roles WHERE rolname = 'bulkdeploy'"
    requested = f'docker compose exec -T postgres psql --username postgres --tuples-only --command "{owner}"'
    assert site.shell(requested).strip() == "f"
    say("only calls pass the proxy; nobody may more than needed")


def proxy(site: Production, cloud: Cloud) -> None:
    """Calls are spread over all API containers; and with a name the proxy speaks TLS."""
    before = site.calls_answered()
    with ThreadPoolExecutor(8) as callers:
        assert set(callers.map(lambda _: cloud.client.get("listZones").status, range(200))) == {200}
    spread = [after - first for first, after in zip(before, site.calls_answered(), strict=True)]
    assert len(spread) > 1
    assert min(spread) > 200 / len(spread) / 4, spread
    say(f"200 calls over 8 connections: {spread}")
    port = free_port()
    again = "docker compose up --detach --no-deps --wait proxy"
    site.shell(again, BULKDEPLOY_SITE="localhost", BULKDEPLOY_PUBLISH=f"127.0.0.1:{port}:8443")
    its_own = ssl._create_unverified_context()  # noqa: S323 - no authority signs "localhost"
    link = http.client.HTTPSConnection("localhost", port, context=its_own)
    wait_for(lambda: _status(link) == 401, "TLS")
    site.shell(again)
    say("with a name the proxy speaks TLS")


GUESSES = """
import sys, urllib.error, urllib.request
form = b"command=login&response=json&username=nobody&password=wrong"
for _ in range(int(sys.argv[1])):
    try:
        urllib.request.urlopen("http://proxy:8080/client/api", form)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def clients(site: Production, cloud: Cloud) -> None:
    """Clients behind the proxy have limits of their own: one that guesses passwords delays no other."""
    del cloud
    network = site.shell("docker network ls --quiet --filter label=com.docker.compose.network=proxy").split()[0]
    (described,) = json.loads(site.shell(f"docker network inspect {network}"))
    image = site.details(site.containers("api")[0])["Config"]["Image"]
    (site.place / "guesses.py").write_text(GUESSES)

    def guess(address: IPv4Address, count: int) -> list[str]:
        run = f"docker run --rm --interactive --network {network} --ip {address} --entrypoint python {image}"
        return site.shell(f"{run} - {count} < guesses.py").split()

    first, second = list(IPv4Network(described["IPAM"]["Config"][0]["Subnet"]).hosts())[-2:]
    assert "429" in (codes := guess(first, 30)), codes
    assert guess(second, 1) == ["531"], "another client of the proxy waits for the first one's guesses"
    say("clients behind the proxy have limits of their own")


def _status(link: http.client.HTTPConnection) -> int:
    try:
        link.request("GET", "/client/api?command=listZones")
        answer = link.getresponse()
        answer.read()
    except OSError:
        link.close()
        return 0
    return answer.status


def faults(site: Production, cloud: Cloud) -> None:
    """Every component is killed in turn while a batch is drained."""
    deployment = cloud.deploy(VMS)
    for component in COMPONENTS:
        time.sleep(5)
        say(f"{component} is killed; {dict(cloud.jobs(deployment))}")
        site.kill(component)
    cloud.wait(deployment, VMS)
    say(f"{VMS} VMs run")


def upgrade(site: Production, cloud: Cloud) -> None:
    """To the next release, back, and to it again: no call fails, nothing is lost."""
    old = version("bulkdeploy")
    make_next(old)
    deployment = cloud.deploy(100)
    with polling(cloud, deployment) as answers:
        steps = commands_of(OPERATIONS, "Upgrade").splitlines(keepends=True)
        site.shell("".join(steps[:-1]), NEW=NEXT)
        say(f"rolled to the next release: {dict(answers)}")
        more = cloud.deploy(100)
        site.shell(commands_of(OPERATIONS, "Upgrade", 1), OLD=old)
        say(f"rolled back: {dict(answers)}")
        cloud.wait(more, 100)
        site.shell("".join(steps), NEW=NEXT)
        say(f"rolled again, second half run: {dict(answers)}")
        last = cloud.deploy(100)
        cloud.wait(last, 100)
    cloud.wait(deployment, 100)
    assert set(answers) == {200}, answers
    revisions = site.tool("db revision").split()
    assert revisions[1] == revisions[3] == "9002_post_less", revisions


def make_next(old: str) -> None:
    """An image of a release with migrations of both halves."""
    context = Path(__file__).parent / "next_release"
    build = [
        "docker",
        "build",
        "--quiet",
        "--build-arg",
        f"RELEASE={old}",
        "--tag",
        f"bulkdeploy:{NEXT}",
        str(context),
    ]
    subprocess.run(build, check=True, capture_output=True)


def traces(site: Production, cloud: Cloud) -> None:
    """An image with the packages for traces sends those of a call and of its jobs."""
    commands = commands_of("docs/how-to/tracing.md", "With Compose")
    build = "docker compose build migrate"
    assert build in commands
    gateway = "docker network inspect --format '{{(index .IPAM.Config 0).Gateway}}' ${COMPOSE_PROJECT_NAME}_default"
    with receiving() as (port, received):
        url = f"http://{site.shell(gateway).strip()}:{port}"
        site.shell(commands.replace(build, build_image("opentelemetry")).replace("http://collector:4318", url))
        cloud.wait(cloud.deploy(20), 20)
        wait_for(lambda: {b"bulkdeploy-api", b"bulkdeploy-worker"} <= received, "spans of both")
    site.shell(r"sed -i '/BULKDEPLOY_EXTRA\|BULKDEPLOY_OTLP_ENDPOINT/d' .env")
    site.shell(f"{build_image()}; docker compose up --detach --wait")
    say("spans of a call and of its jobs arrived")


def build_image(extra: str = "") -> str:
    """As ``docker compose build migrate``, where containers reach packages by the host's network only."""
    arguments = f"--build-arg EXTRA={extra} --build-arg IMAGE_BASE=$IMAGE_BASE"
    return f"docker build --quiet --network host {arguments} --tag bulkdeploy:{version('bulkdeploy')} ."


@contextmanager
def receiving() -> Iterator[tuple[int, set[bytes]]]:
    """A receiver of OTLP over HTTP: its port, and which programs have sent spans."""
    received: set[bytes] = set()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            received.update(re.findall(rb"bulkdeploy-(?:api|worker|sweeper)", body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Receiver)  # noqa: S104 - containers send to it
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, received
    finally:
        server.shutdown()


def passwords(site: Production, cloud: Cloud) -> None:
    """The database's and Redis's are changed; programs go on with the new ones, and nobody gets in with the old."""
    old = (site.place / "secrets" / "database_password").read_text().strip()
    site.shell(commands_of(OPERATIONS, "Passwords and keys"))
    login = f"docker compose exec -T -e PGPASSWORD={old} postgres psql --host postgres --username bulkdeploy"
    assert "password authentication failed" in site.shell(f"{login} --list 2>&1 || true")
    site.shell(commands_of(OPERATIONS, "Passwords and keys", 1))
    cloud.wait(cloud.deploy(20), 20)
    say("the passwords of PostgreSQL and Redis are others now")


def backup(site: Production, cloud: Cloud) -> None:
    """A dump in the middle of a drain, a restore after its end: what was begun is run again, newer VMs adopted."""
    deployment = cloud.deploy(200)
    wait_for(lambda: cloud.jobs(deployment)["succeeded"] > 0, "a first VM")
    site.shell(commands_of(BACKUP, "Backup"))
    say(f"dumped; {dict(cloud.jobs(deployment))}")
    cloud.wait(deployment, 200)
    cloud.wait(cloud.deploy(20), 20)
    start, _rows_only, _dry_run = commands_of(BACKUP, "Restore", 4).splitlines(keepends=True)
    site.shell(commands_of(BACKUP, "Restore"))
    owner = "--account acme --domain ROOT/customers"
    for command in commands_of(BACKUP, "Restore", 3).replace(owner, "--offering Small").splitlines():
        site.shell(f"{command} || test $? -lt 5")  # 3: there are some, 4: done
    site.shell(start)
    say(f"restored; {dict(cloud.jobs(deployment))}")
    cloud.wait(deployment, 200)
    assert "Rows know every guest" in site.tool("unmanaged list")


def main(only: list[str]) -> None:
    """All of it, or the parts named."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bulkdeploy-compose-") as place:
        site = Production(Path(place), free_port())
        site.shell(build_image())
        try:
            cloud = start(site)
            only_calls_pass(site)
            for part in (proxy, clients, traces, passwords, faults, upgrade, backup):
                name = part.__name__
                if not only or name in only:
                    part(site, cloud)
                    breaches = site.audit()
                    assert not breaches, breaches
                    say(f"{name}: the audit reports no discrepancy")
        except BaseException:
            say(site.shell("docker compose ps --all; docker compose logs --no-color --tail 5"))
            raise
        finally:
            site.remove()
    say(f"all is as promised, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
