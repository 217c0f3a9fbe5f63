"""Two releases side by side on one database: this one, and a next one with migrations of both halves.

The next release is this one's code in another place with two more migrations, so both are real programs.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from bulkdeploy.embedded.processes import spawn, stop
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER, environment
from bulkdeploy.store.migrations.revisions import needed_revision
from bulkdeploy.store.migrations.upgrade import newest_revision
from bulkdeploy.wiring.settings import Settings
from tests.architecture.test_imports import ROOT
from tests.support.processes.programs import BULKDEPLOY
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done, assert_all_run

pytestmark = pytest.mark.long

MIGRATION = '''"""One of the next release."""

from alembic import op

revision = "{name}"
down_revision = "{before}"


def upgrade() -> None:
    """Change something that can be seen."""
    op.execute("{statement}")
'''

PRE = "9001_pre_more"
POST = "9002_post_less"
STATEMENTS = {
    PRE: "ALTER TABLE zones ADD COLUMN of_the_next text",
    POST: "ALTER TABLE zones RENAME COLUMN of_the_next TO its_name",
}


class Release:
    """Programs and commands of one release."""

    def __init__(self, place: Path, settings: Settings) -> None:
        self.place, self.settings = place, settings
        self.log = settings.data_dir / f"{place.name}.log"
        self.monitored: dict[tuple[str, ...], str] = {}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return subprocess.run(
            [sys.executable, *BULKDEPLOY, *arguments],
            env=self._environment(self.settings),
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def start(self, program: tuple[str, ...]) -> subprocess.Popen[bytes]:
        """A program that runs on; ``monitored`` has its address."""
        self.monitored[program] = f"http://127.0.0.1:{free_port()}"
        listens = {
            "listen": f"127.0.0.1:{free_port()}",
            "monitoring_listen": self.monitored[program].removeprefix("http://"),
        }
        with self.log.open("ab") as output:
            return spawn(
                [sys.executable, *program],
                death_signal=signal.SIGKILL,
                output=output,
                environment=self._environment(self.settings.model_copy(update=listens)),
                directory=self.place,
            )

    def ready(self, program: tuple[str, ...]) -> str:
        """What a program says of itself."""
        try:
            with urllib.request.urlopen(f"{self.monitored[program]}/health/ready", timeout=PATIENCE_S) as answer:  # noqa: S310 - our own http URL
                return str(json.load(answer)["status"])
        except urllib.error.HTTPError as error:
            with error:
                return str(json.load(error)["status"])
        except OSError:
            return ""

    def _environment(self, settings: Settings) -> Mapping[str, str]:
        return {**environment(settings, dict(os.environ)), "PYTHONPATH": str(self.place)}


API = (*BULKDEPLOY, "api")


@pytest.fixture
def releases(quick: Settings, tmp_path: Path) -> tuple[Release, Release]:
    """This release, and the next one."""
    place = tmp_path / "next"
    for package in ("bulkdeploy", "workers"):
        shutil.copytree(ROOT / package, place / package)  # with what is compiled already
    before = newest_revision()
    for name, statement in STATEMENTS.items():
        file = place / "bulkdeploy" / "store" / "migrations" / "versions" / f"{name}.py"
        file.write_text(MIGRATION.format(name=name, before=before, statement=statement))
        before = name
    quick.data_dir.mkdir(parents=True, exist_ok=True)
    return Release(ROOT, quick), Release(place, quick)


def revisions(release: Release) -> str:
    """What the database has, by `bulkdeploy db revision`."""
    return release.run("db", "revision").stdout.splitlines()[0].split()[-1]


def test_an_upgrade_from_its_first_half_to_its_second(fleet: Fleet, releases: tuple[Release, Release]) -> None:
    """Who starts too early or stays too long is not ready, and says why; between the halves both releases work."""
    old, new = releases
    with ExitStack() as running:

        def start(release: Release, *programs: tuple[str, ...]) -> list[subprocess.Popen[bytes]]:
            started = [release.start(program) for program in programs]
            for process in started:
                running.callback(stop, process, signal.SIGTERM, patience_seconds=60)
            return started

        (early,) = start(new, API)
        wait_for(lambda: f"needs {PRE}: run `bulkdeploy db upgrade --half pre`" in new.ready(API))
        assert revisions(new) == newest_revision()
        assert "needs" in new.run("db", "upgrade", "--half", "post").stderr
        assert new.run("db", "upgrade", "--half", "pre").returncode == 0
        assert revisions(new) == revisions(old) == PRE
        wait_for(lambda: new.ready(API) == "ready")
        stop(early, signal.SIGTERM, patience_seconds=60)

        # The old release starts beside it, as after a way back, and its own upgrade has nothing to do.
        assert old.run("db", "upgrade", "--half", "pre").returncode == 0
        olds = start(old, API, WORKER, SWEEPER)
        fleet.deploy(10)
        fleet.sweeper().send_unsent()
        wait_for(lambda: all_done(fleet))
        news = start(new, WORKER)
        for process in olds[1:]:
            stop(process, signal.SIGTERM, patience_seconds=60)
        fleet.deploy(10)
        fleet.sweeper().send_unsent()
        wait_for(lambda: all_done(fleet))
        assert_all_run(fleet, 20)
        assert (old.ready(API), new.ready(WORKER)) == ("ready", "ready")

        assert new.run("db", "upgrade", "--half", "post").returncode == 0
        assert revisions(new) == POST
        start(old, WORKER, API)
        wait_for(lambda: f"A later release ended its upgrade of the database ({POST}" in old.ready(API))
        wait_for(lambda: POST in old.log.read_text())
        ended = old.run("db", "upgrade")
        assert (ended.returncode, "use that release" in ended.stderr) == (1, True), ended.stderr
        assert needed_revision() in new.run("db", "revision").stdout or revisions(new) == POST
        assert news[0].poll() is None


def test_first_half_waits_for_the_end_of_the_upgrade_before(
    fleet: Fleet, releases: tuple[Release, Release]
) -> None:
    """Where a second half is missing that an earlier release left, the first half of this one is refused."""
    old, new = releases
    versions = new.place / "bulkdeploy" / "store" / "migrations" / "versions"
    later = "9003_pre_later"
    (versions / f"{later}.py").write_text(MIGRATION.format(name=later, before=POST, statement="SELECT 1"))
    ended = new.run("db", "upgrade", "--half", "pre")
    assert (ended.returncode, POST in ended.stderr) == (1, True), ended.stderr
    assert "Traceback" not in ended.stderr
    assert revisions(old) == newest_revision()
    assert new.run("db", "upgrade").returncode == 0
    with psycopg.connect(fleet.engine.url.set(drivername="postgresql").render_as_string(False)) as connection:
        assert connection.execute("SELECT count(its_name) FROM zones").fetchone() is not None
