"""What a batch costs beside Ganeti's own work, on a live cluster: ``make test-ganeti``; prints our CPU a VM."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.batches import StartCall
from bulkdeploy.drivers.contract import Subjects
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.ganeti.live import PATIENCE_S, address, needs_cluster, options
from tests.support.runs.waiting import say

pytestmark = needs_cluster

COUNT = int(os.environ.get("GANETI_VMS", "6"))


@pytest.fixture
def driver(engine: Engine) -> Iterator[GanetiDriver]:
    """A driver of diskless instances."""
    made = GanetiDriver.from_options(options(disk_template="diskless", jobs_at_once=COUNT))
    directory = FixedDirectory([address(1), address(2)], shared_pool(Subjects().pool_uuid))
    made.use_records(replace(records_in(engine, lambda _: True), directory=directory))
    yield made
    for one in list(made._instances(60)):
        made._rapi.run("DELETE", f"/2/instances/{one.uuid}.bulkdeploy", timeout_s=PATIENCE_S, shutdown_timeout="0")
    made.close()


def test_a_batch_takes_few_requests(driver: GanetiDriver) -> None:
    """One for all, and for each VM one wait for its job and one look, unless a wait of ten seconds runs out."""
    paths: list[str] = []

    def note(answer: Any, **_: object) -> None:
        paths.append(answer.request.path_url.partition("?")[0])

    driver._rapi.http.session.hooks["response"].append(note)
    hosts = driver._records.directory.hosts()
    subjects = replace(Subjects(), memory_mib=16)
    calls = [StartCall(hosts[number % 2], subjects.new_guest(), 1) for number in range(COUNT)]
    began, spent = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(COUNT) as threads:
        for ended in [threads.submit(answer) for answer in driver.begin(calls, timeout_s=PATIENCE_S)]:
            ended.result()
    took, spent = time.monotonic() - began, time.process_time() - spent
    say(f"{COUNT} VMs in {took:.1f} s, {len(paths)} requests, {1000 * spent / COUNT:.1f} ms of our CPU a VM")
    assert paths.count("/2/instances-multi-alloc") == 1
    waits = [path for path in paths if path.endswith("/wait")]
    assert len(paths) - len(waits) <= 3 + len(waits)
    assert len(waits) <= 1 + COUNT + 4 * (1 + took / 10)
