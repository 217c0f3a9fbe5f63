"""A call made again with its ``requesttoken`` answers the same jobs, whenever it comes."""

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode, urlsplit

from sqlalchemy import Engine

from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from tests.commands.deployments.test_bulk_answer import Bulk, assert_intact
from tests.commands.deployments.test_bulk_rules import refused
from tests.support.api.api_client import ApiClient
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.zone_queries import Zone

RENAMED = (
    ("updateZone", "zones", "small"),
    ("updateDomain", "domains", "acme"),
    ("updateTemplate", "templates", "Debian 12"),
    ("updateServiceOffering", "service_offerings", "Small"),
    ("updateDiskOffering", "disk_offerings", "20 GiB"),
    ("updateNetwork", "networks", "guests"),
)
"""By the command that renames it: what a call names by id."""


def test_a_request_token_answers_the_same_jobs(bulk: Bulk, zone: Zone) -> None:
    """The same call again under its token makes nothing new; another call under it is refused."""
    first = bulk(count=3, requesttoken="order-17")
    again = bulk(count=3, requesttoken="order-17")
    assert [job["jobid"] for job in again["asyncjobs"]] == [job["jobid"] for job in first["asyncjobs"]]
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 3
    refused(bulk, 431, "requesttoken", count=4, requesttoken="order-17")


def test_a_token_outlives_new_names(client: ApiClient, zone: Zone) -> None:
    """What the call names may be renamed before it is repeated: it is the same call, and answers the same jobs."""
    place = {name: zone.id_of(table, row) for name, table, row in RENAMED}
    call = zone.bulk_parameters(3, requesttoken="renamed", networkids=place["updateNetwork"])
    call["diskofferingid"] = place["updateDiskOffering"]
    first = client.call("bulkDeployVirtualMachine", **call)["asyncjobs"]
    for command, uuid in place.items():
        client.call(command, id=uuid, name=f"renamed-by-{command}")
    assert client.call("bulkDeployVirtualMachine", **call)["asyncjobs"] == first
    client.call("deleteServiceOffering", id=place["updateServiceOffering"])
    assert client.call("bulkDeployVirtualMachine", **call)["asyncjobs"] == first
    other = client.get("bulkDeployVirtualMachine", **{**call, "diskofferingid": ""})
    assert (other.status, "requesttoken" in other.body["errortext"]) == (431, True)
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 3


def test_one_token_used_by_many_at_once_deploys_once(bulk: Bulk, zone: Zone, engine: Engine) -> None:
    """Eight equal calls at the same moment answer the same jobs."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: bulk(count=3, requesttoken="at-once"), range(8)))
    assert len({tuple(job["jobid"] for job in answer["asyncjobs"]) for answer in answers}) == 1
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 3
    assert_intact(engine)


def test_a_token_of_a_call_still_under_way_is_waited_for(
    client: ApiClient, bulk: Bulk, zone: Zone, engine: Engine
) -> None:
    """The connection broke and the call goes on: made again before it commits, it gives the same jobs."""
    at_commit, go_on = threading.Event(), threading.Event()

    def fault(place: str) -> None:
        if place == f"{Failpoint.CALL_COMMIT}.before" and not at_commit.is_set():
            at_commit.set()
            assert go_on.wait(PATIENCE_S)

    failpoints.arm(fault)
    try:
        link = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=PATIENCE_S)
        requested = urlencode(
            client.signed("bulkDeployVirtualMachine", **zone.bulk_parameters(3, requesttoken="slow"))
        )
        link.request("GET", f"/client/api?{requested}")
        assert at_commit.wait(PATIENCE_S)
        link.close()
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(bulk, 3, requesttoken="slow")
            while not zone.scalar("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
                assert not again.done()
            go_on.set()
            answer = again.result()
    finally:
        go_on.set()
        failpoints.arm(None)
    made = [str(row.uuid) for row in zone.rows("SELECT uuid FROM async_jobs ORDER BY id")]
    assert [job["jobid"] for job in answer["asyncjobs"]] == made
    assert len(made) == zone.scalar("SELECT count(*) FROM virtual_machines") == 3
    assert_intact(engine)
