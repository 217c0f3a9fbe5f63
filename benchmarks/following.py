"""Following a CloudStack of 25,000 hosts and 100,000 VMs: ``make bench-follow``.

One JSON object per line: the CPU that ``bulkdeploy follow`` took, as a share of a core, and the calls a minute that
the CloudStack got, while one VM a second changes there; what a reading of hosts takes, of which ten a minute fall
silent, and one of everything; and what all that is in the long run. ``HOSTS``, ``VMS``, ``EVENTS`` a second and
``MINUTES`` in the environment: others.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks.cpu import cpu_seconds
from benchmarks.ground import BenchmarkZone, end, ground, say
from benchmarks.imports import CALLS_PER_SECOND, HOSTS, VMS, prepared
from bulkdeploy.cloudstack.client import Access, Client
from bulkdeploy.manage.upstream.following import (
    SHARE_OF_EVERYTHING,
    SHARE_OF_MOVES,
    SHARE_OF_PLACES,
    Cadence,
    Follower,
)
from bulkdeploy.wiring.logs import configure_logging
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_engine, build_system

EVENTS, MINUTES = 1.0, 10.0
"""Events a second, and for how long following is watched."""


def main() -> None:
    """Measure what following takes."""
    hosts, vms = int(os.environ.get("HOSTS", HOSTS)), int(os.environ.get("VMS", VMS))
    events, minutes = float(os.environ.get("EVENTS", EVENTS)), float(os.environ.get("MINUTES", MINUTES))
    command = [sys.executable, "-m", "benchmarks.generated_cloudstack", *map(str, (hosts, vms, events))]
    with ground() as servers, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cloud:
        try:
            assert cloud.stdout is not None
            url = f"http://127.0.0.1:{cloud.stdout.readline().strip()}/client/api"
            settings = prepared(servers.settings("followed"), url)
            zone = BenchmarkZone(settings, build_engine(settings), servers)
            with zone.programs:
                follower = start(zone, url, servers.directory)
                report("first reading", wait_for_a_reading(zone, follower, url), hosts=hosts, vms=vms)
                watched = watch(zone, follower, url, minutes)
                report("events", watched, events_per_s=events, minutes=minutes)
                end(follower)
            share, calls = watched["percent_of_a_core"], watched["calls_a_minute"]
            for name, read in readings(settings, url).items():
                report(name, read)
                share += 100 * read["cpu_seconds"] / read["seconds_apart"]
                calls += 60 * read["calls"] / read["seconds_apart"]
            report("in the long run", {"percent_of_a_core": round(share, 2), "calls_a_minute": round(calls, 1)})
            zone.engine.dispose()
        finally:
            cloud.terminate()


def readings(settings: Settings, url: str) -> dict[str, dict[str, Any]]:
    """What it takes to read places, and everything; and how far apart that is done."""
    configure_logging(settings)
    system = build_system(settings)
    client = Client(Access(url, "key", "key", None, CALLS_PER_SECOND))
    try:
        follower = Follower(system, client)
        follower.round()  # all modules are imported
        figures = {}
        for name, due, often_s, share in (
            ("clusters, hosts and pools", "_places_due", Cadence().places, SHARE_OF_PLACES),
            ("VMs that may have moved", "_moves_due", Cadence().moves, SHARE_OF_MOVES),
            ("everything", "_all_due", Cadence().everything, SHARE_OF_EVERYTHING),
        ):
            setattr(follower, due, 0.0)
            before, began, cpu = client.calls.total(), time.monotonic(), time.process_time()
            follower.round()
            cpu = time.process_time() - cpu
            figures[name] = {
                "seconds": round(time.monotonic() - began, 1),
                "cpu_seconds": round(cpu, 2),
                "calls": client.calls.total() - before,
                "seconds_apart": round(max(often_s, cpu / share)),
            }
        return figures
    finally:
        client.close()
        system.drivers.close()
        system.reading.dispose()
        system.engine.dispose()


def start(zone: BenchmarkZone, url: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process that follows, as operators start it, but at more calls a second, and reading events only."""
    options = ["--url", url]
    for name in ("apikey", "secretkey"):
        (folder / name).write_text("key")
        options += [f"--{name}", f"@{folder / name}"]
    options += [
        "--places-seconds",
        "100000",
        "--moves-seconds",
        "100000",
        "--calls-per-second",
        str(CALLS_PER_SECOND),
    ]
    return zone.start(("-m", "bulkdeploy.manage.main", "follow", "cloudstack", *options))


def wait_for_a_reading(zone: BenchmarkZone, follower: subprocess.Popen[bytes], url: str) -> dict[str, Any]:
    """What the next reading of everything took, from the start of the process on."""
    began, before = time.monotonic(), calls_of(url)
    query = text("SELECT imported FROM followed_clouds WHERE imported IS NOT NULL")
    while True:
        with zone.engine.connect() as connection:
            if connection.execute(query).first() is not None:
                break
        assert follower.poll() is None, "it ended"
        time.sleep(0.2)
    calls = calls_of(url) - before
    return {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(cpu_seconds(follower.pid), 1),
        "calls": calls.total(),
    }


def watch(zone: BenchmarkZone, follower: subprocess.Popen[bytes], url: str, minutes: float) -> dict[str, Any]:
    """What following takes between two readings of everything."""
    began, cpu, before = time.monotonic(), cpu_seconds(follower.pid), calls_of(url)
    oldest_s = 0.0
    while time.monotonic() < began + 60 * minutes:
        time.sleep(1)
        with zone.engine.connect() as connection:
            age = connection.execute(text("SELECT extract(epoch FROM now() - seen) FROM followed_clouds")).scalar()
        oldest_s = max(oldest_s, float(age or 0))
    seconds, calls = time.monotonic() - began, calls_of(url) - before
    return {
        "percent_of_a_core": round(100 * (cpu_seconds(follower.pid) - cpu) / seconds, 2),
        "calls_a_minute": round(60 * calls.total() / seconds, 1),
        "calls": dict(calls),
        "oldest_picture_s": round(oldest_s, 1),
    }


def calls_of(url: str) -> Counter[str]:
    """The calls that the CloudStack got, by command."""
    with urllib.request.urlopen(f"{url}?command=countCalls", timeout=60) as answer:  # noqa: S310 - our own http URL
        return Counter(json.load(answer))


def report(name: str, figures: dict[str, Any], **conditions: object) -> None:
    """One line."""
    print(json.dumps({"name": name, **conditions, **figures}), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
    say("done")
