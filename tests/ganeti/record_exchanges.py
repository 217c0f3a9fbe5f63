"""Records what a live cluster answers: ``python -m tests.ganeti.record_exchanges FOLDER``.

``ganeti_exchanges.json`` is the life of one guest, ``ganeti_bulk_exchanges.json`` two that are made by one request,
``ganeti_drbd_exchanges.json`` two with secondary nodes (three nodes, on which files stand in for DRBD).
Run beside a cluster (``cluster.sh``), with a database in BULKDEPLOY_DATABASE_URL.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests
from sqlalchemy import Engine

from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.ganeti_guest import GUEST, PAIR, THREE, life, mirrored_life, start_together
from tests.ganeti.live import mirrored_cluster, options

Steps = Callable[[GanetiDriver], Iterator[tuple[str, Any]]]


def record(engine: Engine, folder: Path) -> None:
    """Write both files."""
    _record(engine, folder / "ganeti_exchanges.json", [GUEST], life)
    _record(engine, folder / "ganeti_bulk_exchanges.json", PAIR, start_together)
    with mirrored_cluster():
        _record(engine, folder / "ganeti_drbd_exchanges.json", PAIR, mirrored_life, disk_template="drbd")


def _record(engine: Engine, path: Path, guests: Sequence[GuestSpec], steps: Steps, **more: str) -> None:
    """Write the exchanges of these steps with these guests, in their order; the guests are gone afterwards."""
    exchanges: list[dict[str, Any]] = []

    def keep(answer: requests.Response, **_: object) -> None:
        sent = answer.request
        body = json.loads(sent.body) if sent.body else None
        where = (sent.path_url or "").partition("?")[0]
        if where.endswith("/wait"):
            return
        exchanges.append(
            {
                "method": sent.method,
                "path": where,
                "request": body,
                "status": answer.status_code,
                "answer": answer.json(),
            }
        )

    driver = GanetiDriver.from_options(options(**more))
    kept = records_in(engine, lambda _: True)
    pool = shared_pool(guests[0].volumes[0].pool_uuid)
    driver.use_records(replace(kept, directory=FixedDirectory(THREE, pool)))
    hooks = driver._rapi.http.session.hooks["response"]
    hooks.append(keep)
    for step, _ in steps(driver):
        exchanges.append({"step": step})
    hooks.remove(keep)
    for guest in guests:
        driver.ensure_absent(None, guest.uuid, [one.uuid for one in guest.volumes], fence=9, timeout_s=300)
    driver.close()
    shortened = _shortened(exchanges, [str(guest.uuid) for guest in guests])
    path.write_text("[\n" + ",\n".join(map(json.dumps, shortened)) + "\n]\n")


def _shortened(exchanges: list[dict[str, Any]], uuids: Sequence[str]) -> list[dict[str, Any]]:
    """Without other instances and other jobs; of looks at one job the last."""
    kept: list[dict[str, Any]] = []
    for one in exchanges:
        answer: Any = one.get("answer")
        if one.get("path") == "/2/instances" and isinstance(answer, list):
            one["answer"] = [row for row in answer if row["name"].partition(".")[0] in uuids]
        if str(one.get("path")).startswith("/2/query/"):
            answer.pop("fields", None)
        if one.get("path") == "/2/query/job":
            if one["request"]["fields"] == ["id", "ops"]:
                answer["data"] = [row for row in answer["data"] if any(uuid in str(row) for uuid in uuids)]
            if kept and kept[-1].get("request") == one["request"]:
                kept.pop()
        kept.append(one)
    return kept


if __name__ == "__main__":
    record(create_engine(os.environ["BULKDEPLOY_DATABASE_URL"]), Path(sys.argv[1]))
