"""Records what a live cluster answers in the life of one guest: ``python -m tests.ganeti.record_exchanges FILE``.

Run beside a cluster (``cluster.sh``), with a database in BULKDEPLOY_DATABASE_URL.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests

from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.ganeti_guest import ADDRESSES, GUEST, VOLUME, life
from tests.ganeti.live import options


def main(path: Path) -> None:
    """Write the exchanges, in their order."""
    exchanges: list[dict[str, Any]] = []

    def keep(answer: requests.Response, **_: object) -> None:
        sent = answer.request
        body = json.loads(sent.body) if sent.body else None
        where = (sent.path_url or "").partition("?")[0]
        exchanges.append(
            {
                "method": sent.method,
                "path": where,
                "request": body,
                "status": answer.status_code,
                "answer": answer.json(),
            }
        )

    driver = GanetiDriver.from_options(options())
    kept = records_in(create_engine(os.environ["BULKDEPLOY_DATABASE_URL"]), lambda _: True)
    driver.use_records(replace(kept, directory=FixedDirectory(ADDRESSES, shared_pool(GUEST.volumes[0].pool_uuid))))
    driver.ensure_absent(None, GUEST.uuid, [VOLUME.uuid], fence=0, timeout_s=300)
    driver._rapi.http.session.hooks["response"].append(keep)
    for step, _ in life(driver):
        exchanges.append({"step": step})
    path.write_text(json.dumps(_shortened(exchanges), indent=1) + "\n")


def _shortened(exchanges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without other instances and other jobs; of looks at one job the last."""
    kept: list[dict[str, Any]] = []
    for one in exchanges:
        answer: Any = one.get("answer")
        if one.get("path") == "/2/instances" and isinstance(answer, list):
            one["answer"] = [row for row in answer if row["name"].startswith(str(GUEST.uuid))]
        if one.get("path") == "/2/query/job":
            if one["request"]["fields"] == ["id", "ops"]:
                answer["data"] = [row for row in answer["data"] if str(GUEST.uuid) in str(row)]
            if kept and kept[-1].get("request") == one["request"]:
                kept.pop()
        kept.append(one)
    return kept


if __name__ == "__main__":
    main(Path(sys.argv[1]))
