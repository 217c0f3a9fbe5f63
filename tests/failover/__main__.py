"""PostgreSQL dies under load and its standby is promoted: what is lost, and how long calls and jobs wait.

``make test-failover``. Once with a synchronous standby, once with an asynchronous one that was cut off a while
before: the second shows what then is lost, and what the audit says of it. The hypervisors' database is elsewhere:
guests stay.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

from cryptography.fernet import Fernet
from pydantic import SecretStr

from bulkdeploy.embedded.postgres import SUPERUSER, PostgresServer, binaries
from bulkdeploy.embedded.processes import spawn
from bulkdeploy.embedded.system_account import server_account
from bulkdeploy.embedded.valkey import ValkeyServer, free_port
from bulkdeploy.manage.programs.programs import API, SWEEPER, WORKER, command_line, environment
from bulkdeploy.wiring.settings import Settings
from tests.architecture.test_imports import ROOT
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.processes.programs import bulkdeploy
from tests.support.runs.waiting import say, wait_for

BATCH = 600
BOOT_MS = 400
STANDBY = "standby"


@dataclass
class Pair:
    """A primary and its standby, reached by one URL."""

    place: Path
    primary: PostgresServer
    standby: PostgresServer
    ports: tuple[int, int]

    @property
    def url(self) -> str:
        """As docs/how-to/operations.md says for several servers."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql://{SUPERUSER}@{hosts}/bulkdeploy?target_session_attrs=read-write&connect_timeout=5"

    def sql(self, server: PostgresServer, statement: str, database: str = "postgres") -> str:
        """What a statement answers."""
        port = self.ports[0] if server is self.primary else self.ports[1]
        command = [str(binaries() / "psql"), "--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        where = ["--host=127.0.0.1", f"--port={port}", f"--username={SUPERUSER}", f"--dbname={database}"]
        return subprocess.run(
            [*command, *where, f"--command={statement}"], check=True, capture_output=True, text=True
        ).stdout.strip()

    def follow(self, *, synchronous: bool) -> None:
        """Make the standby of the primary as it is, and let it follow."""
        where = ["--host=127.0.0.1", f"--port={self.ports[0]}", f"--username={SUPERUSER}"]
        copy = [str(binaries() / "pg_basebackup"), f"--pgdata={self.standby.data_dir}", "--write-recovery-conf"]
        subprocess.run([*copy, *where, "--checkpoint=fast"], check=True)
        recovery = self.standby.data_dir / "postgresql.auto.conf"
        text = recovery.read_text()
        recovery.write_text(
            text.replace("primary_conninfo = '", f"primary_conninfo = 'application_name={STANDBY} ")
        )
        if account := server_account():
            for path in [self.standby.data_dir, *self.standby.data_dir.rglob("*")]:
                os.chown(path, account.uid, account.gid)
        self.standby.start()
        follows = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        wait_for(lambda: self.sql(self.primary, follows) == "1", "the standby follows")
        if synchronous:
            self.sql(self.primary, f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
            self.sql(self.primary, "SELECT pg_reload_conf()")
            named = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_for(lambda: self.sql(self.primary, named) == "1", "the standby is synchronous")

    def cut_off(self) -> None:
        """From now on the standby learns nothing."""
        self.sql(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        self.sql(self.standby, "SELECT pg_reload_conf()")
        wait_for(
            lambda: not self.sql(self.standby, "SELECT pid FROM pg_stat_wal_receiver"), "the standby is cut off"
        )

    def promote(self) -> None:
        """The standby becomes the primary."""
        self.sql(self.standby, "SELECT pg_promote()")


@contextmanager
def pair(place: Path) -> Iterator[Pair]:
    """Both servers; the standby is made later."""
    ports = free_port(), free_port()
    servers = [
        PostgresServer(
            place / name / "data",
            place / f"{name}.log",
            {"listen_addresses": "127.0.0.1", "port": str(port), "max_wal_senders": "5", "shared_buffers": "128MB"},
        )
        for name, port in zip(("primary", STANDBY), ports, strict=True)
    ]
    servers[0].start()
    try:
        made = Pair(place, servers[0], servers[1], ports)
        made.sql(made.primary, "CREATE DATABASE bulkdeploy")
        yield made
    finally:
        for server in servers:
            server.stop()


class Caller(Thread):
    """Deploys one VM after the other; a call without an answer is repeated with its token, as the guide says."""

    def __init__(self, client: ApiClient, deploy: dict[str, object]) -> None:
        super().__init__()
        self._client, self._deploy, self.ended = client, deploy, Event()
        self.answered: list[tuple[float, str]] = []

    def run(self) -> None:
        """Until ``ended``."""
        token = str(uuid4())
        while not self.ended.is_set():
            try:
                answer = self._client.call(
                    "bulkDeployVirtualMachine", **self._deploy, virtualmachinecount=1, requesttoken=token
                )
            except (ApiFailure, OSError, ValueError):
                time.sleep(0.05)
                continue
            self.answered.append((time.monotonic(), str(answer["asyncjobs"][0]["jobid"])))
            token = str(uuid4())
            time.sleep(0.02)

    def wait(self) -> float:
        """Most seconds between two answers."""
        times = [when for when, _ in self.answered]
        return max(later - earlier for earlier, later in pairwise(times))


def fail_over(*, synchronous: bool) -> None:
    """One failover: the sentences that docs/explanation/high-availability.md has."""
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="bulkdeploy-failover-")))
        both = ends.enter_context(pair(place))
        elsewhere = PostgresServer(place / "hypervisors" / "data", place / "hypervisors.log", sync=False)
        elsewhere.start()
        ends.callback(elsewhere.stop)
        valkey = ValkeyServer(place / "valkey.log")
        valkey.start()
        ends.callback(valkey.stop)
        settings = Settings(
            data_dir=place / "service",
            database_url=both.url,
            redis_url=valkey.url(),
            listen=f"127.0.0.1:{free_port()}",
            secret_key=SecretStr(Fernet.generate_key().decode()),
            drivers={"default": "simulator"},
            driver={"simulator": {"url": elsewhere.url("simulator")}},
            lease_seconds=10,
        )
        done(settings, "db", "upgrade")
        done(settings, "inventory", "load", str(ROOT / "config" / "zones" / "demo.yaml"))
        done(settings, "simulator", "latency", "set", "boot", str(BOOT_MS))
        keys = json.loads(done(settings, "admin", "credentials", "--json"))
        both.follow(synchronous=synchronous)
        for arguments in (API, WORKER, WORKER, SWEEPER):
            ends.enter_context(running(settings, place / "programs.log", arguments))
        client = ApiClient(settings.url, keys["apikey"], keys["secretkey"])
        wait_for(lambda: answers(client), "the API")
        judge(both, settings, client, synchronous=synchronous)
        assert "Traceback" not in (place / "programs.log").read_text()


def judge(both: Pair, settings: Settings, client: ApiClient, *, synchronous: bool) -> None:
    """Load, the primary's death, the promotion, and what is left."""
    deploy: dict[str, object] = {
        "zoneid": client.call("listZones")["zone"][0]["id"],
        "serviceofferingid": client.call("listServiceOfferings", name="Small")["serviceoffering"][0]["id"],
        "templateid": client.call("listTemplates", templatefilter="executable")["template"][0]["id"],
    }
    client.call("bulkDeployVirtualMachine", **deploy, virtualmachinecount=BATCH)
    caller = Caller(client, deploy)
    caller.start()
    jobs = "SELECT count(*) FROM async_jobs WHERE status {}"
    wait_for(lambda: int(both.sql(both.primary, jobs.format("= 1"), "bulkdeploy")) > BATCH // 4, "a quarter")
    cut = time.monotonic()
    if not synchronous:
        both.cut_off()
        time.sleep(1)
    killed = time.monotonic()
    assert both.primary.process is not None
    both.primary.process.kill()
    time.sleep(2)  # whoever watches over it has noticed
    both.promote()
    promoted = time.monotonic()
    wait_for(lambda: any(when > promoted for when, _ in caller.answered), "a call after the promotion")
    time.sleep(1)
    caller.ended.set()
    caller.join()
    wait_for(lambda: both.sql(both.standby, jobs.format("= 0"), "bulkdeploy") == "0", "every job")
    ended = time.monotonic()
    known = set(both.sql(both.standby, "SELECT uuid FROM async_jobs", "bulkdeploy").split())
    lost = [when for when, job in caller.answered if job not in known]
    name = "synchronous" if synchronous else "asynchronous, cut off 1 s before"
    say(f"{name}: killed; promoted {promoted - killed:.1f} s later; longest wait of a call {caller.wait():.1f} s")
    say(
        f"  every job ended {ended - promoted:.1f} s after the promotion; answered calls that are lost: {len(lost)}"
    )
    audit = bulkdeploy(settings, "audit")
    breaches = [line for line in audit.stdout.splitlines() if not line.startswith("true")]
    if synchronous:
        assert not lost
        assert audit.returncode == 0, audit.stdout
        say("  audit: no discrepancy")
    else:
        assert all(when > cut for when in lost), "what the standby knew is there"
        say(f"  audit: {len(breaches)} lines, such as {breaches[0] if breaches else 'none'}")


def answers(client: ApiClient) -> bool:
    """Whether a call is answered."""
    try:
        return bool(client.call("listZones")["zone"])
    except (ApiFailure, OSError, ValueError, KeyError):
        return False


def done(settings: Settings, *arguments: str) -> str:
    """What a command of the product prints."""
    ended = bulkdeploy(settings, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@contextmanager
def running(settings: Settings, log: Path, arguments: tuple[str, ...]) -> Iterator[None]:
    """A program of the service."""
    with log.open("ab") as output:
        process = spawn(
            command_line(arguments),
            death_signal=signal.SIGKILL,
            output=output,
            environment=environment(settings, dict(os.environ)),
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    for kind in sys.argv[1:] or ("synchronous", "asynchronous"):
        fail_over(synchronous=kind == "synchronous")
